// SPDX-License-Identifier: Apache-2.0
// What the data order needs to know of a job's corpora: their shards' token counts, from the manifests. The coordinator
// counts samples with it and workers find them, so both must see the same. Pure.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_
#define ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_

#include <vector>

#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/data_order.h"
#include "common/plan/job_spec.h"

namespace atl {

// The shards of one split, in manifest order, with the job's names and weights. `manifests` are in the order of
// data.corpora; InvalidArgument when they are not as many.
absl::StatusOr<std::vector<CorpusShape>> ShapesOf(const DataSpec& data, const std::vector<CorpusManifest>& manifests,
                                                  CorpusSplit split);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_SHAPES_H_
