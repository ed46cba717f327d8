// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/served_manifests.h"

#include <algorithm>
#include <string>

#include "common/plan/limits.h"

namespace atl {
namespace {

size_t BlocksOf(const CorpusManifest& manifest) {
  size_t blocks = 0;
  for (const CorpusFile& file : manifest.files) blocks += file.blocks.size();
  return blocks;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CorpusManifest>> ServedManifests::Get(const Sha256& sha256) {
  const auto known = std::ranges::find(kept_, sha256, [](const auto& one) { return one.first; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().second;
  }
  ATOLL_ASSIGN_OR_RETURN(const std::string text, blobs_.Read(sha256, limits::kManifestBytes));
  ATOLL_ASSIGN_OR_RETURN(CorpusManifest manifest, ParseManifest(text));
  kept_.emplace_front(sha256, std::make_shared<const CorpusManifest>(std::move(manifest)));
  size_t blocks = BlocksOf(*kept_.front().second);
  for (auto it = std::next(kept_.begin()); it != kept_.end();) {
    blocks += BlocksOf(*it->second);
    it = blocks > most_blocks_ ? kept_.erase(it) : std::next(it);
  }
  return kept_.front().second;
}

}  // namespace atl
