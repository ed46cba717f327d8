// SPDX-License-Identifier: Apache-2.0
// Calls are authorised by role and revocations; refused and changing calls are logged.
#include "coordinator/service/call_guard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/manual_clock.h"

namespace atl {
namespace {

constexpr char kCancel[] = "/atoll.v1.JobService/CancelJob";
constexpr char kList[] = "/atoll.v1.JobService/ListJobs";

class CallGuardTest : public testing::Test {
 protected:
  size_t Lines() const { return log_.Recent(2000).size(); }
  absl::Status Check(const std::string& method, const Identity& caller, int64_t not_before_s = 0) {
    return guard_.Check(method, {.identity = caller, .not_before_s = not_before_s});
  }
  std::string Newest() const { return log_.Recent(1).at(0).ToText(); }

  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  AuditTrail trail_{log_, clock_};
  CallGuard guard_{trail_, clock_};
};

// S32.
TEST_F(CallGuardTest, LogsRefusalsAndChangesOnly) {
  EXPECT_TRUE(Check(kList, {Role::kViewer, "eve", ""}).ok());
  EXPECT_EQ(Lines(), size_t{0});
  EXPECT_TRUE(Check(kCancel, {Role::kOperator, "bob", ""}).ok());
  EXPECT_NE(Newest().find("who=operator/bob call=/atoll.v1.JobService/CancelJob result=allowed"), std::string::npos)
      << Newest();
  EXPECT_EQ(Check(kCancel, {Role::kViewer, "eve", ""}).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(Newest().find("result=refused"), std::string::npos) << Newest();
  EXPECT_EQ(Lines(), size_t{2});
}

TEST_F(CallGuardTest, LogsTheResultOfAChange) {
  const Identity bob = {Role::kOperator, "bob", "0123456789abcdef"};
  guard_.TellOutcome(kList, bob, "", absl::OkStatus());
  EXPECT_EQ(Lines(), size_t{0}) << "a look is no change";
  guard_.TellOutcome(kCancel, bob, "jobs/tiny", absl::OkStatus());
  EXPECT_NE(Newest().find("who=operator/bob call=/atoll.v1.JobService/CancelJob about=jobs/tiny result=done "
                          "token=0123456789abcdef"),
            std::string::npos)
      << Newest();
  guard_.TellOutcome(kCancel, {Role::kAdmin, "eve", ""}, "jobs/none" + std::string(1000, 'x'),
                     absl::NotFoundError("there is no such job"));
  EXPECT_NE(Newest().find("result=failed token=none"), std::string::npos) << Newest();
  EXPECT_NE(Newest().find("there is no such job"), std::string::npos) << Newest();
  EXPECT_LT(Newest().size(), size_t{400}) << "what callers write is cut";
}

TEST_F(CallGuardTest, ARevokedTokenEndsWhatCameByIt) {
  const Identity by_token = {Role::kOperator, "bob", "0123456789abcdef"};
  EXPECT_TRUE(Check(kList, by_token).ok());
  guard_.RevokeToken("0123456789abcdef");
  const absl::Status refused = Check(kList, by_token);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(std::string(refused.message()).find("was revoked"), std::string::npos) << refused;
  EXPECT_TRUE(Check(kList, {Role::kOperator, "bob", ""}).ok());
  EXPECT_TRUE(Check(kList, {Role::kOperator, "bob", "fedcba9876543210"}).ok());
}

TEST_F(CallGuardTest, ARevokedNameMakesNoCallByWhatItHad) {
  const Identity ops = {Role::kAdmin, "ops", ""};
  guard_.RevokeName("ops", 5000);
  EXPECT_FALSE(Check(kList, ops, 1000).ok());
  EXPECT_NE(Newest().find("who=admin/ops call=/atoll.v1.JobService/ListJobs result=refused"), std::string::npos)
      << Newest();
  EXPECT_TRUE(Check(kList, ops, 5000).ok()) << "issued ten minutes after it";
}

TEST_F(CallGuardTest, AFloodOfRefusalsIsCounted) {
  for (uint32_t i = 0; i < LineRate::kLines + 50; ++i) {
    EXPECT_FALSE(Check(kCancel, {Role::kViewer, "eve", ""}).ok());
  }
  EXPECT_EQ(Lines(), size_t{LineRate::kLines});
  clock_.Advance(LineRate::kEvery);
  EXPECT_FALSE(Check(kCancel, {Role::kViewer, "eve", ""}).ok());
  EXPECT_NE(Newest().find("not_told_before=50"), std::string::npos) << Newest();
}

// A user cannot push records of its actions out of the audit log.
TEST_F(CallGuardTest, ChangesPerPersonAreLimited) {
  const Identity bob = {Role::kOperator, "bob", ""};
  for (int64_t i = 0; i < kChangesOfOne.at_once; ++i) ASSERT_TRUE(Check(kCancel, bob).ok()) << i;
  const absl::Status refused = Check(kCancel, bob);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find("operator 'bob' changes more than"), std::string::npos) << refused;
  EXPECT_TRUE(Check(kList, bob).ok()) << "a look is no change";
  EXPECT_TRUE(Check(kCancel, {Role::kOperator, "eve", ""}).ok());
  clock_.Advance(kChangesOfOne.every);
  EXPECT_TRUE(Check(kCancel, bob).ok());
  EXPECT_FALSE(Check(kCancel, bob).ok());
  clock_.Advance(Seconds(86'400));
  for (int64_t i = 0; i < kChangesOfOne.at_once; ++i) ASSERT_TRUE(Check(kCancel, bob).ok()) << i;
  EXPECT_FALSE(Check(kCancel, bob).ok()) << "what is not used is not saved up";
}

// S36. All queries of an identity count together, whatever its role; transfers and a worker's stream do not.
TEST_F(CallGuardTest, QueriesOfAnIdentityAreLimited) {
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin, Role::kWorker}) {
    std::vector<std::string> queries;
    for (const AccessRule& rule : AccessTable()) {
      if (!rule.changes_state && !rule.transfers && CheckAccess(rule.method, {role, "eve", ""}).ok())
        queries.push_back(rule.method);
    }
    const Identity eve = {role, "eve", ""};
    for (int64_t i = 0; i < kQueriesOfOne.at_once; ++i)
      ASSERT_TRUE(Check(queries[static_cast<size_t>(i) % queries.size()], eve).ok()) << RoleName(role) << i;
    for (const std::string& query : queries) {
      const absl::Status refused = Check(query, eve);
      EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << query;
      EXPECT_NE(std::string(refused.message()).find("'eve' asks too often"), std::string::npos) << refused;
    }
    EXPECT_TRUE(Check(queries[0], {role, "bob", ""}).ok());
    for (const char* other : {kCancel, "/atoll.v1.TransferService/Download", "/atoll.v1.WorkerService/Control"})
      EXPECT_EQ(Check(other, eve).ok(), CheckAccess(other, eve).ok()) << other;
    clock_.Advance(kQueriesOfOne.every);
    EXPECT_TRUE(Check(queries[0], eve).ok());
    EXPECT_FALSE(Check(queries[0], eve).ok());
  }
}

// Opening and dropping streams pushes nothing out of the log; users' actions are still logged.
TEST_F(CallGuardTest, AFloodOfAWorkersStreamsIsCounted) {
  const Identity worker = {Role::kWorker, "cpu-1", ""};
  constexpr char kControl[] = "/atoll.v1.WorkerService/Control";
  for (uint32_t i = 0; i < LineRate::kLines + 400; ++i) EXPECT_TRUE(Check(kControl, worker).ok());
  EXPECT_EQ(Lines(), size_t{LineRate::kLines});
  EXPECT_FALSE(Check(kCancel, {Role::kViewer, "eve", ""}).ok());
  EXPECT_TRUE(Check(kCancel, {Role::kOperator, "bob", ""}).ok());
  EXPECT_EQ(Lines(), size_t{LineRate::kLines} + 2);
  clock_.Advance(LineRate::kEvery);
  EXPECT_TRUE(Check(kControl, worker).ok());
  EXPECT_NE(Newest().find("result=allowed token=none not_told_before=400"), std::string::npos) << Newest();
  EXPECT_TRUE(Check(kControl, worker).ok());
  clock_.Advance(Seconds(7 * 86'400));
  EXPECT_TRUE(Check(kControl, worker).ok());
  EXPECT_NE(Newest().find("not_told_before=1"), std::string::npos) << Newest();
  EXPECT_TRUE(Check(kControl, worker).ok());
  EXPECT_EQ(Newest().find("not_told_before"), std::string::npos) << Newest();
}

TEST_F(CallGuardTest, CutsNoCharacter) {
  guard_.TellOutcome(kCancel, {Role::kAdmin, "eve", ""}, std::string(127, 'x') + "\u00e9", absl::OkStatus());
  EXPECT_NE(Newest().find("about=" + std::string(125, 'x') + "... result"), std::string::npos) << Newest();
}

}  // namespace
}  // namespace atl
