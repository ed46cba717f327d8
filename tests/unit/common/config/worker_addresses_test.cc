// SPDX-License-Identifier: Apache-2.0
// The addresses of the coordinator among the worker's options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/options.h"

namespace atl {
namespace {

using testing::HasSubstr;

WorkerCommandLine Worker(const std::vector<std::string>& arguments) {
  return ParseWorkerOptions(arguments, {{"HOME", "/home/a"}}, "1.2.3", "paris-1");
}

TEST(WorkerOptions, AddressesWithoutAPortTakeTheDefaultPort) {
  const auto host = Worker({"--coordinator=example.org"});
  ASSERT_TRUE(host.run.has_value()) << host.text;
  EXPECT_EQ(host.run->coordinator, "example.org:7070");
  EXPECT_EQ(host.run->coordinator_bulk, "example.org:7071");
  EXPECT_EQ(host.run->coordinator_enroll, "example.org:7073");
  const auto six = Worker({"--coordinator=[2001:db8::7]"});
  ASSERT_TRUE(six.run.has_value()) << six.text;
  EXPECT_EQ(six.run->coordinator_bulk, "[2001:db8::7]:7071");
  const auto each = Worker({"--coordinator=a:8000", "--coordinator-bulk=b", "--coordinator-enroll=[::1]"});
  ASSERT_TRUE(each.run.has_value()) << each.text;
  EXPECT_EQ(each.run->coordinator_bulk, "b:7071");
  EXPECT_EQ(each.run->coordinator_enroll, "[::1]:7073");
}

}  // namespace
}  // namespace atl
