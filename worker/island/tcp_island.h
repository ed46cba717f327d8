// SPDX-License-Identifier: Apache-2.0
// An island of processes over TCP: exchanges of values along the chain (pass.h), orders of rank 0 to its followers
// along the spokes. Every wait has a deadline made of sizes and rates, but those of a follower for an order and for a
// step that it has no share in: they last as long as rank 0 says that it is there, and end when it has been silent for
// Silence(). When a rank dies, fails or keeps the others waiting, every call on every rank returns Unavailable with one
// cause, found by rank 0, and so does every later call. Owned by one thread at a time, but for Look and SayHere.
#ifndef ATOLL_WORKER_ISLAND_TCP_ISLAND_H_
#define ATOLL_WORKER_ISLAND_TCP_ISLAND_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "worker/device/island.h"
#include "worker/island/mesh.h"
#include "worker/island/pass.h"

namespace atl {

class TcpIsland final : public Island {
 public:
  TcpIsland(Mesh mesh, const IslandLimits& limits, const Clock& clock);

  uint32_t rank() const override { return mesh_.rank; }
  uint32_t world() const override { return mesh_.world; }
  absl::Status AllReduceMean(std::span<float> values, void* compute_stream) override;
  absl::Status AllReduceSum(std::span<double> values) override;
  absl::Status Broadcast(std::span<float> values, void* compute_stream) override;
  void OnlyWait(bool only) override { only_waits_ = only; }

  // Rank 0. To all followers; they are taken in order.
  absl::Status Order(const std::string& order);
  // Rank 0. To one.
  absl::Status OrderOne(uint32_t rank, const std::string& order);
  // Rank 0. One answer of each follower, in rank order; `limit` for all of them. What rank 0 did since the last call is
  // added to it.
  absl::StatusOr<std::vector<std::string>> Answers(Duration limit);
  // A follower. The next order, however long it takes. Unavailable when rank 0 ends, says why the island does, or has
  // been silent for Silence().
  absl::StatusOr<std::string> AwaitOrder();
  absl::Status Answer(const std::string& answer);

  // Of exchanges that go another way and are only watched here (gpu_island.h). Until when this rank waits for one of so
  // many bytes that begins now:
  Instant PatienceFor(uint64_t bytes);
  // While it waits: Unavailable with the cause, and broken, once a rank has ended, failed or asks, or the time is over.
  // `doing` says what for. Waits for nothing where that is not so.
  absl::Status Heed(Instant until, const std::function<std::string()>& doing);
  // It failed here, which may be another rank's doing: Unavailable with the cause, and broken.
  absl::Status Lose(const std::string& seen);
  // It is done: this rank works again.
  void Exchanged() { worked_since_ = clock_.Now(); }

  // This rank cannot go on: the others are told why. Of the first call only.
  void Break(const std::string& cause);
  // Not OK, with the cause, once it is broken.
  const absl::Status& state() const { return broken_; }
  // Not OK once another rank has ended: then which. From any thread; waits for nothing.
  absl::Status Look() const;
  // Whether an exchange or an order has failed, for good. Thread-safe.
  bool is_broken() const { return is_broken_; }
  // Rank 0. Every kHereEvery, however often it is called, the followers are told that it lives, whatever the owner of
  // this does meanwhile. From one other thread; waits for nothing.
  void SayHere();
  static constexpr Duration kHereEvery = Seconds(10);
  // A follower takes a rank 0 that has said nothing for so long for hung: the patience of an exchange, twice.
  Duration Silence() const { return limits_.patience * 2; }

 private:
  absl::Status Run(PassKind kind, uint32_t element_bytes, uint64_t elements, std::span<std::byte> values);
  absl::Status Drive(Pass& pass, const PassHeader& header);
  // What a spoke has to say during an exchange; OK: nothing that matters now.
  absl::Status Hear(const Pass& pass, const std::function<std::string()>& doing);
  // A follower: takes what says that rank 0 is there.
  void HearHere();
  // Of a wait that lasts as long as rank 0 is there, how long it has been silent; empty where it is there.
  std::string WhySilent() const;
  // The same in an exchange; empty where this rank has a share in it, which has a deadline.
  std::string WhyOnlyWaited() const;
  // Rank 0: the spoke to this rank is nobody else's to write to, until it is given back; of all of them for good, for
  // what is said last.
  void Take(uint32_t rank);
  void GiveBack(uint32_t rank) { taken_[rank].store(false, std::memory_order_release); }
  void TakeAll();
  // What each spoke may have to say goes into waiting_.
  void WatchSpokes();
  // Whether one of them says, or is, what ends a pass.
  bool Speaks(const pollfd& spoke) const;
  // The island is over: everybody is told, and the cause is kept.
  absl::Status Fail(const std::string& seen);
  absl::Status Keep(std::string cause);
  // The longest since the last order: of buckets that are ready together, all but the first have had none of their own.
  Duration OwnWork() const { return std::max(worked_, clock_.Now() - worked_since_); }
  // What has been done so far is behind an order, or the answers to one.
  void BeginWork();
  Duration Limit(uint64_t bytes) const;
  Duration Grace() const;

  const Mesh mesh_;
  const IslandLimits limits_;
  const Clock& clock_;
  std::vector<std::byte> scratch_;
  std::vector<pollfd> waiting_;
  uint64_t passes_ = 0;
  Instant worked_since_;
  Duration worked_{};  // the longest before an exchange
  bool only_waits_ = false;
  Instant heard_;  // of rank 0, since this rank waits for it
  // Rank 0: whether a thread writes to the spoke.
  const std::unique_ptr<std::atomic<bool>[]> taken_;
  bool all_taken_ = false;
  Instant here_next_;  // of the thread that calls SayHere
  absl::Status broken_;
  std::atomic<bool> is_broken_ = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_TCP_ISLAND_H_
