// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_network.h"

#include <algorithm>
#include <utility>

namespace atl {
namespace {

constexpr Duration kResend = Milliseconds(200);  // TCP's minimum retransmission timeout
constexpr int kResends = 8;

// One end of a stream with delayed messages.
template <typename Out, typename In>
class LateEnd final : public MessageStream<Out, In> {
 public:
  LateEnd(std::unique_ptr<MessageStream<Out, In>> end, SimNetwork::Line& out, SimNetwork::Line& in,
          std::function<void(const Out&)> says)
      : end_(std::move(end)), out_(out), in_(in), says_(std::move(says)) {}
  ~LateEnd() override {
    *alive_ = false;
    if (!closed_) end_->Cancel();
  }
  LateEnd(const LateEnd&) = delete;
  LateEnd& operator=(const LateEnd&) = delete;

  void Start(StreamHandlers<In> handlers) override {
    const auto told = std::make_shared<StreamHandlers<In>>(std::move(handlers));
    StreamHandlers<In> late;
    late.on_message = [told, alive = alive_](In message) {
      if (*alive) told->on_message(std::move(message));
    };
    late.on_closed = [told, alive = alive_, &in = in_](absl::Status status) {
      in.Post([told, alive, status = std::move(status)] {
        if (*alive) told->on_closed(status);
      });
    };
    end_->Start(std::move(late));
  }
  absl::Status Send(Out message) override {
    if (closed_) return absl::FailedPreconditionError("the control stream is closed");
    says_(message);
    out_.Post([end = end_, message = std::move(message)]() mutable { (void)end->Send(std::move(message)); });
    return absl::OkStatus();
  }
  void Close(absl::Status status) override {
    closed_ = true;
    out_.Post([end = end_, status = std::move(status)] { end->Close(status); });
  }
  void Cancel() override { end_->Cancel(); }
  void PauseReading() override { end_->PauseReading(); }
  void ResumeReading() override { end_->ResumeReading(); }

 private:
  const std::shared_ptr<MessageStream<Out, In>> end_;
  SimNetwork::Line& out_;
  SimNetwork::Line& in_;
  const std::function<void(const Out&)> says_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool closed_ = false;
};

}  // namespace

SimNetwork::Line& SimNetwork::NewLine() { return *lines_.emplace_back(std::make_unique<Line>(*this)); }

void SimNetwork::Put(Line& line, Instant due, std::function<void()> job) {
  parcels_.push_back({due, numbers_++, &line, std::move(job)});
  std::push_heap(parcels_.begin(), parcels_.end(), Later);
}

size_t SimNetwork::RunDue() {
  size_t ran = 0;
  while (!parcels_.empty() && parcels_.front().due <= clock_.Now()) {
    std::pop_heap(parcels_.begin(), parcels_.end(), Later);
    Parcel parcel = std::move(parcels_.back());
    parcels_.pop_back();
    if (parcel.line->blocked_) {
      parcel.line->held_.push_back(std::move(parcel.job));
      continue;
    }
    ++ran;
    parcel.job();
  }
  delivered_ += ran;
  return ran;
}

Instant SimNetwork::Next() const { return parcels_.empty() ? kNever : parcels_.front().due; }

void SimNetwork::Line::Post(std::function<void()> job) {
  Instant due = network_.clock_.Now() + quality.delay;
  if (quality.jitter.ns > 0)
    due = due + Nanoseconds(static_cast<int64_t>(network_.random_.Below(static_cast<uint64_t>(quality.jitter.ns))));
  Duration wait = kResend;
  for (int i = 0; quality.loss > 0 && i < kResends && network_.random_.Uniform() < quality.loss; ++i, wait = wait * 2) {
    ++network_.lost_;
    due = due + wait;
  }
  last_ = std::max(last_, due);
  network_.Put(*this, last_, std::move(job));
}

void SimNetwork::Line::Open() {
  blocked_ = false;
  for (auto& job : std::exchange(held_, {})) network_.Put(*this, network_.clock_.Now(), std::move(job));
}

ControlStreamPair MakeSimStreamPair(Executor& near, SimNetwork::Line& up, SimNetwork::Line& down,
                                    std::function<void(const WorkerMessage&)> worker_says,
                                    std::function<void(const CoordinatorMessage&)> coordinator_says) {
  ControlStreamPair pair = MakeControlStreamPair(near);
  pair.worker = std::make_unique<LateEnd<WorkerMessage, CoordinatorMessage>>(std::move(pair.worker), up, down,
                                                                             std::move(worker_says));
  pair.coordinator = std::make_unique<LateEnd<CoordinatorMessage, WorkerMessage>>(std::move(pair.coordinator), down, up,
                                                                                  std::move(coordinator_says));
  return pair;
}

}  // namespace atl
