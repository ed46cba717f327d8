// SPDX-License-Identifier: Apache-2.0
// Flushes that are under way, and a word about one that takes long: a disk that hangs holds what waits for it, and
// nothing else would say so. Nothing is ended and nothing is tried again: a flush that returns has done its work.
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

// What took long before is measured of each kind by itself.
enum class FlushKind : uint8_t {
  kSync,        // of what was appended to a file, or of a directory's names
  kWholeFile,   // a file that is written and flushed in one call
  kTransaction  // of the ledger
};

// Thread-safe.
class FlushWatch {
 public:
  // A flush of so many bytes is overdue when it takes this long and kTimesUsual times what it usually takes: the middle
  // of the newest kRemembered small ones, and the bytes at the middle of the rates of the newest kRemembered that had
  // at least kMeasuredBytes.
  static constexpr Duration kFloor = Seconds(10);
  static constexpr int64_t kTimesUsual = 2;
  static constexpr Duration kAgainEvery = Seconds(60);
  static constexpr Duration kLookEvery = Seconds(1);
  static constexpr uint64_t kMeasuredBytes = uint64_t{1} << 20;
  static constexpr double kUnmeasuredBytesPerSecond = 10e6;  // where no rate was measured yet
  static constexpr size_t kRemembered = 15;

  FlushWatch(const Clock& clock, Log& log) : clock_(clock), log_(log) {}

  // One flush, from its making to its end.
  class Flush {
   public:
    // `bytes`: to be flushed, as far as that is known.
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
    Instant told_next_ = kNever;  // guarded by the watch
    bool told_ = false;
    std::list<Flush*>::iterator place_;
  };

  // A warning `flush takes long` of each flush that is overdue, once and every minute from then on.
  void Look() ATOLL_EXCLUDES(mutex_);
  // Looks every second until it is asked to stop.
  void Run(const std::stop_token& stop) ATOLL_EXCLUDES(mutex_);
  // How long the oldest one that is under way has been so; zero: none is.
  Duration Oldest() const ATOLL_EXCLUDES(mutex_);

 private:
  // The newest flushes of a kind, oldest first.
  struct Shown {
    std::vector<double> small_seconds;
    std::vector<double> bytes_per_second;
  };
  // Nothing is known of small ones: zero.
  Duration Usually(FlushKind kind, uint64_t bytes) const ATOLL_REQUIRES(mutex_);
  void Tell(const Flush& flush, Duration taken) ATOLL_REQUIRES(mutex_);
  void End(Flush& flush) ATOLL_EXCLUDES(mutex_);

  const Clock& clock_;
  Log& log_;
  mutable Mutex mutex_;
  std::list<Flush*> under_way_ ATOLL_GUARDED_BY(mutex_);  // oldest first
  std::array<Shown, 3> shown_ ATOLL_GUARDED_BY(mutex_);
};

// `files` and `ledger`, whose flushes are watched; the latter's file is named `path`. Thread-safe as they are; `watch`
// outlives them.
std::unique_ptr<Files> WithFlushWatch(std::unique_ptr<Files> files, FlushWatch& watch);
std::unique_ptr<Ledger> WithFlushWatch(std::unique_ptr<Ledger> ledger, std::string path, FlushWatch& watch);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_FLUSH_WATCH_H_
