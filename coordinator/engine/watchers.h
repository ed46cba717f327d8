// SPDX-License-Identifier: Apache-2.0
// Who watches jobs, and when each is shown its job next. Lives on the engine thread.
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

// Where looks at a job go.
struct GlanceSink {
  std::function<void(const absl::StatusOr<const JobGlance*>&)> show;
  // Whether it would take one now. While it would not it is shown nothing, so that it holds one look at most, and the
  // next one has the events of them all.
  std::function<bool()> takes = [] { return true; };
};

class Watchers {
 public:
  size_t size() const { return watchers_.size(); }
  // Is due at no time yet. `after_revision`: of the newest event that it has seen.
  void Add(uint64_t watcher, JobId job, uint64_t after_revision, GlanceSink sink);
  void Remove(uint64_t watcher) { watchers_.erase(watcher); }
  // From now on. No effect on one that is not there.
  void MakeDue(uint64_t watcher, Instant now);
  // Likewise all who watch the job.
  void MakeDue(const JobId& job, Instant now);
  // When Serve has to be called; kNever while nobody is due at any time.
  Instant NextDue() const;
  // Shows their jobs to those who are due and would take it, and has them due again in half a second. Who has seen its
  // job's end is removed.
  void Serve(Instant now, const std::function<JobGlance(const JobId& job, uint64_t after_revision)>& glance);

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
