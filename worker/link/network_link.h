// SPDX-License-Identifier: Apache-2.0
// The worker's two connections as one machine that is turned: control stream with reconnect, backoff and heartbeats on
// time; bulk transfers that resume where they broke. It has no thread of its own: a daemon turns it on its link thread,
// a harness in its only one. Callbacks of the transport only queue.
//
// Each stream is greeted once: Hello is what the core says first on it, and what it says to an older one is dropped.
//
// Waits and their limits: the core's Hello, kHelloPatience; a Welcome, kControlDeadline from Hello on; a transfer
// without progress, the BulkClient's stall limit; a conversation as a whole, derived from its size and the measured
// rate (transfer_limit.h); another try, Backoff. An upload is tried until it is cancelled, which the core does when its
// round is over. A download is tried until it is dropped while the coordinator is away or not ready; what comes damaged
// or cannot be read there is given up after kDownloadAttempts without progress.
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

// From the opening of a stream on: the core says Hello between two steps. The coordinator ends a stream that is silent
// for half of it (ControlServiceOptions).
constexpr Duration kHelloPatience = Seconds(60);
// Below this the round trip and the coordinator's flush to disk outweigh the bytes on a wide-area link.
constexpr uint64_t kRateBytes = 256 * 1024;

struct NetworkLinkOptions {
  WorkerId worker;
  uint64_t seed = 0;  // of the jitter
  BackoffOptions backoff;
  std::string address;  // for people
  // What to do about a stream that failed so, one clause; empty: nothing but to wait. Called from Turn while no stream
  // is up. May be none.
  std::function<std::string(const absl::Status&)> advice = {};
};

// Bytes moved since the start, for metrics; payload only.
struct LinkTotals {
  uint64_t uploaded_bytes = 0, downloaded_bytes = 0;
  uint64_t connects = 0;
  // Moving means over finished transfers of at least kRateBytes, from request to end; 0: none yet. Transfers at the
  // same time share the link, so that each is slower than the link is.
  double upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

class NetworkLink final : public Link {
 public:
  // `open` makes a worker's end that is not started. `bulk`, `clock` and `log` outlive the link. `listener` is called
  // from Turn; `wake` (may be empty) from any thread when a Turn is due earlier than the last one said.
  NetworkLink(NetworkLinkOptions options, std::function<std::unique_ptr<WorkerEnd>()> open, BulkClient& bulk,
              const Clock& clock, Log& log, std::function<void(LinkEvent)> listener, std::function<void()> wake);
  ~NetworkLink() override;

  // Does what is due and returns when to come again at the latest. One thread at a time.
  Instant Turn();
  // Ends the stream in order after what was said; Turn does nothing more once it is over.
  void Finish();
  // After Finish: everything said has left and the stream has ended.
  bool finished() const;
  // The stream is up and welcomed.
  bool connected() const;
  LinkTotals totals() const;

  void Say(WorkerMessage message) override;
  void CloseStream(const std::string& reason) override;
  void SetHeartbeat(Heartbeat heartbeat) override;
  void SetCaps(uint64_t upload_bytes_per_second, uint64_t download_bytes_per_second) override;
  void StartUpload(const ContributionHeader& header, BootNumber boot, SharedBytes bytes) override;
  void CancelUpload(FragmentIndex fragment) override;
  void FetchFragment(const JobId& job, FragmentIndex fragment, uint64_t bytes, Version at_least) override;
  void FetchUpdate(const JobId& job, FragmentVersion reached, uint64_t limit_bytes) override;
  void DropFetches(FragmentIndex fragment) override;
  void DropAll() override;

 private:
  struct State;
  // Shared with the transport's callbacks, which may come after the link is gone.
  std::shared_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_NETWORK_LINK_H_
