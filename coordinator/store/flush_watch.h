// SPDX-License-Identifier: Apache-2.0
// Watches flushes in progress and logs a warning when one takes long. A disk that hangs blocks all
// work that waits for it, and nothing else would report the cause. The watch neither aborts nor
// repeats a flush: a flush that returns has succeeded or failed as usual.
#ifndef ATOLL_COORDINATOR_STORE_FLUSH_WATCH_H_
#define ATOLL_COORDINATOR_STORE_FLUSH_WATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "coordinator/store/ledger.h"

namespace atl {

// The usual duration is measured for each kind separately.
enum class FlushKind : uint8_t {
  kSync,        // bytes appended to a file, or the names in a directory
  kWholeFile,   // a file written and flushed in one call
  kTransaction  // a transaction of the ledger
};

// Thread-safe.
class FlushWatch {
 public:
  // A flush of n bytes is overdue after kFloor plus kTimesUsual times its usual duration. The usual
  // duration is the median of the newest kRemembered small flushes plus n divided by the
  // median rate of the newest kRemembered flushes of at least kMeasuredBytes.
  static constexpr Duration kFloor = Seconds(10);
  static constexpr int64_t kTimesUsual = 2;
  static constexpr Duration kAgainEvery = Seconds(60);
  static constexpr Duration kLookEvery = Seconds(1);
  static constexpr uint64_t kMeasuredBytes = uint64_t{1} << 20;
  static constexpr double kUnmeasuredBytesPerSecond = 10e6;  // until a rate is measured
  static constexpr size_t kRemembered = 15;

  FlushWatch(const Clock& clock, Log& log) : clock_(clock), log_(log) {}

  // One flush, from construction to destruction.
  class Flush {
   public:
    // `bytes`: the number of bytes to be flushed, as far as it is known.
    Flush(FlushWatch& watch, FlushKind kind, std::string file, uint64_t bytes);
    ~Flush();
    Flush(const Flush&) = delete;
    Flush& operator=(const Flush&) = delete;

   private:
    friend class FlushWatch;
    FlushWatch& watch_;
    const FlushKind kind_;
    const std::string file_;
    const uint64_t bytes_;
    Instant began_;
    Instant told_next_ = kNever;  // guarded by the mutex of the watch
    bool told_ = false;
    std::list<Flush*>::iterator place_;
  };

  // Logs `flush takes long` for each overdue flush: in the first call that finds it overdue, then every minute.
  void Look() ATOLL_EXCLUDES(mutex_);
  // Calls Look every second until `stop` is requested.
  void Run(const std::stop_token& stop) ATOLL_EXCLUDES(mutex_);
  // The age of the oldest flush in progress; zero if there is none.
  Duration Oldest() const ATOLL_EXCLUDES(mutex_);

 private:
  // The newest flushes of a kind, oldest first.
  struct Shown {
    std::vector<double> small_seconds;
    std::vector<double> bytes_per_second;
  };
  // The usual duration (above). Before any measurement: `bytes` divided by kUnmeasuredBytesPerSecond.
  Duration Usually(FlushKind kind, uint64_t bytes) const ATOLL_REQUIRES(mutex_);
  void Tell(const Flush& flush, Duration taken) ATOLL_REQUIRES(mutex_);
  void End(Flush& flush) ATOLL_EXCLUDES(mutex_);

  const Clock& clock_;
  Log& log_;
  mutable Mutex mutex_;
  std::list<Flush*> under_way_ ATOLL_GUARDED_BY(mutex_);  // oldest first
  std::array<Shown, 3> shown_ ATOLL_GUARDED_BY(mutex_);
};

// Wraps `files` or `ledger` so that `watch` sees their flushes, except those of Ledger::Recover;
// `path` is the ledger's file. As thread-safe as the wrapped object. `watch` must outlive the result.
std::unique_ptr<Files> WithFlushWatch(std::unique_ptr<Files> files, FlushWatch& watch);
std::unique_ptr<Ledger> WithFlushWatch(std::unique_ptr<Ledger> ledger, std::string path, FlushWatch& watch);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_FLUSH_WATCH_H_
