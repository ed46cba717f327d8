// SPDX-License-Identifier: Apache-2.0
// A job's memory is available to the next job. A separate program, because it uses the worker's
// allocator settings.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// These settings keep freed memory, and the next job checks the machine's free memory.
TEST_F(SessionTest, NextJobReusesTheMemory) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  Join();
  auto freed = std::make_unique<std::vector<char>>(size_t{200} << 20, 'x');
  const auto above = std::make_unique<std::vector<char>>(1000, 'x');
  freed.reset();
  const uint64_t before = ResidentBytes();
  ASSERT_GT(before, uint64_t{200} << 20) << "kept by the allocator";
  Post(Unassign{kJob, "paused"});
  Turn(2);
  EXPECT_LT(ResidentBytes() + (uint64_t{150} << 20), before) << above->size();
}

}  // namespace
}  // namespace atl
