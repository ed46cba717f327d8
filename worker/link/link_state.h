// SPDX-License-Identifier: Apache-2.0
// The parts of NetworkLink: a mailbox, the control side and the transfers. Private to worker/link.
#ifndef ATOLL_WORKER_LINK_LINK_STATE_H_
#define ATOLL_WORKER_LINK_LINK_STATE_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/buffer_shelf.h"
#include "common/base/mutex.h"
#include "worker/link/download_buffer.h"
#include "worker/link/moving_rate.h"
#include "worker/link/network_link.h"
#include "worker/link/rate_window.h"
#include "worker/link/transfer_limit.h"

namespace atl {

// Work posted from any thread, done by Turn.
class Mailbox {
 public:
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  void Post(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  // Runs all queued work; returns false if there was none.
  bool RunAll() ATOLL_EXCLUDES(mutex_);
  // Drops the queued work, and all work posted later.
  void Shut() ATOLL_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::deque<std::function<void()>> queue_ ATOLL_GUARDED_BY(mutex_);
  bool shut_ ATOLL_GUARDED_BY(mutex_) = false;
  const std::function<void()> wake_;
};

// The control stream: open, Hello from the core, Welcome, heartbeats, close, backoff. Owned by the
// turning thread.
class ControlSide {
 public:
  struct Parts {
    const NetworkLinkOptions& options;
    std::function<std::unique_ptr<WorkerEnd>()> open;
    const Clock& clock;
    Log& log;
    std::function<void(LinkEvent)> listener;
    std::shared_ptr<Mailbox> mailbox;
  };
  explicit ControlSide(Parts parts);
  Instant Turn();
  void Say(WorkerMessage message);
  void CloseStream(const std::string& reason);
  void SetHeartbeat(Heartbeat heartbeat);
  // Sets the rates of the link, from RateWindow, which later heartbeats report.
  void SetRates(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second);
  void Finish();
  bool finished() const { return finishing_ && !stream_; }
  bool welcomed() const { return welcomed_; }
  uint64_t connects() const { return connects_; }

 private:
  void Open();
  void OnMessage(uint64_t number, CoordinatorMessage message);
  void OnClosed(uint64_t number, const absl::Status& status);
  void Beat();

  Parts parts_;
  Backoff backoff_;
  Backoff backoff_before_;  // state of backoff_ just before the newest Welcome
  std::unique_ptr<WorkerEnd> stream_;
  uint64_t number_ = 0;                         // of the newest stream: messages of older ones are ignored
  bool hello_said_ = false, welcomed_ = false;  // on the newest stream
  bool finishing_ = false;
  std::string close_reason_;
  Instant open_at_{};  // when the next stream is opened
  Instant welcome_by_ = kNever;
  Instant beat_at_ = kNever;
  Instant beaten_at_{};
  Duration interval_{};
  Heartbeat heartbeat_;
  uint64_t upload_rate_ = 0, download_rate_ = 0;
  uint64_t sequence_ = 0;
  uint64_t connects_ = 0;
};

// Uploads and downloads. Owned by the turning thread.
//
// Transfers in one direction run one after the other, in the order of their requests. In parallel, both would
// end when the later one does, which only delays the first. An upload frees its line once its bytes are sent,
// before they are accepted. Updates do not queue after whole fragments, which may be far larger.
class Transfers {
 public:
  struct Parts {
    const NetworkLinkOptions& options;
    BulkClient& bulk;
    const Clock& clock;
    Log& log;
    std::function<void(LinkEvent)> listener;
    std::shared_ptr<Mailbox> mailbox;
  };
  explicit Transfers(Parts parts);
  ~Transfers();
  Instant Turn();
  void StartUpload(ContributionUpload contribution, SharedBytes bytes);
  void CancelUpload(FragmentIndex fragment) { uploads_.erase(fragment); }
  void SetCaps(const BulkCaps& caps) { parts_.bulk.SetJobCaps(caps); }  // thread-safe
  // With `whole`: fetches the newest snapshot, unless it is below at.version. After an interruption continues
  // with that snapshot, or starts over with the newest if it is gone. Otherwise: the update that made at.version.
  void StartDownload(const JobId& job, FragmentVersion at, bool whole, uint64_t bytes);
  // Ends the fragment's downloads. The received part of a whole fragment is kept until DropAll: the next download of
  // the fragment, for example by a new incarnation after a long interruption, continues with it.
  void DropFetches(FragmentIndex fragment);
  void DropAll();
  uint64_t uploaded_bytes() const { return uploaded_bytes_; }
  uint64_t downloaded_bytes() const { return downloaded_bytes_; }
  // The moving means that LinkTotals describes, in bytes per second.
  double upload_rate() const { return upload_mean_.bytes_per_second(); }
  double download_rate() const { return download_mean_.bytes_per_second(); }
  const RateWindow& uploads() const { return upload_window_; }
  const RateWindow& downloads() const { return download_window_; }

 private:
  // One transfer over its conversations, each a call of the BulkClient. `call` is null between conversations.
  struct Conversation {
    uint64_t asked = 0;  // sequence number of the request
    bool sent = false;   // all bytes are sent; only the answer is outstanding
    std::unique_ptr<BulkCall> call;
    std::unique_ptr<RateWindow::Use> use;
    uint64_t number = 0;
    TransferLimit limit;
    bool overdue = false;  // cancelled because its limit passed
    Instant began{}, try_at{}, give_up_at = kNever;
    int attempts = 0;
    std::optional<Backoff> backoff;
  };
  struct UploadJob {
    ContributionUpload contribution;
    SharedBytes bytes;
    Conversation talk;
  };
  struct DownloadJob {
    JobId job;
    FragmentVersion asked;
    bool whole = false;
    bool dropped = false;  // cancelled, but kept because it may be requested again
    uint64_t bytes = 0;
    std::shared_ptr<DownloadBuffer> sink;
    Conversation talk;
  };
  using DownloadId = std::pair<FragmentIndex, std::pair<bool, Version>>;

  // Transfers that run one at a time, collected during a Turn.
  struct Line {
    bool busy = false;
    Conversation* next = nullptr;
    std::function<void()> begin;  // of `next`
  };
  // Cancels a conversation beyond its limit, and enters a startable one into its line. Returns when
  // to look again at the latest.
  static Instant Look(Conversation& talk, Instant now, Line& line, std::function<void()> begin);

  void Begin(UploadJob& upload);
  void Begin(DownloadId id, DownloadJob& download);
  void OnUploadSent(FragmentIndex fragment, uint64_t number);
  void OnUploadDone(FragmentIndex fragment, uint64_t number, const BulkResult& result);
  void OnDownloadDone(const DownloadId& id, uint64_t number, const BulkResult& result);
  void FinishDownload(const DownloadId& id, const absl::Status& status);
  void TryAgain(Conversation& talk, const std::string& what, const absl::Status& why);
  void Prepare(Conversation& talk, uint64_t bytes, RateWindow& window);
  // Call when the conversation is over. If it shows the link's rate, it becomes a sample of `window`.
  void Close(Conversation& talk, const BulkResult& result, RateWindow& window);
  void Measure(const Conversation& talk, const BulkResult& result, MovingRate& mean);
  // The result of the conversation. DeadlineExceeded, with TransferLimit::Passed, if it was cancelled at its limit.
  absl::Status WhyOf(const Conversation& talk, const BulkResult& result, uint64_t moved, uint64_t total) const;

  Parts parts_;
  uint64_t next_number_ = 1;
  std::shared_ptr<BufferShelf> buffers_;        // for downloads; one download's memory is reused by the next
  RateWindow upload_window_, download_window_;  // declared before the transfers, which use them until destroyed
  std::map<FragmentIndex, UploadJob> uploads_;
  std::map<DownloadId, DownloadJob> downloads_;
  uint64_t uploaded_bytes_ = 0, downloaded_bytes_ = 0;
  // Three measures: the rate of the link (the windows above); the rate that transfers got
  // (LinkTotals, successful ones only); and the rate for the time limit of conversations (both
  // directions, including failed ones).
  MovingRate upload_mean_, download_mean_, any_mean_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_LINK_STATE_H_
