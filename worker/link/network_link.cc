// SPDX-License-Identifier: Apache-2.0
#include "worker/link/network_link.h"

#include <algorithm>
#include <atomic>

#include "worker/link/link_state.h"

namespace atl {

void Mailbox::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (shut_) return;
    queue_.push_back(std::move(work));
  }
  if (wake_) wake_();
}

bool Mailbox::RunAll() {
  std::deque<std::function<void()>> work;
  {
    MutexLock lock(mutex_);
    work.swap(queue_);
  }
  for (auto& one : work) one();
  return !work.empty();
}

void Mailbox::Shut() {
  std::deque<std::function<void()>> dropped;  // destroyed outside the lock
  MutexLock lock(mutex_);
  shut_ = true;
  dropped.swap(queue_);
}

struct NetworkLink::State {
  State(NetworkLinkOptions o, std::function<std::unique_ptr<WorkerEnd>()> open, BulkClient& bulk, const Clock& clock,
        Log& log, const std::function<void(LinkEvent)>& listener, std::function<void()> wake)
      : options(std::move(o)),
        mailbox(std::make_shared<Mailbox>(std::move(wake))),
        control({options, std::move(open), clock, log, listener, mailbox}),
        transfers({options, bulk, clock, log, listener, mailbox}) {}
  const NetworkLinkOptions options;
  std::shared_ptr<Mailbox> mailbox;
  ControlSide control;
  Transfers transfers;
  std::atomic<bool> finished{false}, connected{false};
  std::atomic<uint64_t> uploaded_bytes{0}, downloaded_bytes{0}, connects{0};
  std::atomic<double> upload_rate{0}, download_rate{0};
};

NetworkLink::NetworkLink(NetworkLinkOptions options, std::function<std::unique_ptr<WorkerEnd>()> open, BulkClient& bulk,
                         const Clock& clock, Log& log, std::function<void(LinkEvent)> listener,
                         std::function<void()> wake)
    : state_(
          std::make_shared<State>(std::move(options), std::move(open), bulk, clock, log, listener, std::move(wake))) {}

// Later callbacks find the mailbox closed; they reference nothing else.
NetworkLink::~NetworkLink() { state_->mailbox->Shut(); }

Instant NetworkLink::Turn() {
  State& s = *state_;
  // Bounded: work posted by this work runs in the next turn, which is due at once.
  const bool worked = s.mailbox->RunAll();
  s.control.SetRates(s.transfers.uploads().BytesPerSecond(), s.transfers.downloads().BytesPerSecond());
  const Instant wake = std::min(s.control.Turn(), s.transfers.Turn());
  s.connected = s.control.welcomed();
  s.finished = s.control.finished();
  s.uploaded_bytes = s.transfers.uploaded_bytes();
  s.downloaded_bytes = s.transfers.downloaded_bytes();
  s.connects = s.control.connects();
  s.upload_rate = s.transfers.upload_rate();
  s.download_rate = s.transfers.download_rate();
  return worked ? Instant{0} : wake;
}

bool NetworkLink::finished() const { return state_->finished; }
bool NetworkLink::connected() const { return state_->connected; }
LinkTotals NetworkLink::totals() const {
  return {.uploaded_bytes = state_->uploaded_bytes,
          .downloaded_bytes = state_->downloaded_bytes,
          .connects = state_->connects,
          .upload_bytes_per_second = state_->upload_rate,
          .download_bytes_per_second = state_->download_rate};
}

void NetworkLink::Finish() {
  State* s = state_.get();
  s->mailbox->Post([s] {
    s->transfers.DropAll();
    s->control.Finish();
  });
}
void NetworkLink::Say(WorkerMessage message) {
  State* s = state_.get();
  s->mailbox->Post([s, m = std::move(message)] { s->control.Say(m); });
}
void NetworkLink::CloseStream(const std::string& reason) {
  State* s = state_.get();
  s->mailbox->Post([s, reason] { s->control.CloseStream(reason); });
}
void NetworkLink::SetHeartbeat(Heartbeat heartbeat) {
  State* s = state_.get();
  s->mailbox->Post([s, h = std::move(heartbeat)] { s->control.SetHeartbeat(h); });
}
void NetworkLink::SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) {
  state_->transfers.SetCaps({upload_bytes_per_second, download_bytes_per_second});
}
void NetworkLink::StartUpload(const ContributionUpload& contribution, SharedBytes bytes) {
  State* s = state_.get();
  s->mailbox->Post([s, contribution, bytes] { s->transfers.StartUpload(contribution, bytes); });
}
void NetworkLink::CancelUpload(FragmentIndex fragment) {
  State* s = state_.get();
  s->mailbox->Post([s, fragment] { s->transfers.CancelUpload(fragment); });
}
void NetworkLink::FetchFragment(const JobId& job, FragmentIndex fragment, uint64_t bytes, Version at_least) {
  State* s = state_.get();
  s->mailbox->Post([s, job, fragment, bytes, at_least] {
    s->transfers.StartDownload(job, {fragment, at_least}, true, bytes);
  });
}
void NetworkLink::FetchUpdate(const JobId& job, FragmentVersion reached, uint64_t limit_bytes) {
  State* s = state_.get();
  s->mailbox->Post([s, job, reached, limit_bytes] { s->transfers.StartDownload(job, reached, false, limit_bytes); });
}
void NetworkLink::DropFetches(FragmentIndex fragment) {
  State* s = state_.get();
  s->mailbox->Post([s, fragment] { s->transfers.DropFetches(fragment); });
}
void NetworkLink::DropAll() {
  State* s = state_.get();
  s->mailbox->Post([s] { s->transfers.DropAll(); });
}

}  // namespace atl
