// SPDX-License-Identifier: Apache-2.0
#include "common/trust/revocations.h"

#include <algorithm>

#include "common/trust/authority.h"

namespace atl {

int64_t IssueTime(const CertificateFacts& facts) { return facts.not_before_s + kClockMargin_s; }

void Revocations::RevokeName(const std::string& name, int64_t revoke_s) {
  const auto [at, fresh] = names_.try_emplace(name, revoke_s);
  if (!fresh) at->second = std::max(at->second, revoke_s);
}

std::optional<int64_t> Revocations::RevokedAt(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status Revocations::Check(const CertificateFacts& facts) const {
  const Identity& identity = facts.identity;
  if (!identity.token.empty() && tokens_.contains(identity.token)) {
    return absl::PermissionDeniedError(absl::StrCat(RoleName(identity.role), " '", identity.name,
                                                    "' enrolled with join token ", identity.token,
                                                    ", which was revoked: enrol again with another token"));
  }
  const std::optional<int64_t> revoked_s = RevokedAt(identity.name);
  if (!revoked_s || IssueTime(facts) > *revoked_s) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the certificate of ", RoleName(identity.role), " '", identity.name,
                                                  "' was revoked at ", DateText(*revoked_s),
                                                  ": enrol again with a newer join token"));
}

}  // namespace atl
