// SPDX-License-Identifier: Apache-2.0
// A round log over an in-memory disk, and contributions to one of its rounds.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_STORE_ROUND_LOG_FIXTURE_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_STORE_ROUND_LOG_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store/round_log.h"
#include "tests/unit/coordinator/store/sample_contribution.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {

inline constexpr Digest kLayout{1, 2};
inline constexpr uint64_t kSecret = 0x5EC2E7;
inline const RoundKey kKey{{"tiny"}, 3, {{1}, {7}}};

inline std::vector<std::byte> Payload(size_t bytes, int seed) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 31 + static_cast<size_t>(seed) * 17) & 0xff);
  return out;
}

inline ContributionHeader HeaderOf(const std::string& worker, const std::vector<std::byte>& payload) {
  return SampleContribution(kKey, worker, payload);
}

class RoundLogTest : public testing::Test {
 protected:
  std::unique_ptr<RoundLog> Reopen(uint64_t boot) {
    auto log = std::make_unique<RoundLog>(disk_, directory_, BootNumber{boot}, kSecret);
    EXPECT_EQ(log->Open(kKey, kLayout), absl::OkStatus());
    return log;
  }
  static absl::StatusOr<std::vector<std::byte>> Update(RoundLog& log) {
    ATOLL_ASSIGN_OR_RETURN(const auto reader, log.OpenUpdate(kKey, kLayout));
    std::vector<std::byte> bytes(reader->info().encoded_bytes);
    ATOLL_RETURN_IF_ERROR(reader->ReadAt(0, bytes));
    return bytes;
  }
  static absl::Status Put(RoundLog& log, const std::string& worker, uint64_t offset, Bytes bytes) {
    return log.Append(kKey, {worker}, offset, std::array{bytes});
  }
  std::string Path() const { return directory_.SegmentPath(kKey); }

  SimDisk disk_;
  DataDirectory directory_{"/data"};
  const std::vector<std::byte> a_ = Payload(1000, 1), b_ = Payload(700, 2);
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_STORE_ROUND_LOG_FIXTURE_H_
