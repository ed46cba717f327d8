// SPDX-License-Identifier: Apache-2.0
#include "common/format/corpus_shapes.h"

#include <utility>

namespace atl {

absl::StatusOr<std::vector<CorpusShape>> ShapesOf(const DataSpec& data, const std::vector<CorpusManifest>& manifests,
                                                  CorpusSplit split) {
  if (data.corpora.size() != manifests.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the job names ", data.corpora.size(), " corpora, but ",
                                                   manifests.size(), " manifests are known"));
  }
  std::vector<CorpusShape> shapes;
  for (size_t i = 0; i < manifests.size(); ++i) {
    CorpusShape shape{.name = data.corpora[i].name,
                      .weight = data.corpora[i].weight,
                      .bytes_per_token = static_cast<uint32_t>(TokenBytes(manifests[i].token_type)),
                      .shard_tokens = {}};
    for (const CorpusFile* file : manifests[i].FilesOf(split)) shape.shard_tokens.push_back(file->tokens);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace atl
