// SPDX-License-Identifier: Apache-2.0
// The advice that a worker adds to "no control stream".
#include "worker/daemon/stream_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/wall_time.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_log.h"
#include "common/trust/secret_files.h"
#include "tests/support/manual_clock.h"

namespace atl {
namespace {

using testing::HasSubstr;

class StreamAdviceTest : public testing::Test {
 protected:
  StreamAdviceTest() {
    SilenceTransportLog();
    std::string pattern = testing::TempDir() + "/adviceXXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~StreamAdviceTest() override { std::filesystem::remove_all(directory_); }
  static int64_t RealNow() { return WallSeconds(SystemClock()); }
  std::string NewIdentity(const Authority& authority, const Identity& identity) {
    std::string path = directory_ + "/" + identity.name + ".pem";
    EXPECT_TRUE(WriteIdentityFile(path, *IssueIdentity(authority, identity, RealNow())).ok());
    return path;
  }
  void StartTls(const std::string& address = "127.0.0.1:0") {
    const std::string own = NewIdentity(authority_, {Role::kCoordinator, "c", ""});
    server_ = *Server::Start(
        {.address = address},
        *MutualTls(own, real_clock_, [](const std::string&, const CertificateFacts&) { return absl::OkStatus(); }), {});
    options_.coordinator = "127.0.0.1:" + std::to_string(server_->port());
  }

  const Authority authority_ = *Authority::Create(RealNow());
  const absl::Status closed_ = absl::UnavailableError("Socket closed");
  const SystemClock real_clock_;
  ManualClock clock_;
  WorkerOptions options_;
  std::string directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(StreamAdviceTest, NamesIdentityAndTokenWhereTheCoordinatorSpeaksTls) {
  StartTls();
  StreamAdvice advice(options_, clock_);
  EXPECT_THAT(advice(closed_),
              HasSubstr("uses TLS and accepts only clients with a certificate: give your identity file "
                        "(--identity), or get one with a join token"));
  const std::string before = advice(closed_);
  EXPECT_THAT(before, HasSubstr("uses TLS")) << "the newest line tells it too";
  EXPECT_EQ(advice(absl::UnavailableError("Connection refused")), "") << "not looked at again at each attempt";
  clock_.Advance(StreamAdvice::kLookInterval);
  EXPECT_THAT(advice(closed_), HasSubstr("uses TLS"));
}

TEST_F(StreamAdviceTest, ReportsAnIdentityOfAnotherAuthority) {
  StartTls();
  options_.identity = NewIdentity(*Authority::Create(RealNow()), {Role::kWorker, "w1", ""});
  EXPECT_THAT(StreamAdvice(options_, clock_)(closed_), HasSubstr("was not issued to a coordinator by our authority"));
}

TEST_F(StreamAdviceTest, GivesNoAdviceIfNothingListens) {
  options_.coordinator = "127.0.0.1:1";
  EXPECT_EQ(StreamAdvice(options_, clock_)(closed_), "");
}

// A restarting coordinator is briefly unreachable.
TEST_F(StreamAdviceTest, ChecksAgainSoonIfNothingListened) {
  StartTls();
  StreamAdvice advice(options_, clock_);
  server_.reset();
  EXPECT_EQ(advice(closed_), "");
  StartTls(options_.coordinator);
  EXPECT_EQ(advice(closed_), "") << "not at each attempt";
  clock_.Advance(StreamAdvice::kIdleLookInterval);
  EXPECT_THAT(advice(closed_), HasSubstr("uses TLS"));
}

TEST_F(StreamAdviceTest, NamesTheFileThatIsInTheWayOfANewToken) {
  options_.identity = "/cache/identity.pem";
  const absl::Status revoked = absl::PermissionDeniedError(
      "worker 'w1' enrolled with join token 0123456789abcdef, which was revoked: enrol again with another token");
  EXPECT_EQ(StreamAdvice(options_, clock_)(revoked),
            "move /cache/identity.pem away and start this worker again with --join-token FILE");
  EXPECT_EQ(StreamAdvice(options_, clock_)(absl::PermissionDeniedError("a viewer may not")), "");
}

TEST_F(StreamAdviceTest, NamesTheControlPortWhereAnotherAnswers) {
  EXPECT_THAT(StreamAdvice(options_, clock_)(absl::UnimplementedError("")), HasSubstr("--control-port, default 7070"));
}

}  // namespace
}  // namespace atl
