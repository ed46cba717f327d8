// SPDX-License-Identifier: Apache-2.0
// The worker's two connections as one state machine: a control stream with reconnect, backoff and punctual
// heartbeats; bulk transfers that resume after interruptions. It has no thread of its own: a daemon turns it on
// its link thread, a harness on its only thread. Callbacks of the transport only queue work.
//
// The core's Hello is the first message on each stream; messages meant for an older stream are dropped.
//
// Waits and their limits: the core's Hello, kHelloPatience; a Welcome, kControlDeadline from Hello
// on; a transfer without progress, the BulkClient's stall limit; a whole conversation, derived from
// its size and the measured rate (transfer_limit.h); another attempt, Backoff. An upload is retried
// until it is accepted, refused, or cancelled, as the core does when the round is over. While the
// coordinator is away or not ready, a download is retried until it is dropped. A download that is
// damaged, or unreadable at the coordinator, fails after kDownloadAttempts without progress.
#ifndef ATOLL_WORKER_LINK_NETWORK_LINK_H_
#define ATOLL_WORKER_LINK_NETWORK_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rpc/backoff.h"
#include "common/rpc/bulk.h"
#include "common/rpc/message_stream.h"
#include "common/rpc/transfer_failure.h"
#include "worker/link/link.h"

namespace atl {

// The limit for the core's Hello, from the opening of a stream on: the core sends it between two steps. The
// coordinator ends a stream that is silent for half of this time (ControlServiceOptions).
constexpr Duration kHelloPatience = Seconds(60);
// The smallest transfer that LinkTotals' rates include: round trip and the coordinator's flush dominate smaller ones.
constexpr uint64_t kRateBytes = 256 * 1024;

struct NetworkLinkOptions {
  WorkerId worker;
  uint64_t seed = 0;  // for the jitter
  BackoffOptions backoff;
  std::string address;  // the coordinator's, for messages only
  // Advice for a stream that failed with this status, one clause; empty: only waiting helps. Called
  // from Turn while no stream is up. May be null.
  std::function<std::string(const absl::Status&)> advice = {};
};

// Totals since the start, for metrics: payload bytes of transfers, and the number of Welcomes.
struct LinkTotals {
  uint64_t uploaded_bytes = 0, downloaded_bytes = 0;
  uint64_t connects = 0;
  // Moving means over successful conversations of at least kRateBytes, from the begin of each to its end; 0: none
  // yet. Concurrent transfers share the link, so each is slower than the link.
  double upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

class NetworkLink final : public Link {
 public:
  // `open` makes the worker's end of a stream, not started. `bulk`, `clock` and `log` outlive the
  // link. `listener` is called from Turn; `wake` (may be null) from any thread if a Turn is due
  // earlier than the last one returned.
  NetworkLink(NetworkLinkOptions options, std::function<std::unique_ptr<WorkerEnd>()> open, BulkClient& bulk,
              const Clock& clock, Log& log, std::function<void(LinkEvent)> listener, std::function<void()> wake);
  ~NetworkLink() override;

  // Does all due work and returns when to call it again at the latest. One thread at a time.
  Instant Turn();
  // Drops all transfers, and ends the stream in order, after the messages sent so far. Opens no other stream.
  void Finish();
  // After Finish: all messages are sent and the stream has ended.
  bool finished() const;
  // The stream is up and welcomed.
  bool connected() const;
  LinkTotals totals() const;

  void Say(WorkerMessage message) override;
  void CloseStream(const std::string& reason) override;
  void SetHeartbeat(Heartbeat heartbeat) override;
  void SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) override;
  void StartUpload(const ContributionUpload& contribution, SharedBytes bytes) override;
  void CancelUpload(FragmentIndex fragment) override;
  void FetchFragment(const JobId& job, FragmentIndex fragment, uint64_t bytes, Version at_least) override;
  void FetchUpdate(const JobId& job, FragmentVersion reached, uint64_t limit_bytes) override;
  void DropFetches(FragmentIndex fragment) override;
  void DropAll() override;

 private:
  struct State;
  // The transport's callbacks may run after the link is destroyed: they share only its mailbox, which is then shut.
  std::shared_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_NETWORK_LINK_H_
