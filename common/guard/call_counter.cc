// SPDX-License-Identifier: Apache-2.0
#include "common/guard/call_counter.h"

#include <algorithm>

namespace atl::guard {

void CallCounter::Begin(Instant now) {
  if (now - began_ < Seconds(1)) return;
  began_ = now;
  all_ = 0;
  own_.clear();
}

void CallCounter::Add(const std::string& peer, uint32_t calls, Instant now) {
  const MutexLock lock(mutex_);
  Begin(now);
  uint32_t& own = own_[peer];
  const auto counted = [&] { return std::clamp(own, limits_.always, limits_.peer); };
  const uint32_t before = counted();
  own += std::min(calls, UINT32_MAX - own);
  all_ += counted() - before;
}

std::shared_ptr<CallerLoad> CallCounter::LoadOf(const std::string& peer) {
  const MutexLock lock(mutex_);
  std::erase_if(loads_, [](const auto& of) { return of.second.expired(); });
  std::weak_ptr<CallerLoad>& known = loads_[peer];
  std::shared_ptr<CallerLoad> load = known.lock();
  if (load == nullptr) known = load = std::make_shared<CallerLoad>();
  return load;
}

std::optional<Instant> CallCounter::PausedUntil(const std::string& peer, Instant now) {
  const MutexLock lock(mutex_);
  Begin(now);
  const auto own = own_.find(peer);
  if (own == own_.end() || own->second <= limits_.always) return std::nullopt;
  if (own->second <= limits_.peer && all_ <= limits_.all) return std::nullopt;
  return began_ + Seconds(1);
}

}  // namespace atl::guard
