// SPDX-License-Identifier: Apache-2.0
#include "worker/island/tcp_island.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/island/spoke.h"

namespace atl {
namespace {

constexpr size_t kScratchBytes = size_t{256} << 10;
constexpr int kMovesBetweenLooks = 64;  // between two looks at the clock and the spokes, while values flow
constexpr int64_t kTimesOwnWork = 4;
constexpr int kDirections = 2;

}  // namespace

TcpIsland::TcpIsland(Mesh mesh, const IslandLimits& limits, const Clock& clock)
    : mesh_(std::move(mesh)),
      limits_(limits),
      clock_(clock),
      scratch_(kScratchBytes),
      worked_since_(clock.Now()),
      heard_(worked_since_),
      taken_(std::make_unique<std::atomic<bool>[]>(mesh_.world)),
      here_next_(worked_since_) {}

Duration TcpIsland::Limit(uint64_t bytes) const {
  const Duration moving = Nanoseconds(static_cast<int64_t>(
      kDirections * static_cast<double>(bytes) / static_cast<double>(limits_.slowest_bytes_per_second) * 1e9));
  return limits_.patience + moving;
}

// The time within which a healthy rank answers, in the search for a cause.
Duration TcpIsland::Grace() const { return std::max(Seconds(2), limits_.patience / 4); }

absl::Status TcpIsland::AllReduceMean(std::span<float> values, void*) {
  return Run(PassKind::kMean, sizeof(float), values.size(), std::as_writable_bytes(values));
}

absl::Status TcpIsland::AllReduceSum(std::span<double> values) {
  return Run(PassKind::kSum, sizeof(double), values.size(), std::as_writable_bytes(values));
}

absl::Status TcpIsland::Broadcast(std::span<float> values, void*) {
  return Run(PassKind::kBroadcast, sizeof(float), values.size(), std::as_writable_bytes(values));
}

absl::Status TcpIsland::Run(PassKind kind, uint32_t element_bytes, uint64_t elements, std::span<std::byte> values) {
  ATOLL_RETURN_IF_ERROR(broken_);
  worked_ = OwnWork();
  const PassHeader header{++passes_, elements, kind, element_bytes};
  Pass pass(mesh_, header, values, scratch_);
  absl::Status status = Drive(pass, header);
  worked_since_ = clock_.Now();
  return status;
}

absl::Status TcpIsland::Drive(Pass& pass, const PassHeader& header) {
  const Instant began = clock_.Now();
  const Deadline end{clock_, PatienceFor(header.elements * header.element_bytes)};
  for (int moves = 0;;) {
    const auto moved = pass.Move();
    if (!moved.ok()) {
      return Fail(absl::StrCat("rank ", mesh_.rank, " lost rank ", pass.WaitsFor(), " in ", NameOf(header), ": ",
                               moved.status().message()));
    }
    if (pass.Done()) return absl::OkStatus();
    if (*moved && ++moves % kMovesBetweenLooks != 0) continue;
    const auto doing = [&] {
      return absl::StrCat("rank ", mesh_.rank, " waited ", Spoken(clock_.Now() - began), " for rank ", pass.WaitsFor(),
                          " in ", NameOf(header));
    };
    ATOLL_RETURN_IF_ERROR(Hear(pass, doing));
    if (end.Passed()) return Fail(doing());
    if (const std::string silent = WhyOnlyWaited(); !silent.empty()) return Fail(absl::StrCat(doing(), "; ", silent));
  }
}

std::string TcpIsland::WhyOnlyWaited() const { return only_waits_ && mesh_.rank > 0 ? WhySilent() : ""; }

std::string TcpIsland::WhySilent() const {
  const Duration silent = clock_.Now() - heard_;
  if (silent < Silence()) return "";
  return absl::StrCat("rank 0, which leads the island, has sent no sign of life for ", Spoken(silent), ", due every ",
                      ToSeconds(kHereEvery), " s; ", ToSeconds(Silence()),
                      " s are allowed, twice the timeout of an exchange");
}

void TcpIsland::HearHere() {
  if (mesh_.rank == 0) return;
  while (NextKind(mesh_.spokes[0]) == FrameKind::kHere) {
    ReceiveFrame(mesh_.spokes[0], {clock_, kNever}).IgnoreError();  // already received
    heard_ = clock_.Now();
  }
}

void TcpIsland::Take(uint32_t rank) {
  while (taken_[rank].exchange(true, std::memory_order_acquire)) std::this_thread::yield();  // for a few bytes
}

void TcpIsland::TakeAll() {
  for (uint32_t rank = 1; mesh_.rank == 0 && !all_taken_ && rank < mesh_.world; ++rank) Take(rank);
  all_taken_ = true;
}

void TcpIsland::SayHere() {
  if (mesh_.rank != 0 || clock_.Now() < here_next_) return;
  here_next_ = clock_.Now() + kHereEvery;
  for (uint32_t rank = 1; rank < mesh_.world; ++rank) {
    if (taken_[rank].exchange(true, std::memory_order_acquire)) continue;  // a message is being sent
    atl::SayHere(mesh_.spokes[rank]);
    GiveBack(rank);
  }
}

Instant TcpIsland::PatienceFor(uint64_t bytes) {
  heard_ = clock_.Now();
  return only_waits_ ? kNever : heard_ + Limit(bytes) + OwnWork() * kTimesOwnWork;
}

void TcpIsland::BeginWork() {
  worked_since_ = clock_.Now();
  worked_ = {};
}

void TcpIsland::WatchSpokes() {
  HearHere();
  waiting_.clear();
  for (const Descriptor& spoke : mesh_.spokes) {
    // Orders for the next exchange may already be waiting: then only the end of the connection matters.
    const bool later = mesh_.rank > 0 && NextKind(spoke) == FrameKind::kOrder;
    if (spoke.open()) waiting_.push_back({spoke.get(), static_cast<short>(later ? POLLRDHUP : POLLIN | POLLRDHUP), 0});
  }
}

// Whether a watched spoke has a message that ends an exchange. The next order may have arrived
// since WatchSpokes: rank 0 can finish a broadcast before the last rank has begun it.
bool TcpIsland::Speaks(const pollfd& spoke) const {
  if (spoke.revents == 0 || mesh_.rank == 0 || (spoke.revents & ~POLLIN) != 0) return spoke.revents != 0;
  const std::optional<FrameKind> kind = NextKind(mesh_.spokes[0]);
  return kind.has_value() && *kind != FrameKind::kOrder && *kind != FrameKind::kHere;
}

absl::Status TcpIsland::Heed(Instant until, const std::function<std::string()>& doing) {
  ATOLL_RETURN_IF_ERROR(broken_);
  WatchSpokes();
  LookAtAll(waiting_);
  const auto speaks = [this](const pollfd& spoke) { return Speaks(spoke); };
  if (std::any_of(waiting_.begin(), waiting_.end(), speaks) || clock_.Now() >= until) return Fail(doing());
  if (const std::string silent = WhyOnlyWaited(); !silent.empty()) return Fail(absl::StrCat(doing(), "; ", silent));
  return absl::OkStatus();
}

absl::Status TcpIsland::Lose(const std::string& seen) {
  ATOLL_RETURN_IF_ERROR(broken_);
  if (mesh_.rank == 0) return Fail(seen);
  return Keep(AwaitCause(mesh_, FrameKind::kHurt, seen, limits_.patience + Grace() * 2, clock_));
}

absl::Status TcpIsland::Hear(const Pass& pass, const std::function<std::string()>& doing) {
  WatchSpokes();
  const size_t spokes = waiting_.size();
  pass.Watch(waiting_);
  AwaitAny(waiting_);
  const auto moves = [](const pollfd& one) { return one.revents != 0; };
  const auto speaks = [this](const pollfd& spoke) { return Speaks(spoke); };
  const auto chain = waiting_.begin() + static_cast<ptrdiff_t>(spokes);
  // Data on the chain has priority: a rank may have ended after it sent everything that the others need.
  if (std::any_of(chain, waiting_.end(), moves) || std::none_of(waiting_.begin(), chain, speaks)) {
    return absl::OkStatus();
  }
  return Fail(doing());
}

absl::Status TcpIsland::Fail(const std::string& seen) {
  if (mesh_.rank == 0) {
    TakeAll();
    return Keep(FindCause(mesh_, seen, Grace(), clock_));
  }
  return Keep(AwaitCause(mesh_, FrameKind::kWaiting, seen, limits_.patience + Grace() * 2, clock_));
}

absl::Status TcpIsland::Keep(std::string cause) {
  broken_ = absl::UnavailableError(cause);
  is_broken_ = true;
  return broken_;
}

absl::Status TcpIsland::OrderOne(uint32_t rank, const std::string& order) {
  ATOLL_RETURN_IF_ERROR(broken_);
  const Deadline end{clock_, clock_.Now() + Limit(order.size())};
  Take(rank);
  absl::Status sent = SendFrame(mesh_.spokes[rank], FrameKind::kOrder, order, end);
  GiveBack(rank);
  BeginWork();
  if (sent.ok()) return sent;
  return Fail(absl::StrCat("rank ", rank, " accepts no order: ", sent.message()));
}

absl::Status TcpIsland::Order(const std::string& order) {
  for (uint32_t rank = 1; rank < mesh_.world; ++rank) ATOLL_RETURN_IF_ERROR(OrderOne(rank, order));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> TcpIsland::Answers(Duration limit) {
  ATOLL_RETURN_IF_ERROR(broken_);
  const Instant began = clock_.Now();
  const Deadline end{clock_, began + limit + OwnWork() * kTimesOwnWork};
  std::vector<std::string> answers;
  for (uint32_t rank = 1; rank < mesh_.world; ++rank) {
    const auto frame = ReceiveFrame(mesh_.spokes[rank], end);
    if (frame.ok() && frame->kind == FrameKind::kAnswer) {
      answers.push_back(frame->payload);
      continue;
    }
    if (frame.ok() && frame->kind == FrameKind::kFailed) {
      return Fail(absl::StrCat("rank ", rank, " of the island: ", frame->payload));
    }
    return Fail(absl::StrCat("rank 0 waited ", Spoken(clock_.Now() - began), " for an answer of rank ", rank));
  }
  BeginWork();
  return answers;
}

absl::StatusOr<std::string> TcpIsland::AwaitOrder() {
  ATOLL_RETURN_IF_ERROR(broken_);
  const Instant began = heard_ = clock_.Now();
  for (;;) {
    if (!NextKind(mesh_.spokes[0]) && !HasEnded(mesh_.spokes[0])) {
      if (const std::string silent = WhySilent(); !silent.empty()) {
        return Keep(
            absl::StrCat("rank ", mesh_.rank, " waited ", Spoken(clock_.Now() - began), " for an order; ", silent));
      }
      pollfd one{mesh_.spokes[0].get(), POLLIN | POLLRDHUP, 0};
      AwaitAny({&one, 1});
      continue;
    }
    auto frame = ReceiveFrame(mesh_.spokes[0], {clock_, clock_.Now() + Limit(limits::kIslandOrderBytes)});
    heard_ = clock_.Now();
    BeginWork();
    if (!frame.ok()) {
      return Keep(absl::StrCat("rank 0, which leads the island, ended: ", frame.status().message()));
    }
    switch (frame->kind) {
      case FrameKind::kHere: continue;
      case FrameKind::kOrder: return std::move(frame->payload);
      case FrameKind::kVerdict: return Keep(std::move(frame->payload));
      default: return Fail(absl::StrCat("rank ", mesh_.rank, " was waiting for an order"));
    }
  }
}

absl::Status TcpIsland::Answer(const std::string& answer) {
  ATOLL_RETURN_IF_ERROR(broken_);
  absl::Status sent =
      SendFrame(mesh_.spokes[0], FrameKind::kAnswer, answer, {clock_, clock_.Now() + Limit(answer.size())});
  if (sent.ok()) return sent;
  return Fail(absl::StrCat("rank 0 accepts no answer: ", sent.message()));
}

void TcpIsland::Break(const std::string& cause) {
  if (!broken_.ok()) return;
  TakeAll();
  const Deadline end{clock_, clock_.Now() + Grace()};
  for (const Descriptor& spoke : mesh_.spokes) {
    if (!spoke.open()) continue;
    const bool leads = mesh_.rank == 0;
    const std::string told = leads ? absl::StrCat("rank 0 of the island: ", cause) : cause;
    SendFrame(spoke, leads ? FrameKind::kVerdict : FrameKind::kFailed, told, end).IgnoreError();  // some ranks are gone
  }
  Keep(absl::StrCat("rank ", mesh_.rank, " of the island: ", cause)).IgnoreError();
}

absl::Status TcpIsland::Look() const {
  for (size_t i = 0; i < mesh_.spokes.size(); ++i) {
    if (mesh_.spokes[i].open() && HasEnded(mesh_.spokes[i])) {
      return absl::UnavailableError(absl::StrCat("rank ", i, " of the island ended"));
    }
  }
  return absl::OkStatus();
}

}  // namespace atl
