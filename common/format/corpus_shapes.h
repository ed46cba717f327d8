// SPDX-License-Identifier: Apache-2.0
// Shapes of a job's corpora for the data order: token counts of their shards, from the manifests.
// The coordinator counts samples with them and workers locate samples, so both must use the same
// shapes. Pure.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_
#define ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_

#include <vector>

#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/data_order.h"
#include "common/plan/job_spec.h"

namespace atl {

// Returns the shards of one split, in manifest order, with the job's names and weights. `manifests`
// are in the order of data.corpora; InvalidArgument when the numbers differ.
absl::StatusOr<std::vector<CorpusShape>> ShapesOf(const DataSpec& data, const std::vector<CorpusManifest>& manifests,
                                                  CorpusSplit split);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_
