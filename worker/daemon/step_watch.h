// SPDX-License-Identifier: Apache-2.0
// Detects a training step, or work between two steps, that does not end. A hanging device or driver
// blocks the train thread while heartbeats continue, so nothing else detects it. Time in which Look
// is not called does not count: a process that was stopped is not hung.
#ifndef ATOLL_WORKER_DAEMON_STEP_WATCH_H_
#define ATOLL_WORKER_DAEMON_STEP_WATCH_H_

#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "worker/session/session.h"

namespace atl {

// Thread-safe.
class StepWatch {
 public:
  // The usual duration is the median of the newest kRemembered steps. A step takes long after both
  // kFloor and kTimesUsual times the usual duration, and counts as hung after both kGivenUp and
  // kTimesGivenUp times it. The first step of a job, which chooses kernels and records graphs,
  // takes long after kFirst, and counts as hung after kFirstGivenUp plus kTimesSlow times the step
  // time of a very slow machine. Work between two steps always has the limits of a first step.
  static constexpr Duration kFloor = Seconds(60), kFirst = Seconds(600), kGivenUp = Seconds(600);
  static constexpr Duration kFirstGivenUp = Seconds(3600);
  static constexpr int64_t kTimesUsual = 10, kTimesGivenUp = 20, kTimesSlow = 3;
  static constexpr Duration kAgainEvery = Seconds(60);
  static constexpr Duration kLongestLook = Seconds(3);  // longest time between two calls of Look that counts
  static constexpr size_t kRemembered = 15;

  StepWatch(const Clock& clock, Log& log) : clock_(clock), log_(log) {}

  // Called by the train thread for one piece of work at a time. Durations of another job's steps
  // are not used. `slow_step`: the step time of a very slow machine (common/plan/slow_step.h).
  void Begins(const JobId& job, TrainWork work, Duration slow_step) ATOLL_EXCLUDES(mutex_);
  void Ended() ATOLL_EXCLUDES(mutex_);

  // Call about every second, from one thread. Logs the warning `step takes long` or `work takes long`, repeated
  // every minute. DeadlineExceeded once the work counts as hung, with its kind, its duration and the remedy.
  absl::Status Look() ATOLL_EXCLUDES(mutex_);

 private:
  Duration Usual() const ATOLL_REQUIRES(mutex_);  // for the current work; zero: unknown
  void Count(Instant now) ATOLL_REQUIRES(mutex_);

  const Clock& clock_;
  Log& log_;
  Mutex mutex_;
  std::optional<TrainWork> under_way_ ATOLL_GUARDED_BY(mutex_);
  Instant counted_to_ ATOLL_GUARDED_BY(mutex_){};
  Duration taken_ ATOLL_GUARDED_BY(mutex_){};      // by the current work, as far as it was watched
  Duration told_next_ ATOLL_GUARDED_BY(mutex_){};  // zero: no warning was logged
  JobId job_ ATOLL_GUARDED_BY(mutex_);
  Duration slow_step_ ATOLL_GUARDED_BY(mutex_){};
  std::vector<Duration> newest_ ATOLL_GUARDED_BY(mutex_);  // of that job's steps, oldest first
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_STEP_WATCH_H_
