// SPDX-License-Identifier: Apache-2.0
// TLS to a coordinator with plain OpenSSL: fetches the authority that a join token pins, sends a request to the
// enrolment port, and says why a handshake fails, which gRPC's channels report only as UNAVAILABLE. Blocks the calling
// thread, at most kHandshakeLimit_s for each step. The program ignores SIGPIPE: the other end may hang up while it is
// written to.
#ifndef ATOLL_COMMON_TRUST_HANDSHAKE_H_
#define ATOLL_COMMON_TRUST_HANDSHAKE_H_

#include <string>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/trust/secret_files.h"

namespace atl {

inline constexpr int kHandshakeLimit_s = 5;

// The authority's certificate (PEM) that the listener at HOST:PORT shows in its chain, provided that it has this
// fingerprint, issued the listener's own certificate (or vouches for who did), and that one is a coordinator's.
// Unavailable: nobody listens, no answer in time, or no TLS. PermissionDenied: another authority's coordinator, with
// both fingerprints.
// `preamble`: sent before the handshake, as a load balancer does.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Sha256& fingerprint,
                                           const std::string& preamble = "");

// PermissionDenied, with both dates, where HOST:PORT shows a coordinator's certificate of one of these authorities
// (PEM) that has ended, or has not begun, by this machine's clock; OK in all other cases, also where nobody answers.
absl::Status CheckShownTimes(const std::string& address, const std::string& authorities_pem);

// Connects to HOST:PORT and hangs up; the numeric address that answered, "203.0.113.7:7070". Unavailable with the
// system's reason: the name is not known, nobody listens, no answer in time.
absl::StatusOr<std::string> TryConnect(const std::string& address);

// Connects to HOST:PORT without encryption and waits for the first bytes, which an HTTP/2 server sends by itself.
// Unavailable with the reason.
absl::Status TryGreeting(const std::string& address, const std::string& preamble = "");

// A whole handshake with mutual TLS as a channel would make it, and the first bytes after it, since a coordinator that
// refuses a certificate hangs up only then. OK with the TLS version, "TLSv1.3". Unavailable: no connection, or no TLS
// there. PermissionDenied: one end refuses the other's certificate, with the reason and which end it is.
absl::StatusOr<std::string> TryHandshake(const std::string& address, const IdentityFile& identity);

struct HttpsAnswer {
  int status = 0;  // of HTTP
  std::string content_type;
  std::string body;
};

// Sends one POST to HOST:PORT over TLS, without a certificate of our own, and reads the answer; ends within some 20 s.
// `authorities_pem`: of one of these the listener must show a coordinator's certificate, or nothing is sent.
// Unavailable: no connection, no answer in time, or no HTTP. PermissionDenied: another certificate.
absl::StatusOr<HttpsAnswer> PostHttps(const std::string& address, const std::string& authorities_pem,
                                      const std::string& target, const std::string& content_type,
                                      const std::string& body);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_HANDSHAKE_H_
