// SPDX-License-Identifier: Apache-2.0
// The watchers of jobs, and the time of each watcher's next glance. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_WATCHERS_H_
#define ATOLL_COORDINATOR_ENGINE_WATCHERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace atl {

struct JobGlance;

// The receiver of glances.
struct GlanceSink {
  std::function<void(const absl::StatusOr<const JobGlance*>&)> show;
  // Whether the receiver can take a glance now. While it cannot, it gets none: it holds at most one
  // glance, and the next one has all events since.
  std::function<bool()> takes = [] { return true; };
};

class Watchers {
 public:
  size_t size() const { return watchers_.size(); }
  // Adds a watcher that is not due yet. `after_revision`: of the newest event that it has.
  void Add(uint64_t watcher, JobId job, uint64_t after_revision, GlanceSink sink);
  void Remove(uint64_t watcher) { watchers_.erase(watcher); }
  // Makes the watcher due at `now`. No effect for an unknown watcher.
  void MakeDue(uint64_t watcher, Instant now);
  // Makes all watchers of the job due.
  void MakeDue(const JobId& job, Instant now);
  // When ServeNext must be called; kNever if no watcher is due.
  Instant NextDue() const;
  // Shows its job to the due watcher that takes a glance (GlanceSink) and has been due for the longest time;
  // removes it if the job has ended. All watchers tried are due again after half a second. False: none was shown.
  bool ServeNext(Instant now, const std::function<JobGlance(const JobId& job, uint64_t after_revision)>& glance);

 private:
  struct Watcher {
    JobId job;
    uint64_t after_revision = 0;
    Instant due = kNever;
    GlanceSink sink;
  };
  std::map<uint64_t, Watcher> watchers_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_WATCHERS_H_
