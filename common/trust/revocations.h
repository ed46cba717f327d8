// SPDX-License-Identifier: Apache-2.0
// Which certificates are refused though their dates are good: those that came by a join token that was revoked, and
// those of a name that were issued before it was. Decides only; coordinator/service keeps the list in the ledger and
// asks at every call, renewal and enrolment. Not thread-safe.
#ifndef ATOLL_COMMON_TRUST_REVOCATIONS_H_
#define ATOLL_COMMON_TRUST_REVOCATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/trust/certificate.h"

namespace atl {

// One revoked name. A name is not lost by it: a certificate that was issued later counts.
struct RevocationRecord {
  std::string name;      // of people and workers of every role
  int64_t revoke_s = 0;  // certificates issued in this second or before are refused; by the issuer's clock
  std::string by;        // who revoked it, "admin/ops"
  friend bool operator==(const RevocationRecord&, const RevocationRecord&) = default;
};

// When a certificate was issued. It begins kClockMargin_s (authority.h) earlier.
int64_t IssueTime(const CertificateFacts& facts);

class Revocations {
 public:
  void RevokeToken(const std::string& id) { tokens_.insert(id); }
  // Of two times the later one counts.
  void RevokeName(const std::string& name, int64_t revoke_s);
  // The time of the name's revocation; nothing where it never was.
  std::optional<int64_t> RevokedAt(const std::string& name) const;
  // PermissionDenied with the reason and the way back.
  absl::Status Check(const CertificateFacts& facts) const;

 private:
  std::set<std::string> tokens_;
  std::map<std::string, int64_t> names_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_REVOCATIONS_H_
