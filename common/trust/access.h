// SPDX-License-Identifier: Apache-2.0
// Which role may call what: one table for every RPC, deny by default. Read by the listeners before any handler runs.
#ifndef ATOLL_COMMON_TRUST_ACCESS_H_
#define ATOLL_COMMON_TRUST_ACCESS_H_

#include <string>
#include <vector>

#include "common/trust/identity.h"

namespace atl {

struct AccessRule {
  std::string method;  // "/atoll.v1.JobService/SubmitJob"
  std::vector<Role> roles;
  bool changes_state = false;  // gets an audit line when allowed; refused calls always get one
};

// The whole table, ordered by method.
const std::vector<AccessRule>& AccessTable();
// Null for a method that is not in the table: nobody may call it.
const AccessRule* FindAccessRule(const std::string& method);
// PermissionDenied with the roles that may, or that there is no such call.
absl::Status CheckAccess(const std::string& method, const Identity& caller);

}  // namespace atl

#endif  // ATOLL_COMMON_TRUST_ACCESS_H_
