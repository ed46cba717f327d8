// SPDX-License-Identifier: Apache-2.0
// A thread that drives connections: waits for their sockets, moves their bytes, ends them.
#ifndef ATOLL_COMMON_GUARD_LOOP_H_
#define ATOLL_COMMON_GUARD_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/guard/connection.h"

namespace atl::guard {

// Thread-safe unless stated otherwise.
class Loop {
 public:
  using Make = std::function<std::unique_ptr<Connection>(Accepted accepted, Instant now)>;
  using Ended = std::function<void(uint64_t id, Ending how)>;
  // `make` and `ended` are called on the loop's thread.
  static absl::StatusOr<std::unique_ptr<Loop>> Start(Make make, Ended ended);
  // Ends the thread and all connections.
  ~Loop();
  void Add(Accepted accepted) ATOLL_EXCLUDES(mutex_);
  // Both return at once and run `work` on the loop's thread: For for one connection, unless it has
  // ended; ForEach for all connections.
  void For(uint64_t id, std::function<void(Connection&)> work) ATOLL_EXCLUDES(mutex_);
  void ForEach(std::function<void(Connection&)> work) ATOLL_EXCLUDES(mutex_);

 private:
  // A connection with its epoll registration.
  struct Entry {
    std::unique_ptr<Connection> connection;
    Wait outer, inner;
    Instant wake = kNever;
  };
  Loop(Descriptor poll, Descriptor wake, Make make, Ended ended);
  void Post(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  void Run();
  int WaitMs(Instant now) const;
  void RunPosted() ATOLL_EXCLUDES(mutex_);
  void Drive(uint64_t id);
  bool Watch(uint64_t id, Wait& known, const Wait& wanted) const;
  void Drop(uint64_t id);

  const Descriptor poll_, wake_;
  const Make make_;
  const Ended ended_;
  const SystemClock clock_;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  // Used on the thread only.
  std::unordered_map<uint64_t, Entry> entries_;
  std::set<std::pair<Instant, uint64_t>> wakes_;
  std::vector<uint64_t> again_, due_;
  std::vector<uint8_t> scratch_;
  std::jthread thread_;  // last: ends before the members it uses
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_LOOP_H_
