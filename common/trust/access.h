// SPDX-License-Identifier: Apache-2.0
// The access table: the roles that may call each RPC, deny by default. Listeners check it before
// any handler runs.
#ifndef ATOLL_COMMON_TRUST_ACCESS_H_
#define ATOLL_COMMON_TRUST_ACCESS_H_

#include <string>
#include <vector>

#include "common/trust/identity.h"

namespace atl {

struct AccessRule {
  std::string method;  // "/atoll.v1.JobService/SubmitJob"
  std::vector<Role> roles;
  bool changes_state = false;  // an allowed call gets an audit line; refused calls always get one
  bool transfers = false;      // of data
  bool is_query() const { return !changes_state && !transfers; }
};

// The complete table, ordered by method.
const std::vector<AccessRule>& AccessTable();
// Null for a method that is not in the table, which is refused for every caller.
const AccessRule* FindAccessRule(const std::string& method);
// PermissionDenied with the allowed roles, or because the call does not exist.
absl::Status CheckAccess(const std::string& method, const Identity& caller);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_ACCESS_H_
