// One TLS handshake with plain OpenSSL: fetches the authority that a join token pins, and says why a handshake fails,
// which gRPC's channels tell only as UNAVAILABLE. Blocks the calling thread, at most kHandshakeLimit_s for each step.
#ifndef ATOLL_COMMON_TRUST_HANDSHAKE_H_
#define ATOLL_COMMON_TRUST_HANDSHAKE_H_

#include <string>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

inline constexpr int kHandshakeLimit_s = 5;

// The authority's certificate (PEM) that the listener at HOST:PORT shows in its chain, provided that it has this
// fingerprint, signed the listener's own certificate, and that one is a coordinator's. Unavailable: nobody listens, no
// answer in time, or no TLS. PermissionDenied: another authority's coordinator, with both fingerprints.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, const Sha256& fingerprint);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_HANDSHAKE_H_
