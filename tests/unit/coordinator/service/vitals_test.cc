// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/vitals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/server.h"
#include "common/trust/handshake.h"
#include "tests/unit/service_manager_socket.h"

namespace atl {
namespace {

const std::vector<std::string> kAlive = {"WATCHDOG=1"};
const std::vector<std::string> kNothing;

class VitalsTest : public testing::Test {
 protected:
  VitalsTest() {
    ports_.Opened("control", server_->door(),
                  [this] { return TryGreeting(AddressToDial("127.0.0.1", server_->port())); });
  }
  std::vector<std::string> HeardOfALook() {
    vitals_.Look();
    return socket_.Heard();
  }
  // Processes events that the engine has not processed yet.
  void LetTheEngineTurn() {
    for (const auto& answer : std::exchange(asked_, {})) answer();
  }
  int Logged(const std::string& event) const {
    const std::vector<LogLine> lines = log_.Recent(100);
    return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return l.event == event; }));
  }

  const std::string name_ = absl::StrCat("@atoll-vitals-", ::getpid());
  ServiceManagerSocket socket_{name_};
  ServiceManager manager_{{{"NOTIFY_SOCKET", name_}, {"WATCHDOG_USEC", "60000000"}}, ::getpid()};
  Log log_{{.to_stderr = false}};
  std::unique_ptr<Server> server_ = *Server::Start({}, ServerSecurity::PlaintextLoopback(), {});
  Ports ports_{log_};
  bool engine_turns_ = true;
  std::vector<std::function<void()>> asked_;
  Vitals vitals_{{[this](std::function<void()> answer) {
                    asked_.push_back(std::move(answer));
                    if (engine_turns_) LetTheEngineTurn();
                  },
                  ports_, manager_, log_, Milliseconds(1)}};
};

TEST_F(VitalsTest, HealthIsReportedAtEachCheck) {
  ASSERT_TRUE(socket_.open());
  EXPECT_EQ(HeardOfALook(), kAlive);
  EXPECT_EQ(HeardOfALook(), kAlive);
  EXPECT_TRUE(vitals_.Healthy().ok());
}

TEST_F(VitalsTest, StuckEngineIsNotReportedAlive) {
  engine_turns_ = false;
  EXPECT_EQ(HeardOfALook(), kNothing);
  EXPECT_EQ(HeardOfALook(), kNothing);
  EXPECT_EQ(asked_.size(), 1u) << "questions to an engine that does not answer pile up";
  EXPECT_EQ(Logged("health not reported to the service manager"), 2);
  EXPECT_TRUE(absl::IsDeadlineExceeded(vitals_.EngineAnswers()));
  engine_turns_ = true;
  LetTheEngineTurn();
  EXPECT_EQ(HeardOfALook(), kAlive);
  EXPECT_TRUE(vitals_.EngineAnswers().ok());
}

TEST_F(VitalsTest, DeadListenerIsNotReportedAlive) {
  EXPECT_EQ(HeardOfALook(), kAlive);
  server_->Shutdown(Seconds(1));
  for (int miss = 1; miss < Ports::kMisses; ++miss) EXPECT_EQ(HeardOfALook(), kAlive) << "one miss is none";
  EXPECT_EQ(HeardOfALook(), kNothing);
  EXPECT_EQ(HeardOfALook(), kNothing);
  EXPECT_TRUE(absl::IsUnavailable(vitals_.Healthy()));
  EXPECT_TRUE(vitals_.EngineAnswers().ok());
}

TEST_F(VitalsTest, WithoutAWatchdogItOnlyLooks) {
  const ServiceManager without({{"NOTIFY_SOCKET", name_}}, ::getpid());
  engine_turns_ = false;
  Vitals vitals({[](const std::function<void()>&) {}, ports_, without, log_, Milliseconds(1)});
  vitals.Look();
  EXPECT_EQ(socket_.Heard(), kNothing);
  EXPECT_EQ(Logged("health not reported to the service manager"), 0);
}

TEST_F(VitalsTest, UnreachableManagerIsLoggedOnce) {
  const ServiceManager deaf({{"NOTIFY_SOCKET", "@atoll-nobody"}, {"WATCHDOG_USEC", "60000000"}}, ::getpid());
  Vitals vitals({[](const std::function<void()>& answer) { answer(); }, ports_, deaf, log_, Milliseconds(1)});
  vitals.Look();
  vitals.Look();
  EXPECT_EQ(Logged("watchdog"), 1);
}

}  // namespace
}  // namespace atl
