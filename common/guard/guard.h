// SPDX-License-Identifier: Apache-2.0
// The guard in front of a coordinator's port: a listener that handles a connection before gRPC, or
// a small HTTPS handler, sees any of its bytes. TLS ends here. Where TlsServer demands client
// certificates, bytes of a peer without a valid one go no further.
//
// Memory of a connection: before its first admitted call the TLS state and at most 20 KiB;
// afterwards at most two chunks of kChunkBytes, and the kernel's buffers of the inner socket pair.
// docs/trust.md, "The door".
#ifndef ATOLL_COMMON_GUARD_GUARD_H_
#define ATOLL_COMMON_GUARD_GUARD_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/guard/acceptor.h"
#include "common/guard/call_counter.h"
#include "common/guard/https_exchange.h"
#include "common/guard/loop.h"
#include "common/guard/relay.h"

namespace atl::guard {

// Decides whether a call may be made, before gRPC sees it. Runs on the loop's thread; must not
// block. An error is the answer to the call.
using CallCheck = std::function<absl::Status(const std::string& path, const Peer& peer)>;

struct GuardOptions {
  std::string address = "127.0.0.1:0";
  ConnectionLimits connections;
  std::shared_ptr<TlsServer> tls;  // null: plaintext
  bool proxied = false;            // connections begin with a PROXY header
  unsigned threads = 1;
};

// Thread-safe.
class Guard {
 public:
  // Errors: those of Acceptor::Listen. Accepts nothing before Relay or Answer.
  static absl::StatusOr<std::unique_ptr<Guard>> Listen(const GuardOptions& options);
  // Calls StopAccepting, then ends all connections.
  ~Guard();
  int port() const { return acceptor_->port(); }
  // Starts to accept, and relays gRPC connections. `hand_over` gets gRPC's end of each inner pair, a
  // non-blocking socket, on a loop's thread. Call once, instead of Answer.
  absl::Status Relay(HttpLimits http, CallLimits calls, CallCheck check, std::function<void(Descriptor)> hand_over);
  // Starts to accept, and answers HTTPS requests. Call once, instead of Relay.
  absl::Status Answer(HttpHandler handler);
  // Returns when the accepting thread has ended. Open connections stay.
  void StopAccepting() { acceptor_->Stop(); }
  // Ends the open connections of peers for which `which` is true. `which` runs later, on the loops' threads.
  void EndConnections(const std::function<bool(const Peer&)>& which);
  ConnectionCounts Counts() const { return acceptor_->Counts(); }

 private:
  // Lets late answers of a handler find out whether the guard still exists.
  struct Life {
    Mutex mutex;
    Guard* guard ATOLL_GUARDED_BY(mutex) = nullptr;
  };
  Guard(const GuardOptions& options, std::unique_ptr<Acceptor> acceptor);
  absl::Status Start(const Loop::Make& make);
  CallVerdict Judge(uint64_t id, const Peer& peer, const std::string& path, const absl::Status& refusal);
  Loop& LoopOf(uint64_t id) { return *loops_[id % loops_.size()]; }

  const unsigned threads_;
  const std::unique_ptr<Acceptor> acceptor_;
  RelayParts relay_;
  ExchangeParts exchange_;
  CallCheck check_;
  std::unique_ptr<CallCounter> calls_;
  std::atomic<size_t> held_ = 0;
  const std::shared_ptr<Life> life_ = std::make_shared<Life>();
  std::vector<std::unique_ptr<Loop>> loops_;  // last: they end before the members they use
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_GUARD_H_
