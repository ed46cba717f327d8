// SPDX-License-Identifier: Apache-2.0
// An island with threads of this process as ranks, over real sockets at a port chosen by the
// system.
#ifndef ATOLL_TESTS_UNIT_WORKER_ISLAND_ISLAND_OF_THREADS_H_
#define ATOLL_TESTS_UNIT_WORKER_ISLAND_ISLAND_OF_THREADS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/island/socket.h"
#include "worker/island/tcp_island.h"

namespace atl {

// Reads of the clock by a waiting rank. After kEntering it is certainly in the exchange; after
// kLooking it has seen the current time.
constexpr int kEntering = 8, kLooking = 3;

// A manual clock that counts its reads. Thread-safe.
class SharedClock final : public Clock {
 public:
  Instant Now() const override {
    ++looks_;
    return {now_.load()};
  }
  int64_t WallNanos() const override { return now_.load(); }
  void Advance(Duration d) { now_ += d.ns; }
  int looks() const { return looks_; }
  // Returns once other threads have read the clock `looks` times since it had `before` reads.
  void AwaitLooks(int before, int looks) const {
    while (looks_ < before + looks) std::this_thread::yield();
  }

 private:
  std::atomic<int64_t> now_{1'000'000'000};
  mutable std::atomic<int> looks_{0};
};

// Rank 0 does nothing for this duration except report, from another thread of its process, that it
// is alive. Rank 1 waits.
inline void StayAway(TcpIsland& leader, SharedClock& clock, Duration away) {
  const Duration step = leader.Silence() / 2;
  for (const Instant end = clock.Now() + away; clock.Now() < end;) {
    clock.Advance(step);
    leader.SayHere();
    clock.AwaitLooks(clock.looks(), kLooking);  // the report was received
  }
}

class IslandOfThreads {
 public:
  explicit IslandOfThreads(uint32_t world) : world_(world), listener_(*ListenAt("127.0.0.1", 0)) {}

  IslandPlace Place(uint32_t rank) const {
    IslandPlace place;
    place.rank = rank;
    place.world = world_;
    place.port = LocalPort(listener_);
    place.secret = "a secret of sixteen or more";
    place.program = "test";
    return place;
  }
  absl::StatusOr<Mesh> Meet(const IslandPlace& place) {
    const StillWanted yes = [] { return absl::OkStatus(); };
    if (place.rank == 0) return MeetAsLeader(listener_, place, limits, clock, yes);
    return MeetAsFollower(place, limits, clock, yes);
  }
  // Runs `body` on every rank, each in its own thread, once all have met. With `dying` a rank's
  // sockets close as soon as its body returns, as when a process is killed; otherwise once all have
  // returned.
  void Run(const std::function<void(TcpIsland&)>& body, bool dying = false) {
    std::atomic<uint32_t> met{0}, done{0};
    std::vector<std::jthread> ranks;
    for (uint32_t rank = 0; rank < world_; ++rank) {
      ranks.emplace_back([&, rank] {
        auto mesh = Meet(Place(rank));
        for (++met; met < world_;) std::this_thread::yield();
        ASSERT_TRUE(mesh.ok()) << mesh.status();
        TcpIsland island(*std::move(mesh), limits, clock);
        body(island);
        for (++done; !dying && done < world_;) std::this_thread::yield();
      });
    }
  }
  const Descriptor& listener() const { return listener_; }

  IslandLimits limits;
  SharedClock clock;

 private:
  const uint32_t world_;
  const Descriptor listener_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_ISLAND_ISLAND_OF_THREADS_H_
