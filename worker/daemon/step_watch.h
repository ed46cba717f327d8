// SPDX-License-Identifier: Apache-2.0
// A step of training that does not end, or what is done between two: a device or its driver that hangs holds the train
// thread, while heartbeats go on, so that nobody else notices. Time in which nobody looked does not count: a process
// that was stopped is not hung.
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
  // A step takes long after kFloor and kTimesUsual times what one usually takes, the middle of the newest kRemembered,
  // and is given up after kGivenUp and kTimesGivenUp times that. The first one of a job, in which kernels are chosen
  // and graphs recorded, takes long after kFirst, and is given up after kFirstGivenUp and kTimesSlow times what it
  // takes a very slow machine. So does what is done between steps, by which nothing else is judged.
  static constexpr Duration kFloor = Seconds(60), kFirst = Seconds(600), kGivenUp = Seconds(600);
  static constexpr Duration kFirstGivenUp = Seconds(3600);
  static constexpr int64_t kTimesUsual = 10, kTimesGivenUp = 20, kTimesSlow = 3;
  static constexpr Duration kAgainEvery = Seconds(60);
  static constexpr Duration kLongestLook = Seconds(3);  // between two looks; more of it does not count
  static constexpr size_t kRemembered = 15;

  StepWatch(const Clock& clock, Log& log) : clock_(clock), log_(log) {}

  // Of the train thread: one piece of work at a time. What steps of another job took says nothing. `slow_step`: what
  // one takes a very slow machine (common/plan/slow_step.h).
  void Begins(const JobId& job, TrainWork work, Duration slow_step) ATOLL_EXCLUDES(mutex_);
  void Ended() ATOLL_EXCLUDES(mutex_);

  // To be called every second or so, by one thread. A warning `step takes long` of a step that does, once and every
  // minute from then on. DeadlineExceeded once it is given up: what was waited for, how long, and what to do.
  absl::Status Look() ATOLL_EXCLUDES(mutex_);

 private:
  Duration Usual() const ATOLL_REQUIRES(mutex_);  // of what is under way; zero: nothing is known
  void Count(Instant now) ATOLL_REQUIRES(mutex_);

  const Clock& clock_;
  Log& log_;
  Mutex mutex_;
  std::optional<TrainWork> under_way_ ATOLL_GUARDED_BY(mutex_);
  Instant counted_to_ ATOLL_GUARDED_BY(mutex_){};
  Duration taken_ ATOLL_GUARDED_BY(mutex_){};      // by what is under way, as far as it was watched
  Duration told_next_ ATOLL_GUARDED_BY(mutex_){};  // zero: not told of
  JobId job_ ATOLL_GUARDED_BY(mutex_);
  Duration slow_step_ ATOLL_GUARDED_BY(mutex_){};
  std::vector<Duration> newest_ ATOLL_GUARDED_BY(mutex_);  // of that job, oldest first
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_STEP_WATCH_H_
