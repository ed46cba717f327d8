// SPDX-License-Identifier: Apache-2.0
#include "common/trust/access.h"

#include <algorithm>

namespace atl {

namespace {

std::vector<AccessRule> MakeTable() {
  const std::vector<Role> look = {Role::kViewer, Role::kOperator, Role::kAdmin};
  const std::vector<Role> steer = {Role::kOperator, Role::kAdmin};
  const std::vector<Role> any = {Role::kViewer, Role::kOperator, Role::kAdmin, Role::kWorker};
  const std::vector<Role> bulk = {Role::kOperator, Role::kAdmin, Role::kWorker};
  std::vector<AccessRule> rules = {
      {"/atoll.v1.AdminService/CordonWorker", steer, true},
      {"/atoll.v1.AdminService/CreateToken", {Role::kAdmin}, true},
      {"/atoll.v1.AdminService/DeleteCheckpoint", steer, true},
      {"/atoll.v1.AdminService/DrainWorker", steer, true},
      {"/atoll.v1.AdminService/EvictWorker", steer, true},
      {"/atoll.v1.AdminService/GetCheckpoint", look},
      {"/atoll.v1.AdminService/GetServerInfo", any},
      {"/atoll.v1.AdminService/ListCheckpoints", look},
      {"/atoll.v1.AdminService/ListRevocations", {Role::kAdmin}},
      {"/atoll.v1.AdminService/ListTokens", {Role::kAdmin}},
      {"/atoll.v1.AdminService/ListWorkers", look},
      {"/atoll.v1.AdminService/ReadmitWorker", steer, true},
      {"/atoll.v1.AdminService/RevokeIdentity", {Role::kAdmin}, true},
      {"/atoll.v1.AdminService/RevokeToken", {Role::kAdmin}, true},
      {"/atoll.v1.JobService/CancelJob", steer, true},
      {"/atoll.v1.JobService/GetJob", look},
      {"/atoll.v1.JobService/GetJobMetrics", look},
      {"/atoll.v1.JobService/ListJobs", look},
      {"/atoll.v1.JobService/ListOffers", any},
      {"/atoll.v1.JobService/PauseJob", steer, true},
      {"/atoll.v1.JobService/PurgeJob", steer, true},
      {"/atoll.v1.JobService/ResumeJob", steer, true},
      {"/atoll.v1.JobService/RollbackJob", steer, true},
      {"/atoll.v1.JobService/StreamJobLogs", look},
      {"/atoll.v1.JobService/SubmitJob", steer, true},
      {"/atoll.v1.JobService/UpdateJob", steer, true},
      {"/atoll.v1.JobService/WatchJob", look},
      // Parameters and data: not for viewers.
      {"/atoll.v1.TransferService/Download", bulk, false, true},
      {"/atoll.v1.TransferService/MissingBlobs", steer},
      // Uploads are too frequent for an audit line each; the round log and the blob store record
      // them.
      {"/atoll.v1.TransferService/Upload", bulk, false, true},
      {"/atoll.v1.WorkerService/Control", {Role::kWorker}, true},
      // Health checks are for every role of a client. Enrolment is not listed: it has a listener of
      // its own, where the request contains a join token or the certificate to renew.
      {"/grpc.health.v1.Health/Check", any},
      {"/grpc.health.v1.Health/Watch", any},
  };
  std::sort(rules.begin(), rules.end(), [](const auto& a, const auto& b) { return a.method < b.method; });
  return rules;
}

}  // namespace

const std::vector<AccessRule>& AccessTable() {
  static const std::vector<AccessRule> table = MakeTable();
  return table;
}

const AccessRule* FindAccessRule(const std::string& method) {
  const auto& table = AccessTable();
  const auto found = std::lower_bound(table.begin(), table.end(), method,
                                      [](const AccessRule& rule, const std::string& m) { return rule.method < m; });
  return found != table.end() && found->method == method ? &*found : nullptr;
}

absl::Status CheckAccess(const std::string& method, const Identity& caller) {
  const AccessRule* rule = FindAccessRule(method);
  if (rule == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("no call ", method.substr(0, 128), " exists"));
  }
  std::string allowed;
  for (const Role role : rule->roles) {
    if (role == caller.role) return absl::OkStatus();
    absl::StrAppend(&allowed, allowed.empty() ? "" : " or ", RoleName(role));
  }
  if (allowed.empty()) allowed = "which no client has on this port";
  return absl::PermissionDeniedError(absl::StrCat(RoleName(caller.role), " '", caller.name, "' may not call ", method,
                                                  ": the call needs the role ", allowed));
}

}  // namespace atl
