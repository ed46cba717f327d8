// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/watchers.h"

#include <algorithm>
#include <utility>

#include "coordinator/engine/engine.h"

namespace atl {
namespace {

constexpr Duration kWatchInterval = Milliseconds(500);

}  // namespace

void Watchers::Add(uint64_t watcher, JobId job, uint64_t after_revision, GlanceSink sink) {
  watchers_[watcher] = {std::move(job), after_revision, kNever, std::move(sink)};
}

void Watchers::MakeDue(uint64_t watcher, Instant now) {
  const auto it = watchers_.find(watcher);
  if (it != watchers_.end()) it->second.due = now;
}

void Watchers::MakeDue(const JobId& job, Instant now) {
  for (auto& [id, watcher] : watchers_) {
    if (watcher.job == job) watcher.due = now;
  }
}

Instant Watchers::NextDue() const {
  Instant next = kNever;
  for (const auto& [id, watcher] : watchers_) next = std::min(next, watcher.due);
  return next;
}

bool Watchers::ServeNext(Instant now, const std::function<JobGlance(const JobId&, uint64_t)>& glance) {
  while (true) {
    const auto next = std::min_element(watchers_.begin(), watchers_.end(),
                                       [](const auto& a, const auto& b) { return a.second.due < b.second.due; });
    if (next == watchers_.end() || next->second.due > now) return false;
    Watcher& watcher = next->second;
    watcher.due = now + kWatchInterval;
    if (!watcher.sink.takes()) continue;
    const JobGlance look = glance(watcher.job, watcher.after_revision);
    if (!look.events.empty()) watcher.after_revision = look.events.back().revision;
    watcher.sink.show(&look);
    if (HasEnded(look.view.record.state)) watchers_.erase(next);
    return true;
  }
}

}  // namespace atl
