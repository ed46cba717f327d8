// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS for the guard: one OpenSSL context that follows its identity file, and connections that
// never block. TLS 1.2 and 1.3 with forward-secret AEAD suites; no resumption, renegotiation or compression.
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
#include "common/trust/certificate.h"

struct ssl_st;
struct ssl_ctx_st;

namespace atl::guard {

enum class ClientCertificates { kDemanded, kNotAsked };

// Thread-safe. Reads the identity file again when it changed, at most once a second, for connections that come after.
class TlsServer {
 public:
  // Errors of ReadIdentityFile; InvalidArgument where OpenSSL refuses what it holds.
  static absl::StatusOr<std::unique_ptr<TlsServer>> Open(const std::string& identity_file, ClientCertificates clients);
  // The context for a connection that begins. A file that cannot be used leaves the newest good one in place.
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
  End end = End::kOpen;      // of the direction (kClosed: the peer ended it) or of the whole connection (kFailed)
  bool wants_write = false;  // nothing moved, since the socket takes no bytes
};

// One connection's bytes, encrypted or plain, over a socket that does not block. Borrows the socket.
class SecureSocket {
 public:
  // `context` null: plaintext.
  SecureSocket(int socket, const std::shared_ptr<ssl_ctx_st>& context);
  ~SecureSocket();
  SecureSocket(const SecureSocket&) = delete;
  SecureSocket& operator=(const SecureSocket&) = delete;
  // One step of the handshake. kClosed: it is complete.
  Moved Handshake();
  Moved Read(std::span<uint8_t> into);
  // Takes one record of TLS at most. Where `bytes` are more, the kernel sends them on with those of the next call,
  // which must follow at once: a packet and a waking of the peer for each record cost more than its encryption.
  Moved Write(std::span<const uint8_t> bytes);
  // Tells the peer that no more comes, as far as the socket takes it.
  void SayGoodbye();
  // Of the peer's verified certificate; nothing where there is none or it names no identity.
  std::optional<CertificateFacts> PeerCertificate() const;

 private:
  Moved Result(int code) const;
  const int socket_;
  ssl_st* ssl_ = nullptr;
  bool more_follows_ = false;  // what is written is no end
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_TLS_SERVER_H_
