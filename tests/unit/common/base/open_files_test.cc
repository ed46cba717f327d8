// SPDX-License-Identifier: Apache-2.0
#include "common/base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace atl {
namespace {

TEST(OpenFiles, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit was{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &was), 0);
  const rlimit low{64, was.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(OpenFilesLimit(), 64u);
  EXPECT_EQ(RaiseOpenFiles(), was.rlim_max);
  EXPECT_EQ(OpenFilesLimit(), was.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &was), 0);
}

}  // namespace
}  // namespace atl
