// SPDX-License-Identifier: Apache-2.0
#include "tests/support/memory_stream.h"

#include <atomic>
#include <deque>
#include <optional>

#include "common/plan/limits.h"
#include "common/rpc/handler_gate.h"

namespace atl {
namespace {

// Pending events of one end. Guarded by the wire's mutex.
template <typename In>
struct Lane {
  std::deque<In> inbox;
  std::optional<absl::Status> orderly_end;  // after the inbox
  std::optional<absl::Status> abrupt_end;   // before the inbox
  bool started = false, paused = false, scheduled = false, told = false;
  bool sending_ended = false;  // this end cannot send any more
  std::shared_ptr<HandlerGate<In>> gate = std::make_shared<HandlerGate<In>>();

  bool Due() const {
    if (!started || scheduled || told) return false;
    return abrupt_end || (!inbox.empty() && !paused) || (inbox.empty() && orderly_end);
  }
};

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  explicit Wire(Executor& executor) : executor_(executor) {}

  void Start(bool at_worker) {
    MutexLock lock(mutex_);
    if (at_worker)
      worker_.started = true;
    else
      coordinator_.started = true;
    PumpBoth();
  }
  void SetPaused(bool at_worker, bool paused) {
    MutexLock lock(mutex_);
    if (at_worker)
      worker_.paused = paused;
    else
      coordinator_.paused = paused;
    PumpBoth();
  }

  absl::Status Send(WorkerMessage message) { return Put(worker_, coordinator_, std::move(message)); }
  absl::Status Send(CoordinatorMessage message) { return Put(coordinator_, worker_, std::move(message)); }

  void CloseWorker() {
    MutexLock lock(mutex_);
    if (worker_.sending_ended) return;
    worker_.sending_ended = true;
    coordinator_.orderly_end = absl::OkStatus();
    PumpBoth();
  }
  void CloseCoordinator(absl::Status status) {
    MutexLock lock(mutex_);
    FinishCoordinator(std::move(status));
    PumpBoth();
  }
  // Cancels both ends. Does nothing when the calling end was already notified of its end.
  void CancelBy(bool at_worker) {
    MutexLock lock(mutex_);
    if (at_worker ? worker_.told : coordinator_.told) return;
    const absl::Status cancelled = absl::CancelledError("the control stream was cancelled");
    CutLocked(cancelled, cancelled);
  }
  void Break() {
    MutexLock lock(mutex_);
    CutLocked(absl::UnavailableError("the connection broke"), absl::CancelledError("the connection broke"));
  }

  std::shared_ptr<HandlerGate<CoordinatorMessage>> worker_gate() { return worker_.gate; }
  std::shared_ptr<HandlerGate<WorkerMessage>> coordinator_gate() { return coordinator_.gate; }

 private:
  template <typename Mine, typename Theirs, typename Out>
  absl::Status Put(Mine& mine, Theirs& theirs, Out message) {
    MutexLock lock(mutex_);
    if (mine.sending_ended || mine.abrupt_end || mine.told) {
      return absl::FailedPreconditionError("the control stream is closed");
    }
    if (theirs.inbox.size() >= limits::kOutboxMessages) {
      absl::Status full = absl::ResourceExhaustedError(
          absl::StrCat("the peer of a control stream left ", limits::kOutboxMessages, " messages unread"));
      const bool worker_sends = std::is_same_v<Out, WorkerMessage>;
      CutLocked(worker_sends ? full : absl::CancelledError("the peer cut the stream"),
                worker_sends ? absl::CancelledError("the peer cut the stream") : full);
      return full;
    }
    theirs.inbox.push_back(std::move(message));
    PumpBoth();
    return absl::OkStatus();
  }

  void FinishCoordinator(absl::Status status) ATOLL_REQUIRES(mutex_) {
    if (coordinator_.sending_ended) return;
    coordinator_.sending_ended = true;
    worker_.orderly_end = std::move(status);
    // As over the network: a server that has finished receives nothing more.
    coordinator_.inbox.clear();
    coordinator_.orderly_end = absl::OkStatus();
  }

  void CutLocked(absl::Status at_worker, absl::Status at_coordinator) ATOLL_REQUIRES(mutex_) {
    if (!worker_.abrupt_end) worker_.abrupt_end = std::move(at_worker);
    if (!coordinator_.abrupt_end) coordinator_.abrupt_end = std::move(at_coordinator);
    worker_.sending_ended = coordinator_.sending_ended = true;
    worker_.inbox.clear();
    coordinator_.inbox.clear();
    PumpBoth();
  }

  void PumpBoth() ATOLL_REQUIRES(mutex_) {
    Pump(worker_, true);
    Pump(coordinator_, false);
  }
  template <typename In>
  void Pump(Lane<In>& lane, bool at_worker) ATOLL_REQUIRES(mutex_) {
    if (!lane.Due()) return;
    lane.scheduled = true;
    executor_.Post([self = shared_from_this(), at_worker] {
      if (at_worker)
        self->Deliver(self->worker_, true);
      else
        self->Deliver(self->coordinator_, false);
    });
  }

  // Delivers one event: a message, or the end.
  template <typename In>
  void Deliver(Lane<In>& lane, bool at_worker) {
    std::optional<In> message;
    std::optional<absl::Status> end;
    {
      MutexLock lock(mutex_);
      if (lane.abrupt_end) {
        end = lane.abrupt_end;
      } else if (!lane.inbox.empty() && !lane.paused) {
        message = std::move(lane.inbox.front());
        lane.inbox.pop_front();
      } else if (lane.inbox.empty() && lane.orderly_end) {
        end = lane.orderly_end;
      }
      if (end) lane.told = true;
      // A coordinator finishes when its worker has closed.
      if (end && !at_worker && !lane.abrupt_end) FinishCoordinator(absl::OkStatus());
    }
    if (message) lane.gate->Message(*std::move(message));
    if (end) lane.gate->Closed(*std::move(end));
    MutexLock lock(mutex_);
    lane.scheduled = false;
    PumpBoth();
  }

  Executor& executor_;
  Mutex mutex_;
  Lane<CoordinatorMessage> worker_;  // pending events of the worker's end
  Lane<WorkerMessage> coordinator_;
};

class MemoryWorkerEnd final : public WorkerEnd {
 public:
  explicit MemoryWorkerEnd(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~MemoryWorkerEnd() override {
    wire_->worker_gate()->Detach();
    if (!closed_) wire_->CancelBy(true);
  }
  void Start(StreamHandlers<CoordinatorMessage> handlers) override {
    wire_->worker_gate()->Set(std::move(handlers));
    wire_->Start(true);
  }
  absl::Status Send(WorkerMessage message) override { return wire_->Send(std::move(message)); }
  void Close(absl::Status) override {
    closed_ = true;
    wire_->CloseWorker();
  }
  void Cancel() override { wire_->CancelBy(true); }
  void PauseReading() override { wire_->SetPaused(true, true); }
  void ResumeReading() override { wire_->SetPaused(true, false); }

 private:
  std::shared_ptr<Wire> wire_;
  std::atomic<bool> closed_ = false;
};

class MemoryCoordinatorEnd final : public CoordinatorEnd {
 public:
  explicit MemoryCoordinatorEnd(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~MemoryCoordinatorEnd() override {
    wire_->coordinator_gate()->Detach();
    if (!closed_) wire_->CancelBy(false);
  }
  void Start(StreamHandlers<WorkerMessage> handlers) override {
    wire_->coordinator_gate()->Set(std::move(handlers));
    wire_->Start(false);
  }
  absl::Status Send(CoordinatorMessage message) override { return wire_->Send(std::move(message)); }
  void Close(absl::Status status) override {
    closed_ = true;
    wire_->CloseCoordinator(std::move(status));
  }
  void Cancel() override { wire_->CancelBy(false); }
  void PauseReading() override { wire_->SetPaused(false, true); }
  void ResumeReading() override { wire_->SetPaused(false, false); }

 private:
  std::shared_ptr<Wire> wire_;
  std::atomic<bool> closed_ = false;
};

}  // namespace

ControlStreamPair MakeControlStreamPair(Executor& executor) {
  const auto wire = std::make_shared<Wire>(executor);
  ControlStreamPair pair;
  pair.worker = std::make_unique<MemoryWorkerEnd>(wire);
  pair.coordinator = std::make_unique<MemoryCoordinatorEnd>(wire);
  pair.break_connection = [wire] { wire->Break(); };
  return pair;
}

}  // namespace atl
