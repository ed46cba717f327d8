// SPDX-License-Identifier: Apache-2.0
// TLS to a coordinator with plain OpenSSL: fetches the authority that a join token pins, sends a request to
// the enrolment port, and explains failed handshakes, which gRPC's channels report only as UNAVAILABLE.
// Blocks the calling thread: for the name's resolution, then at most kHandshakeLimit_s for each address,
// read and write. The program must ignore SIGPIPE, because the peer may close the connection during a write.
#ifndef ATOLL_COMMON_TRUST_HANDSHAKE_H_
#define ATOLL_COMMON_TRUST_HANDSHAKE_H_

#include <string>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/trust/secret_files.h"

namespace atl {

inline constexpr int kHandshakeLimit_s = 5;

// Fetches the authority's certificate (PEM) from the chain shown by the listener at HOST:PORT. The
// certificate must have this fingerprint, and it must have issued the listener's certificate,
// directly or through a cross-certificate; the listener's must be a coordinator's. Dates are not
// checked. Unavailable: no listener, no answer in time, or no TLS. PermissionDenied, with both
// fingerprints: a coordinator of another authority. `preamble` is sent before the handshake, as a
// load balancer does.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Sha256& fingerprint,
                                           const std::string& preamble = "");

// PermissionDenied, with both dates, when HOST:PORT shows a coordinator's certificate of one of
// these authorities (PEM) that is expired or not yet valid by this machine's clock. OK in all other
// cases, also without an answer.
absl::Status CheckShownTimes(const std::string& address, const std::string& authorities_pem);

// Connects to HOST:PORT and disconnects. Returns the numeric address that answered,
// "203.0.113.7:7070". Unavailable with the system's reason: unknown name, no listener, no answer in
// time.
absl::StatusOr<std::string> TryConnect(const std::string& address);

// Connects to HOST:PORT without encryption and waits for the first bytes, which an HTTP/2 server
// sends unasked. Unavailable with the reason.
absl::Status TryGreeting(const std::string& address, const std::string& preamble = "");

// Performs a complete handshake with mutual TLS, like a channel, and waits for the first bytes,
// because a coordinator that refuses a certificate closes only then. Returns the TLS version,
// "TLSv1.3". Unavailable: no connection, or no TLS. PermissionDenied: one end refuses the other's
// certificate, with the reason and the refusing end.
absl::StatusOr<std::string> TryHandshake(const std::string& address, const IdentityFile& identity);

struct HttpsAnswer {
  int status = 0;  // HTTP status
  std::string content_type;
  std::string body;
};

// Sends one POST to HOST:PORT over TLS, without a client certificate, and waits about 20 s at most
// for the answer. Sends nothing unless the listener shows a coordinator's certificate of one of the
// authorities in `authorities_pem`. Unavailable: no connection, no answer in time, or no HTTP.
// PermissionDenied: another certificate.
absl::StatusOr<HttpsAnswer> PostHttps(const std::string& address, const std::string& authorities_pem,
                                      const std::string& target, const std::string& content_type,
                                      const std::string& body);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_HANDSHAKE_H_
