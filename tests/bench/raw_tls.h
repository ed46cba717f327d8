// SPDX-License-Identifier: Apache-2.0
// OpenSSL's TLS over plain sockets: the reference for encrypted transfers. A library error ends the
// program.
#ifndef ATOLL_TESTS_BENCH_RAW_TLS_H_
#define ATOLL_TESTS_BENCH_RAW_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>

#include "tests/bench/sockets.h"

namespace atl::bench {

// Identity files (common/trust/secret_files.h), each with key, certificate and authority.
struct TlsFiles {
  std::string client, server;
};

// The version and cipher suite negotiated between the server at that loopback port and a client
// with the library's defaults, such as "TLSv1.3 TLS_AES_256_GCM_SHA384". Only makes the handshake.
std::string NegotiatedWith(int port, const TlsFiles& files);

// One TLS 1.3 connection, both ends with certificates and the suite of `negotiated`, otherwise with the
// library's defaults.
class TlsPair {
 public:
  TlsPair(const TlsFiles& files, const std::string& negotiated);
  SSL* client() const { return client_.get(); }
  SSL* server() const { return server_.get(); }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  SocketPair sockets_;
  std::unique_ptr<SSL, Free> client_, server_;
};

// Sends all bytes in calls of kWriteBytes; the library splits them into records of 16 KiB.
void SendAll(SSL* ssl, std::span<const std::byte> bytes);
void ReceiveAll(SSL* ssl, std::span<std::byte> bytes);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_RAW_TLS_H_
