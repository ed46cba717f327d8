// SPDX-License-Identifier: Apache-2.0
// An accepted connection, driven by a loop (loop.h): the PROXY header where the listener expects
// one, the TLS handshake, then the subclass handles the bytes. Everything runs on the loop's
// thread.
#ifndef ATOLL_COMMON_GUARD_CONNECTION_H_
#define ATOLL_COMMON_GUARD_CONNECTION_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/descriptor.h"
#include "common/base/time.h"
#include "common/guard/acceptor.h"
#include "common/guard/peers.h"
#include "common/guard/tls_server.h"

namespace atl::guard {

inline constexpr Duration kHandshakeTime = Seconds(5);  // for PROXY header and TLS handshake; then the connection ends
inline constexpr Duration kGoodbyeTime = Seconds(2);    // for the last bytes to a peer before its connection closes
inline constexpr size_t kLingerBytes = 256 << 10;       // bytes that a peer may still send in that time

// How a connection ended, for the counters.
enum class Ending { kNormal, kHandshake, kBroken, kTooFast, kRevoked };

// Dependencies shared by all connections of a listener.
struct ConnectionParts {
  std::shared_ptr<TlsServer> tls;  // null: plaintext
  bool proxied = false;            // connections begin with a PROXY header
  // Called when a proxy named the client's address. Returns when the handshake may begin; nullopt: no room.
  std::function<std::optional<Instant>(uint64_t id, const std::string& address)> moved;
};

// A socket and the events (EPOLLIN, EPOLLOUT) to wait for.
struct Wait {
  int socket = -1;
  uint32_t events = 0;
};

class Connection {
 public:
  Connection(Accepted accepted, const ConnectionParts& parts, Instant now);
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Next {
    kWait,   // no progress until one of the sockets is ready or the time wake() has come
    kAgain,  // more progress is possible at once
    kEnd,
  };
  // Moves bytes as far as the sockets allow, for a bounded time. `scratch` is a read buffer; its content is
  // lost between calls. Returns kEnd when the connection has ended or is lost, or its deadline has passed.
  Next Pump(Instant now, std::span<uint8_t> scratch);
  // The awaited events of the peer's socket and, in a Relay, of the inner socket to gRPC.
  Wait outer() const;
  virtual Wait inner() const { return {}; }
  // Time at which Pump must be called even if no socket is ready: the deadline, or earlier.
  Instant wake() const { return wake_ < deadline_ ? wake_ : deadline_; }
  uint64_t id() const { return id_; }
  const Peer& peer() const { return peer_; }
  Ending ending() const { return ending_; }
  // Ends the connection at the next Pump.
  void EndAs(Ending how) {
    ending_ = how;
    ended_ = true;
  }

 protected:
  // Called after the handshake.
  virtual void Opened(Instant now) = 0;
  virtual Next MoveBytes(Instant now, std::span<uint8_t> scratch) = 0;
  bool has_output() const { return !out_.empty() || secure_->waiting_bytes() > 0; }
  // Writes the output as far as the socket accepts it. False: the connection is lost.
  bool FlushOut();
  // Stops reading, writes the output within kGoodbyeTime, then ends the connection.
  void Close(Ending how, Instant now);
  // As Close, but then discards up to kLingerBytes from the peer until the peer ends the connection: unread bytes
  // would make the kernel reset the connection, and the peer could lose the output.
  void CloseAndLinger(Ending how, Instant now);

  std::string out_;  // for the peer
  bool reads_ = true;
  bool closing_ = false;
  Instant deadline_;
  Instant wake_ = kNever;
  Peer peer_;

  SecureSocket& socket() { return *secure_; }
  const SecureSocket& socket() const { return *secure_; }

 private:
  enum class Stage { kProxyHeader, kTurn, kHandshake, kOpen };
  Next ReadProxyHeader(Instant now);
  void BeginHandshake();
  Next Handshake(Instant now);
  Next SayGoodbye(std::span<uint8_t> scratch);

  const uint64_t id_;
  const ConnectionParts& parts_;
  const Descriptor socket_;
  std::unique_ptr<SecureSocket> secure_;
  Stage stage_;
  ssize_t seen_of_header_ = 0;  // bytes of the PROXY header seen by the previous peek
  bool ended_ = false;
  std::optional<size_t> linger_;  // bytes that may still be discarded
  bool said_goodbye_ = false;
  Ending ending_ = Ending::kNormal;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CONNECTION_H_
