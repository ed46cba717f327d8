// SPDX-License-Identifier: Apache-2.0
// Server side of TLS for the guard: an OpenSSL context that follows its identity file, and
// non-blocking connections. TLS 1.3 without resumption. Everything that a peer sends
// except data is bounded: the handshake (ClientHelloWatch) and updates of its key.
#ifndef ATOLL_COMMON_GUARD_TLS_SERVER_H_
#define ATOLL_COMMON_GUARD_TLS_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/guard/client_hello_watch.h"
#include "common/trust/certificate.h"

struct ssl_st;
struct ssl_ctx_st;

namespace atl::guard {

enum class ClientCertificates { kDemanded, kNotAsked };

// Thread-safe. Reloads a changed identity file for later connections, at most once a second.
class TlsServer {
 public:
  // Errors: those of ReadIdentityFile; InvalidArgument when OpenSSL refuses the content.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Open(const std::string& identity_file, ClientCertificates clients);
  // Returns the context for a new connection. If the file is unusable, the last good one stays in
  // use.
  std::shared_ptr<ssl_ctx_st> Current(Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  struct Stamp {
    int64_t modified_ns = 0, size = 0;
    uint64_t inode = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  TlsServer(std::string file, ClientCertificates clients) : file_(std::move(file)), clients_(clients) {}
  Stamp Look() const;

  const std::string file_;
  const ClientCertificates clients_;
  Mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_ ATOLL_GUARDED_BY(mutex_);
  Stamp stamp_ ATOLL_GUARDED_BY(mutex_);
  Instant looked_ ATOLL_GUARDED_BY(mutex_) = {};
};

// Result of one attempt to move bytes.
struct Moved {
  enum class End { kOpen, kClosed, kFailed };
  size_t bytes = 0;          // 0 and kOpen: nothing can move now
  End end = End::kOpen;      // kClosed: the peer ended the direction; kFailed: the whole connection failed
  bool wants_write = false;  // nothing moved, because the socket is full
};

// Bytes of one connection between OpenSSL and the socket.
struct Records {
  std::string waiting;                    // to send, not accepted by the socket yet
  size_t readable = SIZE_MAX;             // bytes that may still be read from the socket in this turn
  uint32_t key_updates = 0;               // of the peer
  std::optional<ClientHelloWatch> hello;  // during the handshake
  bool refused = false;                   // nothing more is read from the peer
};

// Certificates in the chain of a client; with more its handshake fails. An identity file has its own, and after a
// rotation three of authorities.
inline constexpr size_t kMostInChain = 4;

// Key updates of a peer in the life of a connection; more end it. OpenSSL sends none, AES-GCM needs one in 400 GB.
inline constexpr uint32_t kMostKeyUpdates = 32;

// Encrypted or plain bytes of one connection over a non-blocking socket. Borrows the socket.
class SecureSocket {
 public:
  // `context` null: plaintext.
  SecureSocket(int socket, const std::shared_ptr<ssl_ctx_st>& context);
  ~SecureSocket();
  SecureSocket(const SecureSocket&) = delete;
  SecureSocket& operator=(const SecureSocket&) = delete;
  // At most `bytes` of TLS are read from the socket until the next call: records of one byte cost far more
  // than their content.
  void AllowReading(size_t bytes) { records_.readable = bytes; }
  // True when the peer sent more handshake or key updates than allowed, or other types; the connection has failed.
  bool refused() const { return records_.refused; }
  // One step of the handshake. kClosed: it is complete.
  Moved Handshake();
  Moved Read(std::span<uint8_t> into);
  // TLS: takes all bytes or none, and sends their records in one call, because a packet and a wakeup of the peer for
  // each record cost more than its encryption. Records that the socket does not accept wait here; until Flush has sent
  // them, Write takes nothing. Plaintext: takes as many bytes as the socket accepts.
  Moved Write(std::span<const uint8_t> bytes);
  // Sends the waiting records as far as the socket accepts them.
  Moved Flush();
  size_t waiting_bytes() const { return records_.waiting.size(); }
  // Memory for records. It stays for the next Write until Release, which frees it unless records wait.
  size_t held_bytes() const { return records_.waiting.capacity(); }
  void Release();
  // Sends TLS close_notify as far as the socket accepts it; nothing in plaintext or while records wait.
  void SayGoodbye();
  // The peer's verified certificate; nullopt when there is none or it contains no identity.
  std::optional<CertificateFacts> PeerCertificate() const;

 private:
  Moved Result(int code) const;
  Moved Send(std::span<const uint8_t> records);
  const int socket_;
  ssl_st* ssl_ = nullptr;
  Records records_;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_TLS_SERVER_H_
