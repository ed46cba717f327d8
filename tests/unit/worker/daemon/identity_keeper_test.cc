// SPDX-License-Identifier: Apache-2.0
// A worker's certificate over its life: enrolled, kept, renewed at half of its validity, renewed
// after its end, enrolled again.
#include "worker/daemon/identity_keeper.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/names.h"
#include "common/base/wall_time.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_log.h"
#include "common/telemetry/metrics.h"
#include "common/trust/join_token.h"
#include "common/trust/secret_files.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/common/rpc/enroll_door.h"
#include "worker/daemon/joining.h"

namespace atl {
namespace {

constexpr char kTokenId[] = "0123456789abcdef";

// Signs requests by the test's clock; refuses renewals or everything on demand.
class Signer {
 public:
  Signer(const Authority& authority, const Clock& clock) : authority_(authority), clock_(clock) {}
  void Enroll(const v1::EnrollRequest& request, const EnrollAnswer& answer) {
    ++calls;
    if (refuse_renewals && !request.certificate().empty()) return answer(absl::UnauthenticatedError(why_not), {});
    if (refuse_tokens && request.certificate().empty())
      return answer(absl::UnauthenticatedError("the token has ended"), {});
    v1::EnrollResponse response;
    const std::string name = request.name().empty() ? "cpu-1" : request.name();
    response.set_certificate(*authority_.Sign(request.signing_request(), {Role::kWorker, name, kTokenId},
                                              WallSeconds(clock_), kWorkerLifetime_s));
    answer(absl::OkStatus(), response);
  }
  int calls = 0;  // read between calls
  bool refuse_renewals = false, refuse_tokens = false;
  std::string why_not = "too long ago";

 private:
  const Authority& authority_;
  const Clock& clock_;
};

class IdentityKeeperTest : public testing::Test {
 protected:
  IdentityKeeperTest() {
    SilenceTransportLog();
    std::string name = testing::TempDir() + "/keeperXXXXXX";
    directory_ = mkdtemp(name.data());
    const std::string own = directory_ + "/coordinator.pem";
    EXPECT_TRUE(WriteIdentityFile(own, *IssueIdentity(authority_, {Role::kCoordinator, "c", ""}, RealNow())).ok());
    server_ = OpenEnrollDoor(*ServerOnlyTls(own, RealNow()),
                             [this](const v1::EnrollRequest& request, const std::string&, const EnrollAnswer& answer) {
                               signer_.Enroll(request, answer);
                             });
    options_.name = "cpu-1";
    options_.coordinator_enroll = "127.0.0.1:" + std::to_string(server_->port());
    options_.identity = directory_ + "/identity.pem";
    options_.join_token = directory_ + "/token";
    std::ofstream(options_.join_token) << PrintJoinToken(MakeToken(authority_.fingerprint(), {})->token) << "\n";
  }
  ~IdentityKeeperTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  static int64_t RealNow() { return WallSeconds(SystemClock()); }
  absl::Status Ensure() { return EnsureIdentity(options_, clock_, log_); }
  int64_t End() const { return ReadCertificate(ReadIdentityFile(options_.identity)->certificate_pem)->not_after_s; }
  int64_t Now() const { return WallSeconds(clock_); }

  const Authority authority_ = *Authority::Create(RealNow());
  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  Signer signer_{authority_, clock_};
  std::string directory_;
  std::unique_ptr<guard::Guard> server_;
  WorkerOptions options_;
};

TEST_F(IdentityKeeperTest, EnrolsOnceAndRenewsAtHalf) {
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(End(), Now() + kWorkerLifetime_s);
  ASSERT_TRUE(Ensure().ok());
  EXPECT_EQ(signer_.calls, 1) << "a good certificate is left alone";
  std::filesystem::remove(options_.join_token);  // not needed any more
  clock_.Advance(Seconds(kWorkerLifetime_s / 2 + 1));
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(signer_.calls, 2);
  EXPECT_EQ(End(), Now() + kWorkerLifetime_s);
}

TEST_F(IdentityKeeperTest, HeartbeatsCarryTheCertificatesEnd) {
  Metrics metrics;
  {
    const IdentityKeeper keeper(options_, clock_, log_, metrics);
    EXPECT_TRUE(metrics.HeartbeatSamples().empty()) << "there is none yet";
  }
  ASSERT_TRUE(Ensure().ok());
  const IdentityKeeper keeper(options_, clock_, log_, metrics);
  const std::vector<MetricSample> told = metrics.HeartbeatSamples();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].name, "certificate_end_timestamp_seconds");
  EXPECT_EQ(told[0].value, static_cast<double>(End()));
}

TEST_F(IdentityKeeperTest, ATokenIsKeptWhereTheIdentityCannotBeWritten) {
  options_.identity = directory_ + "/nowhere/identity.pem";
  const absl::Status refused = Ensure();
  EXPECT_NE(
      std::string(refused.message()).find("the join token was not sent, since the identity's file cannot be written"),
      std::string::npos)
      << refused;
  EXPECT_EQ(signer_.calls, 0);
  std::filesystem::create_directory(directory_ + "/nowhere");
  EXPECT_TRUE(Ensure().ok()) << Ensure();
}

TEST_F(IdentityKeeperTest, ComesBackAfterTheEnd) {
  ASSERT_TRUE(Ensure().ok());
  clock_.Advance(Seconds(10 * kWorkerLifetime_s));
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(End(), Now() + kWorkerLifetime_s);
  // Too late for a renewal, but there is a token.
  signer_.refuse_renewals = true;
  clock_.Advance(Seconds(100 * kWorkerLifetime_s));
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(End(), Now() + kWorkerLifetime_s);
  std::filesystem::remove(options_.join_token);
  clock_.Advance(Seconds(100 * kWorkerLifetime_s));
  const absl::Status lost = Ensure();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_NE(std::string(lost.message()).find("too long ago"), std::string::npos) << lost;
}

// As on a machine that sets its clock shortly after its start: the new certificate is valid, but
// not by this clock.
TEST_F(IdentityKeeperTest, AWrongClockIsWaitedFor) {
  ManualClock behind;
  clock_.Advance(Seconds(8 * 3600));
  const auto ensure = [&] { return EnsureIdentity(options_, behind, log_); };
  const absl::Status early = ensure();
  EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable) << early;
  EXPECT_NE(std::string(early.message()).find("though it was issued just now"), std::string::npos) << early;
  EXPECT_EQ(ensure().code(), absl::StatusCode::kUnavailable) << "nor is one that was renewed";
  behind.Advance(Seconds(8 * 3600));
  EXPECT_TRUE(ensure().ok()) << ensure();
  behind.Advance(Seconds(10 * kWorkerLifetime_s));
  EXPECT_EQ(ensure().code(), absl::StatusCode::kUnavailable) << "far ahead";
}

TEST_F(IdentityKeeperTest, ARenewalThatFailsInTimeIsTriedAgain) {
  ASSERT_TRUE(Ensure().ok());
  const int64_t end = End();
  server_.reset();  // the coordinator is away
  clock_.Advance(Seconds(kWorkerLifetime_s / 2 + 1));
  EXPECT_TRUE(Ensure().ok());
  EXPECT_EQ(End(), end);
  EXPECT_EQ(log_.Recent(1).at(0).event, "certificate not renewed yet");
  const std::string told = log_.Recent(1).at(0).ToText();
  EXPECT_EQ(told.find("may be the control or bulk port"), std::string::npos) << "it has enrolled there: " << told;
}

TEST_F(IdentityKeeperTest, ARenewalAfterARevocationNamesTheFileThatIsInTheWay) {
  ASSERT_TRUE(Ensure().ok());
  options_.join_token.clear();
  signer_.refuse_renewals = true;
  signer_.why_not = "join token 0123456789abcdef was revoked: enrol with a new one";
  clock_.Advance(Seconds(2 * kWorkerLifetime_s));
  const absl::Status lost = Ensure();
  EXPECT_NE(std::string(lost.message())
                .find(": enrol with a new one: move " + options_.identity + " away and start this worker again"),
            std::string::npos)
      << lost;
}

TEST_F(IdentityKeeperTest, SaysWhyTheTokenWasRefusedAndAsksSeldom) {
  absl::Status asked;
  const auto ensure = [&] { return EnsureIdentity(options_, clock_, log_, &asked); };
  ASSERT_TRUE(ensure().ok());
  EXPECT_TRUE(asked.ok()) << "there was nothing to renew";
  signer_.refuse_renewals = true;
  clock_.Advance(Seconds(kWorkerLifetime_s / 2 + 1));
  EXPECT_TRUE(ensure().ok()) << "good for a while yet";
  EXPECT_EQ(IdentityKeeper::PauseAfter(asked), IdentityKeeper::kRefusedInterval) << asked;
  signer_.refuse_tokens = true;
  clock_.Advance(Seconds(2 * kWorkerLifetime_s));
  const absl::Status lost = ensure();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_NE(std::string(lost.message())
                .find("too long ago; with --join-token " + options_.join_token + " it is refused too: "),
            std::string::npos)
      << lost;
  EXPECT_NE(std::string(lost.message()).find("the token has ended"), std::string::npos) << lost;
  EXPECT_EQ(IdentityKeeper::PauseAfter(absl::UnavailableError("away")), IdentityKeeper::kLookInterval);
  EXPECT_EQ(IdentityKeeper::PauseAfter(absl::OkStatus()), IdentityKeeper::kLookInterval);
}

TEST_F(IdentityKeeperTest, JoiningWorkerKeepsItsNameAndSpendsOneUse) {
  options_.join = *ReadJoinTokenFile(options_.join_token);
  options_.join_token.clear();
  options_.cache_dir = directory_ + "/cache";
  options_.identity = options_.cache_dir + "/identity.pem";
  options_.name_stem = "spot-" + std::string(63, 'a');
  const auto named = [&](WorkerOptions options) {
    options.name.clear();
    EXPECT_TRUE(NameByIdentity(options).ok()) << NameByIdentity(options);
    return options.name;
  };
  const std::string name = named(options_);
  EXPECT_EQ(name.size(), 63u);
  EXPECT_TRUE(IsName(name)) << name;
  EXPECT_EQ(named(options_), name) << "an interrupted enrolment continues";
  options_.name = name;
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(signer_.calls, 1);
  options_.name_stem = "another-host";
  EXPECT_EQ(named(options_), name) << "the name is that of the identity";
  ASSERT_TRUE(Ensure().ok()) << Ensure();
  EXPECT_EQ(signer_.calls, 1);
  WorkerOptions other = options_;
  other.cache_dir = directory_ + "/other";
  other.identity = other.cache_dir + "/identity.pem";
  EXPECT_NE(named(other), named(options_));
  other.identity = directory_ + "/none/identity.pem";
  other.name.clear();
  EXPECT_NE(std::string(NameByIdentity(other).message()).find("--identity " + other.identity), std::string::npos);
  signer_.refuse_renewals = signer_.refuse_tokens = true;
  clock_.Advance(Seconds(100 * kWorkerLifetime_s));
  EXPECT_NE(std::string(Ensure().message()).find("; with the join string it is refused too: "), std::string::npos);
}

TEST_F(IdentityKeeperTest, ReportsAMissingOrForeignIdentity) {
  options_.join_token.clear();
  EXPECT_NE(std::string(Ensure().message()).find("give a join token with --join-token FILE"), std::string::npos);
  ASSERT_TRUE(WriteIdentityFile(options_.identity, *IssueIdentity(authority_, {Role::kWorker, "b", ""}, Now())).ok());
  EXPECT_NE(std::string(Ensure().message()).find("belongs to worker 'b', but this is worker 'cpu-1'"),
            std::string::npos);
  EXPECT_EQ(signer_.calls, 0);
}

}  // namespace
}  // namespace atl
