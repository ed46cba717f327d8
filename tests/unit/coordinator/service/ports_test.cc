// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/ports.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/rpc/server.h"
#include "common/trust/handshake.h"

namespace atl {
namespace {

class PortsTest : public testing::Test {
 protected:
  PortsTest() {
    ports_.Opened("control", server_->door(), [this] { return answer_; });
  }
  void Dial(int times) {
    for (int i = 0; i < times; ++i) ports_.Dial();
  }
  bool Logged(const std::string& event) const {
    const std::vector<LogLine> lines = log_.Recent(100);
    return std::any_of(lines.begin(), lines.end(), [&](const LogLine& line) { return line.event == event; });
  }

  Log log_{{.to_stderr = false}};
  std::unique_ptr<Server> server_ = *Server::Start({}, ServerSecurity::PlaintextLoopback(), {});
  Ports ports_{log_};
  absl::Status answer_ = absl::UnavailableError("no data arrived in time");
};

TEST_F(PortsTest, SilentPortFailsAfterThreeDialsAndRecoversAfterOne) {
  Dial(2);
  EXPECT_TRUE(ports_.Answering().ok());
  Dial(1);
  EXPECT_EQ(ports_.Answering(), absl::UnavailableError("the control port does not answer: no data arrived in time"));
  EXPECT_TRUE(Logged("port does not answer"));
  EXPECT_FALSE(Logged("port answers again"));
  answer_ = absl::OkStatus();
  Dial(1);
  EXPECT_TRUE(ports_.Answering().ok());
  EXPECT_TRUE(Logged("port answers again"));
  answer_ = absl::UnavailableError("no data arrived in time");
  Dial(2);
  EXPECT_TRUE(ports_.Answering().ok()) << "only what missed in a row counts";
}

TEST_F(PortsTest, ALivePortAnswersItsOwnDial) {
  ports_.Opened("bulk", server_->door(), [this] { return TryGreeting(AddressToDial("127.0.0.1", server_->port())); });
  answer_ = absl::OkStatus();
  Dial(Ports::kMisses);
  EXPECT_TRUE(ports_.Answering().ok());
  server_->Shutdown(Seconds(1));
  Dial(Ports::kMisses);
  EXPECT_NE(ports_.Answering().message().find("the bulk port does not answer: cannot connect to 127.0.0.1:"),
            std::string::npos)
      << ports_.Answering();
}

TEST(AddressToDial, IsLoopbackForTheAddressesThatStandForAll) {
  EXPECT_EQ(AddressToDial("0.0.0.0", 7070), "127.0.0.1:7070");
  EXPECT_EQ(AddressToDial("::", 7070), "[::1]:7070");
  EXPECT_EQ(AddressToDial("[::]", 7070), "[::1]:7070");
  EXPECT_EQ(AddressToDial("10.0.0.1", 7070), "10.0.0.1:7070");
}

}  // namespace
}  // namespace atl
