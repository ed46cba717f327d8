// SPDX-License-Identifier: Apache-2.0
// Checks a job against its corpora, using only their manifests. The coordinator decides by it, and
// the command line reports the same before it stores anything. Pure.
#ifndef ATOLL_COMMON_FORMAT_JOB_CORPORA_H_
#define ATOLL_COMMON_FORMAT_JOB_CORPORA_H_

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// Checks that all corpora have the same tokenizer, and that the model's vocabulary covers it. Here
// and below, `manifests` are in the order of data.corpora.
std::vector<Violation> CheckTokenizers(const JobSpec& spec, const std::vector<CorpusManifest>& manifests);

struct SampleCounts {
  std::vector<Violation> violations;  // if not empty, the other fields are undefined
  std::vector<uint64_t> epoch;        // samples in one epoch, by corpus
  uint64_t dataset = 0;               // UINT64_MAX: unlimited
  uint64_t held_out = 0;              // samples that one evaluation reads; 0: none available
};
// InvalidArgument when the numbers of manifests and corpora differ.
absl::StatusOr<SampleCounts> CountSamples(const JobSpec& spec, const std::vector<CorpusManifest>& manifests);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_JOB_CORPORA_H_
