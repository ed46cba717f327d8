// SPDX-License-Identifier: Apache-2.0
// The memory cost of a contribution's chunk in the round log: it allocates nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "coordinator/store/round_log.h"
#include "tests/bench/allocations.h"

namespace atl {
namespace {

TEST(RoundLogAppending, TakesNoMemoryForAChunk) {
  const std::string root = testing::TempDir() + "atoll-appending-" + std::to_string(::getpid());
  std::filesystem::create_directories(root);
  const std::unique_ptr<Files> files = MakePosixFiles();
  RoundLog log(*files, DataDirectory(root), BootNumber{1}, /*secret=*/1);
  const RoundKey key{{"a-job-whose-name-does-not-fit-into-a-string"}, 0, {{0}, {0}}};
  ASSERT_EQ(log.Open(key, Digest{1, 2}), absl::OkStatus());
  constexpr size_t kFrames = 1000;
  const std::vector<std::byte> part(100);
  ContributionHeader header;
  header.job = key.job;
  header.worker = {"a-worker-whose-name-does-not-fit-into-a-string"};
  header.target = key.target;
  header.encoded_bytes = kFrames * 2 * part.size();
  ASSERT_TRUE(log.Begin(key, header).ok());
  // As received from a connection: a frame in several pieces.
  const std::array<Bytes, 2> pieces{Bytes(part), Bytes(part)};
  const bench::Allocations counted = bench::CountAllocations([&] {
    for (size_t i = 0; i < kFrames; ++i)
      EXPECT_EQ(log.Append(key, header.worker, i * 2 * part.size(), pieces), absl::OkStatus());
  });
  EXPECT_GT(counted.own_calls, 0u) << "nothing is counted: the list of chunks has grown";
  EXPECT_LT(counted.own_calls, kFrames / 20);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace atl
