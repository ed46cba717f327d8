// SPDX-License-Identifier: Apache-2.0
// An island of processes over TCP: exchanges of values along the chain (pass.h), orders of rank 0
// to its followers along the spokes. Every wait has a deadline derived from sizes and rates. The
// exceptions are a follower's waits for an order and for a step without a share: these last while
// rank 0 sends signs of life, and end after Silence() without one. If a rank dies, fails or delays
// the others, every call on every rank, and every later call, returns Unavailable with one cause,
// determined by rank 0. Owned by one thread at a time, except for Look, is_broken and SayHere.
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

  // Rank 0: sends an order to all followers; orders are executed in sequence.
  absl::Status Order(const std::string& order);
  // Rank 0: sends an order to one follower.
  absl::Status OrderOne(uint32_t rank, const std::string& order);
  // Rank 0: one answer of each follower, in rank order. All of them must arrive within `limit` plus
  // four times rank 0's longest own work since the last order.
  absl::StatusOr<std::vector<std::string>> Answers(Duration limit);
  // A follower: waits for the next order, for any time. Unavailable if rank 0 ends, reports the end
  // of the island, or is silent for Silence().
  absl::StatusOr<std::string> AwaitOrder();
  absl::Status Answer(const std::string& answer);

  // The deadline of an exchange of `bytes` bytes that begins now; kNever if this rank only waits. For exchanges over
  // another transport that are only supervised here (gpu_island.h), as the next three functions.
  Instant PatienceFor(uint64_t bytes);
  // Call during the wait: OK at once if all is well. Otherwise waits for the cause, breaks the island, Unavailable:
  // a rank ended, failed or asks for this rank's state, rank 0 is silent, or `until` passed. `doing`: its text.
  absl::Status Heed(Instant until, const std::function<std::string()>& doing);
  // Call if the exchange failed here, perhaps due to another rank. Waits for the cause, breaks the island, Unavailable.
  absl::Status Lose(const std::string& seen);
  // Call when the exchange is done: own work of this rank begins.
  void Exchanged() { worked_since_ = clock_.Now(); }

  // Breaks the island because this rank cannot go on. Notifies the others (a follower: rank 0). No effect if broken.
  void Break(const std::string& cause);
  // Not OK, with the cause, once it is broken.
  const absl::Status& state() const { return broken_; }
  // Not OK once another rank (for a follower: rank 0) has ended. Names the rank. Any thread; does not wait.
  absl::Status Look() const;
  // Whether the island is broken, permanently: an exchange or order failed, or Break was called. Any thread.
  bool is_broken() const { return is_broken_; }
  // Rank 0: sends each follower a sign of life if kHereEvery has passed since the last, except while another message
  // is sent to it. Call it every second or so, from one thread beyond the owner; does not wait.
  void SayHere();
  static constexpr Duration kHereEvery = Seconds(10);
  // A follower considers rank 0 hung after this silence: twice the patience of an exchange.
  Duration Silence() const { return limits_.patience * 2; }

 private:
  absl::Status Run(PassKind kind, uint32_t element_bytes, uint64_t elements, std::span<std::byte> values);
  absl::Status Drive(Pass& pass, const PassHeader& header);
  // During an exchange: waits until a socket is ready, at most 100 ms. OK unless a spoke ends the exchange.
  absl::Status Hear(const Pass& pass, const std::function<std::string()>& doing);
  // A follower: reads rank 0's signs of life.
  void HearHere();
  // For a wait without a deadline: a message if rank 0 has been silent for too long, otherwise empty.
  std::string WhySilent() const;
  // As WhySilent, in an exchange; empty if this rank has a share in it, because a deadline then applies.
  std::string WhyOnlyWaited() const;
  // Rank 0: waits until no thread writes to rank `rank`, and reserves the spoke to it until GiveBack.
  // TakeAll reserves all spokes permanently, for the last messages.
  void Take(uint32_t rank);
  void GiveBack(uint32_t rank) { taken_[rank].store(false, std::memory_order_release); }
  void TakeAll();
  // Puts the sockets of all spokes into waiting_.
  void WatchSpokes();
  // Whether a spoke has a message, or a state, that ends an exchange.
  bool Speaks(const pollfd& spoke) const;
  // Breaks the island: rank 0 finds the cause and sends it, a follower waits for it. Stores and returns the cause.
  absl::Status Fail(const std::string& seen);
  absl::Status Keep(std::string cause);
  // The longest own work between two exchanges since the last order, including the present one. For buckets that
  // became ready together, only the first exchange follows own work.
  Duration OwnWork() const { return std::max(worked_, clock_.Now() - worked_since_); }
  // Call after an order, or after the answers to one: own work is measured from now on.
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
  Duration worked_{};  // the longest own work before an exchange, since the last order
  bool only_waits_ = false;
  Instant heard_;  // last sign of life of rank 0, or the start of this wait
  // Rank 0: whether a thread writes to the spoke.
  const std::unique_ptr<std::atomic<bool>[]> taken_;
  bool all_taken_ = false;
  Instant here_next_;  // used by the thread that calls SayHere
  absl::Status broken_;
  std::atomic<bool> is_broken_ = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_TCP_ISLAND_H_
