// The caller's side of WorkerService.Enroll: a join token, or the certificate it renews, becomes an identity. Keys are
// made here and never leave the machine. Blocks; each call ends within about 20 s.
#ifndef ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
#define ATOLL_COMMON_RPC_ENROLL_CLIENT_H_

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/trust/join_token.h"
#include "common/trust/secret_files.h"

namespace atl {

// `address` is the enrolment port. `role`: refused unless the token is for it; nothing: whatever the token is for.
// Errors of FetchAuthority, and the coordinator's: Unauthenticated with the reason.
absl::StatusOr<IdentityFile> EnrollWithToken(const std::string& address, const JoinToken& token,
                                             std::optional<Role> role, const std::string& name);
// A new certificate for the same key. Works until kRenewalGrace_s after the old one's end.
absl::StatusOr<IdentityFile> RenewIdentity(const std::string& address, const IdentityFile& identity);

// A token from a file, without the white space around it.
absl::StatusOr<JoinToken> ReadJoinTokenFile(const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ENROLL_CLIENT_H_
