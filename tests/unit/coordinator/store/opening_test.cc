// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "coordinator/store/round_log.h"
#include "tests/unit/coordinator/store/round_log_fixture.h"

namespace atl {
namespace {

// The io executor opens a segment for an upload while another executor closes the round.
TEST(RoundLogOpening, TwoThreadsThatOpenASegmentBeginItOnce) {
  const std::string root = testing::TempDir() + "/round_log_opened_twice";
  std::filesystem::remove_all(root);
  const std::unique_ptr<Files> files = MakePosixFiles();
  const DataDirectory directory(root);
  ASSERT_EQ(files->MakeDirectory(root), absl::OkStatus());
  RoundLog log(*files, directory, BootNumber{1}, kSecret);
  for (uint64_t version = 0; version < 20; ++version) {
    RoundKey key = kKey;
    key.target.version = Version{version};
    std::array<absl::Status, 2> opened;
    std::latch both(2);
    {
      std::vector<std::jthread> threads;
      for (absl::Status& status : opened) {
        threads.emplace_back([&] {
          both.arrive_and_wait();
          status = log.Open(key, kLayout);
        });
      }
    }
    for (const absl::Status& status : opened) EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(log.Info(key)->file_bytes, std::filesystem::file_size(directory.SegmentPath(key)));
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace atl
