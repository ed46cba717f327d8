// SPDX-License-Identifier: Apache-2.0
// Every RPC of the protocol times every role (S14): a call without a row, or a row without a call,
// fails here.
#include "common/trust/access.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "atoll/v1/transfer.pb.h"
#include "atoll/v1/worker.pb.h"

namespace atl {
namespace {

std::set<std::string> CallsOfTheProtocol() {
  std::set<std::string> calls;
  for (const google::protobuf::FileDescriptor* file :
       {v1::SubmitJobRequest::descriptor()->file(), v1::ListWorkersRequest::descriptor()->file(),
        v1::DownloadRequest::descriptor()->file(), v1::Hello::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        calls.insert("/" + service->full_name() + "/" + service->method(m)->name());
      }
    }
  }
  return calls;
}

TEST(AccessTest, EveryCallHasARowAndEveryRowACall) {
  std::set<std::string> rows;
  for (const AccessRule& rule : AccessTable()) rows.insert(rule.method);
  EXPECT_EQ(rows.size(), AccessTable().size()) << "a call with two rows";
  std::set<std::string> expected = CallsOfTheProtocol();
  EXPECT_GT(expected.size(), size_t{15});
  for (const char* of_grpc : {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) expected.insert(of_grpc);
  EXPECT_EQ(rows, expected);
}

// Written a second time by hand, so that a slip in the table shows: the allowed roles are v, o, a,
// w.
const std::map<std::string, std::string> kExpected = {
    {"/atoll.v1.AdminService/DrainWorker", "oa"},     {"/atoll.v1.AdminService/GetCheckpoint", "voa"},
    {"/atoll.v1.AdminService/GetServerInfo", "voaw"}, {"/atoll.v1.AdminService/ListCheckpoints", "voa"},
    {"/atoll.v1.AdminService/ListWorkers", "voa"},    {"/atoll.v1.JobService/CancelJob", "oa"},
    {"/atoll.v1.JobService/PurgeJob", "oa"},          {"/atoll.v1.JobService/GetJob", "voa"},
    {"/atoll.v1.JobService/GetJobMetrics", "voa"},    {"/atoll.v1.JobService/ListJobs", "voa"},
    {"/atoll.v1.JobService/PauseJob", "oa"},          {"/atoll.v1.JobService/ResumeJob", "oa"},
    {"/atoll.v1.JobService/RollbackJob", "oa"},       {"/atoll.v1.JobService/StreamJobLogs", "voa"},
    {"/atoll.v1.JobService/SubmitJob", "oa"},         {"/atoll.v1.JobService/UpdateJob", "oa"},
    {"/atoll.v1.JobService/WatchJob", "voa"},         {"/atoll.v1.TransferService/Download", "oaw"},
    {"/atoll.v1.TransferService/MissingBlobs", "oa"}, {"/atoll.v1.TransferService/Upload", "oaw"},
    {"/atoll.v1.WorkerService/Control", "w"},         {"/atoll.v1.AdminService/CreateToken", "a"},
    {"/atoll.v1.AdminService/ListTokens", "a"},       {"/atoll.v1.AdminService/RevokeToken", "a"},
    {"/atoll.v1.AdminService/ListRevocations", "a"},  {"/atoll.v1.AdminService/RevokeIdentity", "a"},
    {"/atoll.v1.WorkerService/Enroll", ""},           {"/atoll.v1.AdminService/ReadmitWorker", "oa"},
    {"/grpc.health.v1.Health/Check", "voaw"},         {"/grpc.health.v1.Health/Watch", "voaw"},
    {"/atoll.v1.JobService/ListOffers", "voaw"},      {"/atoll.v1.AdminService/CordonWorker", "oa"},
    {"/atoll.v1.AdminService/EvictWorker", "oa"},     {"/atoll.v1.AdminService/DeleteCheckpoint", "oa"},
};

TEST(AccessTest, EachCallForEachRole) {
  const std::map<char, Role> roles = {{'v', Role::kViewer},
                                      {'o', Role::kOperator},
                                      {'a', Role::kAdmin},
                                      {'w', Role::kWorker},
                                      {'c', Role::kCoordinator}};
  for (const AccessRule& rule : AccessTable()) {
    ASSERT_TRUE(kExpected.contains(rule.method)) << rule.method;
    for (const auto& [letter, role] : roles) {
      const bool may = kExpected.at(rule.method).find(letter) != std::string::npos;
      const absl::Status status = CheckAccess(rule.method, {role, "x", ""});
      EXPECT_EQ(status.code(), may ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied)
          << rule.method << " " << letter;
    }
  }
}

TEST(AccessTest, UnknownCallIsRefusedForAllRoles) {
  for (const char* method : {"", "/", "/atoll.v1.JobService/", "/atoll.v1.JobService/submitJob",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CheckAccess(method, {Role::kAdmin, "eve", ""}).code(), absl::StatusCode::kPermissionDenied) << method;
  }
}

}  // namespace
}  // namespace atl
