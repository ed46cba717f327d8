// SPDX-License-Identifier: Apache-2.0
// TLS by OpenSSL over plain sockets: the yardstick of encrypted transfers. A refusal of the library stops the program.
#ifndef ATOLL_TESTS_BENCH_RAW_TLS_H_
#define ATOLL_TESTS_BENCH_RAW_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>

#include "tests/bench/sockets.h"

namespace atl::bench {

// Identity files as of common/trust/secret_files.h, each with key, certificate and authority.
struct TlsFiles {
  std::string client, server;
};

// What the server at that port of loopback and a client with the library's own preferences agree on, as
// "TLSv1.3 TLS_AES_256_GCM_SHA384". Speaks TLS alone, and ends.
std::string NegotiatedWith(int port, const TlsFiles& files);

// One connection of TLS 1.3, both ends with certificates, the library's preferences.
class TlsPair {
 public:
  explicit TlsPair(const TlsFiles& files);
  SSL* client() const { return client_.get(); }
  SSL* server() const { return server_.get(); }
  // Version and suite.
  std::string negotiated() const;

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  SocketPair sockets_;
  std::unique_ptr<SSL, Free> client_, server_;
};

// All of it, in calls of kWriteBytes; the library makes records of 16 KiB of them.
void SendAll(SSL* ssl, std::span<const std::byte> bytes);
void ReceiveAll(SSL* ssl, std::span<std::byte> bytes);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_RAW_TLS_H_
