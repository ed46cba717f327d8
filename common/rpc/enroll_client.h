// SPDX-License-Identifier: Apache-2.0
// Client side of enrolment (docs/formats/enrolment.md): turns a join token, or the certificate to
// renew, into an identity. Keys are generated here and never leave the machine. Blocks; waits at
// most about 20 s for each answer of the coordinator.
#ifndef ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
#define ATOLL_COMMON_RPC_ENROLL_CLIENT_H_

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/trust/join_token.h"
#include "common/trust/secret_files.h"

namespace atl {

// Enrolment is one HTTPS request: a POST of an EnrollRequest. The answer is an EnrollResponse, or
// an EnrollFailure with a status other than 200.
inline constexpr char kEnrollTarget[] = "/v1/enroll";
inline constexpr char kProtobuf[] = "application/x-protobuf";

// Writes the identity to `path`. The new key is stored in PATH.enrolling before the coordinator is
// asked, until the identity is written. If the answer is lost, the next call sends the same key and gets
// an answer again, although the token is used up. `address` is the enrolment port. `role`: refused
// unless the token is for this role; nullopt: the token's role. Errors: those of FetchAuthority, of the
// files, and of the coordinator: for a token that it refuses, Unauthenticated with the reason. The token
// is not sent when `path` cannot be written. `passphrase` protects the key in both files, unless empty.
absl::StatusOr<IdentityFile> EnrollWithToken(const std::string& address, const JoinToken& token,
                                             std::optional<Role> role, const std::string& name, const std::string& path,
                                             const std::string& passphrase = "");
// Returns the hash of the public key with which EnrollWithToken will enrol for `path` without a passphrase. Creates the
// key unless an earlier call has left one.
absl::StatusOr<Sha256> KeyToEnrol(const std::string& path);
// Returns a new certificate for the same key. Works until kRenewalGrace_s after the expiry of the
// old one.
absl::StatusOr<IdentityFile> RenewIdentity(const std::string& address, const IdentityFile& identity);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
