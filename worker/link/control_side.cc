// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "worker/link/link_state.h"

namespace atl {

ControlSide::ControlSide(Parts parts)
    : parts_(std::move(parts)), backoff_(parts_.options.backoff, parts_.options.seed), backoff_before_(backoff_) {}

Instant ControlSide::Turn() {
  const Instant now = parts_.clock.Now();
  if (!stream_) {
    if (finishing_) return kNever;
    if (now < open_at_) return open_at_;
    Open();
    return welcome_by_;
  }
  if (!welcomed_) {
    if (now >= welcome_by_)
      CloseStream(hello_said_ ? absl::StrCat("no answer to Hello within ", ToSeconds(limits::kControlDeadline), " s")
                              : absl::StrCat("this worker was too busy to send Hello within ",
                                             ToSeconds(kHelloPatience), " s"));
    return std::max(welcome_by_, now + Milliseconds(1));
  }
  if (now >= beat_at_) Beat();
  return beat_at_;
}

void ControlSide::Open() {
  const uint64_t number = ++number_;
  welcomed_ = hello_said_ = false;
  close_reason_.clear();
  welcome_by_ = parts_.clock.Now() + kHelloPatience;
  stream_ = parts_.open();
  const std::shared_ptr<Mailbox> mailbox = parts_.mailbox;
  stream_->Start({[this, mailbox, number](CoordinatorMessage message) {
                    mailbox->Post([this, number, m = std::move(message)] { OnMessage(number, m); });
                  },
                  [this, mailbox, number](absl::Status status) {
                    mailbox->Post([this, number, status] { OnClosed(number, status); });
                  }});
  parts_.listener(worker::Event(worker::StreamUp{}));
}

void ControlSide::OnMessage(uint64_t number, CoordinatorMessage message) {
  if (number != number_ || !stream_) return;
  if (const Welcome* welcome = std::get_if<Welcome>(&message)) {
    welcomed_ = true;
    ++connects_;
    backoff_before_ = backoff_;
    backoff_.Reset();
    interval_ = welcome->heartbeat_interval.ns > 0 ? welcome->heartbeat_interval : limits::kHeartbeatInterval;
    beat_at_ = parts_.clock.Now();
  }
  parts_.listener(worker::Event(worker::Received{std::move(message)}));
}

void ControlSide::OnClosed(uint64_t number, const absl::Status& status) {
  if (number != number_ || !stream_) return;
  stream_.reset();
  welcomed_ = false;
  beat_at_ = welcome_by_ = kNever;
  if (finishing_) return;
  const Duration wait = backoff_.Next();
  open_at_ = parts_.clock.Now() + wait;
  std::string advice;
  if (close_reason_.empty() && !status.ok() && parts_.options.advice) advice = parts_.options.advice(status);
  if (!advice.empty()) advice.insert(0, ": ");
  const std::string why = !close_reason_.empty()     ? close_reason_
                          : status.ok()              ? "the coordinator ended the stream"
                          : status.message().empty() ? absl::StatusCodeToString(status.code())
                                                     : std::string(status.message());
  parts_.listener(
      worker::Event(worker::StreamDown{absl::StrCat("no control stream to ", parts_.options.address, " (", why, ")",
                                                    advice, "; retrying in ", wait.ns / 1'000'000, " ms")}));
}

void ControlSide::Say(WorkerMessage message) {
  if (!stream_) return;
  // Drops messages before the Hello of this stream, which the core meant for an older stream. Also drops a second
  // Hello: the core sends one for each new stream, even if it learns of several streams at once.
  const bool hello = std::holds_alternative<Hello>(message);
  if (hello == hello_said_) return;
  if (hello) {
    hello_said_ = true;
    if (welcome_by_ != kNever) welcome_by_ = parts_.clock.Now() + limits::kControlDeadline;
  }
  // If Send refuses the message, on_closed follows and reports the error.
  stream_->Send(std::move(message)).IgnoreError();
}

void ControlSide::CloseStream(const std::string& reason) {
  if (!stream_) return;
  if (welcomed_) backoff_ = backoff_before_;  // a Welcome on a stream that the core closes is no success
  close_reason_ = reason;
  welcome_by_ = kNever;
  stream_->Cancel();
}

// When waiting begins, the next heartbeat is due a quarter of an interval after the last: the coordinator may in turn
// wait for this worker, as at the end of a job.
void ControlSide::SetHeartbeat(Heartbeat heartbeat) {
  const auto waits = [](const Heartbeat& h) { return h.activity == WorkerActivity::kWaiting; };
  const bool begins = waits(heartbeat) && !waits(heartbeat_);
  heartbeat_ = std::move(heartbeat);
  if (!begins || beat_at_ == kNever) return;
  beat_at_ = std::min(beat_at_, std::max(parts_.clock.Now(), beaten_at_ + interval_ / 4));
}

void ControlSide::SetRates(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) {
  upload_rate_ = upload_bytes_per_second;
  download_rate_ = download_bytes_per_second;
}

void ControlSide::Beat() {
  const Instant now = parts_.clock.Now();
  beaten_at_ = now;
  heartbeat_.sequence = ++sequence_;
  heartbeat_.upload_bytes_per_second = upload_rate_;
  heartbeat_.download_bytes_per_second = download_rate_;
  Say(heartbeat_);
  // A turn that is late by up to half an interval does not shift the schedule. Missed heartbeats are not sent later.
  beat_at_ = std::max(beat_at_ + interval_, now + interval_ / 2);
}

void ControlSide::Finish() {
  finishing_ = true;
  if (stream_) stream_->Close(absl::OkStatus());
}

}  // namespace atl
