// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/version_pins.h"

#include <algorithm>

#include "common/plan/limits.h"

namespace atl {
namespace {

// A worker requests the next update while the previous one is in flight, and may have to request
// that one again.
constexpr uint64_t kAskedAtOnce = 2;

}  // namespace

uint64_t VersionPins::Begin(const WorkerId& worker, Version version) {
  if (pins_.size() >= limits::kWorkers && !pins_.contains(worker)) return 0;
  pins_[worker] = {.version = version, .download = ++downloads_};
  return downloads_;
}

void VersionPins::End(const WorkerId& worker, uint64_t download, Instant now) {
  const auto it = pins_.find(worker);
  if (it == pins_.end() || it->second.download != download) return;
  it->second.open = false;
  it->second.until = now + kPinAfterBreak;
}

void VersionPins::AskedForUpdate(const WorkerId& worker, Version reached, Version head, Instant now) {
  const auto it = pins_.find(worker);
  if (it == pins_.end()) return;
  if (reached >= head) {
    pins_.erase(it);
    return;
  }
  Pin& pin = it->second;
  pin.open = pin.needs_whole = false;
  pin.until = now + kPinAfterBreak;
  pin.version = std::max(pin.version, Version{reached.value - std::min(reached.value, kAskedAtOnce)});
}

VersionPins::Kept VersionPins::KeptFor(Version head, Instant now) {
  Kept kept;
  for (auto it = pins_.begin(); it != pins_.end();) {
    const Pin& pin = it->second;
    if (!MayGoOn(pin.version, head) || (!pin.open && now >= pin.until)) {
      it = pins_.erase(it);
      continue;
    }
    if (pin.needs_whole) kept.snapshot = std::min(kept.snapshot.value_or(pin.version), pin.version);
    kept.updates_from = std::min(kept.updates_from.value_or(pin.version), pin.version);
    ++it;
  }
  return kept;
}

}  // namespace atl
