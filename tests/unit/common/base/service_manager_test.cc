// SPDX-License-Identifier: Apache-2.0
#include "common/base/service_manager.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/service_manager_socket.h"

namespace atl {
namespace {

void ExpectAllIsHeard(const std::string& socket) {
  const ServiceManagerSocket manager(socket);
  ASSERT_TRUE(manager.open()) << socket;
  const ServiceManager told({{"NOTIFY_SOCKET", socket}, {"WATCHDOG_USEC", "30000000"}}, 7);
  EXPECT_EQ(told.alive_every(), Seconds(15));
  EXPECT_EQ(told.Ready(), absl::OkStatus());
  EXPECT_EQ(told.Alive(), absl::OkStatus());
  EXPECT_EQ(told.Stopping(), absl::OkStatus());
  EXPECT_EQ(told.StillStopping(Seconds(60)), absl::OkStatus());
  EXPECT_EQ(manager.Heard(),
            (std::vector<std::string>{"READY=1", "WATCHDOG=1", "STOPPING=1", "EXTEND_TIMEOUT_USEC=60000000"}));
}

TEST(ServiceManagerTest, IsNotifiedAtAPath) {
  const std::string path = testing::TempDir() + absl::StrCat("/notify-", ::getpid());
  ExpectAllIsHeard(path);
  std::filesystem::remove(path);
}

TEST(ServiceManagerTest, IsNotifiedInTheAbstractNamespace) {
  ExpectAllIsHeard(absl::StrCat("@atoll-notify-", ::getpid()));
}

TEST(ServiceManagerTest, WithoutAManagerNothingIsSent) {
  const ServiceManager nobody({{"WATCHDOG_USEC", "30000000"}}, 7);
  EXPECT_FALSE(nobody.alive_every());
  EXPECT_EQ(nobody.Ready(), absl::OkStatus());
  EXPECT_EQ(nobody.Alive(), absl::OkStatus());
  EXPECT_EQ(ServiceManager().Stopping(), absl::OkStatus());
}

TEST(ServiceManagerTest, AWatchdogIsForItsProcessAndAsksForASpan) {
  const auto every = [](const std::string& span, const std::string& process) {
    return ServiceManager({{"NOTIFY_SOCKET", "@x"}, {"WATCHDOG_USEC", span}, {"WATCHDOG_PID", process}}, 7)
        .alive_every();
  };
  EXPECT_EQ(every("1000000", "7"), Milliseconds(500));
  EXPECT_FALSE(every("1000000", "8")) << "of another process";
  EXPECT_FALSE(every("0", "7"));
  EXPECT_FALSE(every("-5", "7"));
  EXPECT_FALSE(every("soon", "7"));
  EXPECT_FALSE(every("9223372036854775807", "7")) << "for ever";
  EXPECT_FALSE(ServiceManager({{"NOTIFY_SOCKET", "@x"}}, 7).alive_every());
}

TEST(ServiceManagerTest, UnreachableManagerIsNamed) {
  const std::string gone = testing::TempDir() + absl::StrCat("/gone-", ::getpid());
  const absl::Status told = ServiceManager({{"NOTIFY_SOCKET", gone}}, 7).Ready();
  EXPECT_EQ(told, absl::UnavailableError(absl::StrCat("cannot notify the service manager at ", gone,
                                                      ": send: No such file or directory")));
  EXPECT_FALSE(ServiceManager({{"NOTIFY_SOCKET", "relative"}}, 7).Ready().ok());
  EXPECT_FALSE(ServiceManager({{"NOTIFY_SOCKET", "/" + std::string(200, 'x')}}, 7).Ready().ok());
}

}  // namespace
}  // namespace atl
