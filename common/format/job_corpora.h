// SPDX-License-Identifier: Apache-2.0
// What a job asks of its corpora, as far as their manifests tell: the coordinator decides by it, and the command line
// says the same before anything is stored. Pure.
#ifndef ATOLL_COMMON_FORMAT_JOB_CORPORA_H_
#define ATOLL_COMMON_FORMAT_JOB_CORPORA_H_

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"

namespace atl {

// Whether all corpora have one tokenizer, whose tokens the model knows. `manifests` are in the order of data.corpora,
// as in all of this.
std::vector<Violation> CheckTokenizers(const JobSpec& spec, const std::vector<CorpusManifest>& manifests);

struct SampleCounts {
  std::vector<Violation> violations;  // not empty: the rest means nothing
  std::vector<uint64_t> epoch;        // samples of one, by corpus
  uint64_t dataset = 0;               // UINT64_MAX without end
  uint64_t held_out = 0;              // that one evaluation reads; 0: it has nothing to read
};
// InvalidArgument when there are not as many manifests as corpora.
absl::StatusOr<SampleCounts> CountSamples(const JobSpec& spec, const std::vector<CorpusManifest>& manifests);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_JOB_CORPORA_H_
