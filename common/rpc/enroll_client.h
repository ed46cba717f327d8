// SPDX-License-Identifier: Apache-2.0
// The caller's side of enrolment (docs/formats/enrolment.md): a join token, or the certificate it renews, becomes an identity.
// Keys are made here and never leave the machine. Blocks; each call ends within about 20 s.
#ifndef ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
#define ATOLL_COMMON_RPC_ENROLL_CLIENT_H_

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/trust/join_token.h"
#include "common/trust/secret_files.h"

namespace atl {

// Enrolment is one HTTPS request: POST of an EnrollRequest, answered with an EnrollResponse, or with an EnrollFailure
// where the status is not 200.
inline constexpr char kEnrollTarget[] = "/v1/enroll";
inline constexpr char kProtobuf[] = "application/x-protobuf";

// Writes the identity to `path`. The new key lies beside it, in PATH.enrolling, from before the coordinator is asked
// until the identity is written: where the answer was lost, the next call asks with the same key and is answered again,
// though the token's use is taken. `address` is the enrolment port. `role`: refused unless the token is for it;
// nothing: whatever the token is for. Errors of FetchAuthority, and the coordinator's: Unauthenticated with the reason.
// Where the path cannot be written the token is not sent. `passphrase`: protects the key in both files, unless empty.
absl::StatusOr<IdentityFile> EnrollWithToken(const std::string& address, const JoinToken& token,
                                             std::optional<Role> role, const std::string& name, const std::string& path,
                                             const std::string& passphrase = "");
// A new certificate for the same key. Works until kRenewalGrace_s after the old one's end.
absl::StatusOr<IdentityFile> RenewIdentity(const std::string& address, const IdentityFile& identity);

// A token from a file, without the white space around it.
absl::StatusOr<JoinToken> ReadJoinTokenFile(const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
