// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/shards.h"

#include <algorithm>

namespace atl {

void ShardBook::Saw(const WorkerId& worker, uint32_t corpus) {
  if (corpus >= holders_.size()) return;
  Forget(worker);
  holders_[corpus] = worker;
}

void ShardBook::Forget(const WorkerId& worker) { std::replace(holders_.begin(), holders_.end(), worker, WorkerId{}); }

std::optional<uint32_t> ShardBook::Take(const WorkerId& worker, const std::set<WorkerId>& present) {
  if (const auto own = Of(worker)) return own;
  auto free = std::find(holders_.begin(), holders_.end(), WorkerId{});
  if (free == holders_.end()) {
    free = std::find_if(holders_.begin(), holders_.end(), [&](const WorkerId& w) { return !present.contains(w); });
  }
  if (free == holders_.end()) return std::nullopt;
  *free = worker;
  return static_cast<uint32_t>(free - holders_.begin());
}

std::optional<uint32_t> ShardBook::Of(const WorkerId& worker) const {
  const auto own = std::find(holders_.begin(), holders_.end(), worker);
  if (own == holders_.end()) return std::nullopt;
  return static_cast<uint32_t>(own - holders_.begin());
}

}  // namespace atl
