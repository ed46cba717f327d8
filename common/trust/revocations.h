// SPDX-License-Identifier: Apache-2.0
// Revoked certificates: those obtained with a revoked join token, and those issued to a name before
// its revocation. Only decides; coordinator/service stores the list in the ledger and asks at every
// call, renewal and enrolment. Not thread-safe.
#ifndef ATOLL_COMMON_TRUST_REVOCATIONS_H_
#define ATOLL_COMMON_TRUST_REVOCATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/trust/certificate.h"

namespace atl {

// A revoked name. The name stays usable: certificates issued later are valid.
struct RevocationRecord {
  std::string name;      // name of a person or worker, whatever its role
  int64_t revoke_s = 0;  // certificates issued in this second or earlier are refused; by the issuer's clock
  std::string by;        // identity that revoked it, "admin/ops"
  friend bool operator==(const RevocationRecord&, const RevocationRecord&) = default;
};

// Time at which a certificate was issued. Its validity begins kClockMargin_s (authority.h) earlier.
int64_t IssueTime(const CertificateFacts& facts);

class Revocations {
 public:
  void RevokeToken(const std::string& id) { tokens_.insert(id); }
  // Keeps the later of two times.
  void RevokeName(const std::string& name, int64_t revoke_s);
  // Time of the name's revocation; nullopt if it was never revoked.
  std::optional<int64_t> RevokedAt(const std::string& name) const;
  // PermissionDenied with the reason and how to get access again.
  absl::Status Check(const CertificateFacts& facts) const;

 private:
  std::set<std::string> tokens_;
  std::map<std::string, int64_t> names_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_REVOCATIONS_H_
