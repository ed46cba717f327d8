// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/update_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/store/round_log.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {
namespace {

constexpr Digest kLayout{1, 2};
const RoundKey kKey{{"tiny"}, 3, {{1}, {7}}};

// A round with one contribution and its update.
class UpdateReaderTest : public testing::Test {
 protected:
  UpdateReaderTest() {
    ContributionHeader header;
    header.job = kKey.job;
    header.worker = {"a"};
    header.target = kKey.target;
    header.digest = DigestOf(contribution_);
    header.encoded_bytes = contribution_.size();
    EXPECT_EQ(log_.Open(kKey, kLayout), absl::OkStatus());
    EXPECT_TRUE(log_.Begin(kKey, header).ok());
    EXPECT_EQ(log_.Append(kKey, {"a"}, 0, std::array{Bytes(contribution_)}), absl::OkStatus());
    EXPECT_EQ(log_.Accept(kKey, {"a"}, 1), absl::OkStatus());
    for (size_t i = 0; i < update_.size(); ++i) update_[i] = static_cast<std::byte>(i * 31 & 0xff);
    EXPECT_EQ(log_.WriteUpdate(kKey, Info(), update_), absl::OkStatus());
  }
  UpdateInfo Info() const { return {{{1}, {8}}, {5, 6}, DigestOf(update_), update_.size(), CodecKind::kFp16, 1}; }
  SimDisk::Content& File() { return disk_.At(directory_.SegmentPath(kKey)); }
  absl::Status Status(RoundLog& log, Digest layout = kLayout) { return log.OpenUpdate(kKey, layout).status(); }
  static std::vector<std::byte> All(const UpdateReader& reader) {
    std::vector<std::byte> bytes(reader.info().encoded_bytes);
    EXPECT_EQ(reader.ReadAt(0, bytes), absl::OkStatus());
    return bytes;
  }

  const std::vector<std::byte> contribution_ = std::vector<std::byte>(1000, std::byte{7});
  std::vector<std::byte> update_ = std::vector<std::byte>(300'000);
  SimDisk disk_;
  DataDirectory directory_{"/data"};
  RoundLog log_{disk_, directory_, BootNumber{1}, /*secret=*/1};
  RoundLog other_{disk_, directory_, BootNumber{2}, /*secret=*/1};  // has not read the file yet
};

TEST_F(UpdateReaderTest, AllShareOneThatHoldsNoFile) {
  const std::multiset<std::string> before = disk_.open();
  const auto first = *log_.OpenUpdate(kKey, kLayout);
  EXPECT_EQ(log_.OpenUpdate(kKey, kLayout)->get(), first.get());
  EXPECT_EQ(first->info().digest, DigestOf(update_));
  EXPECT_EQ(All(*first), update_);
  EXPECT_EQ(disk_.open(), before);
  std::array<std::byte, 10> piece{};
  ASSERT_EQ(first->ReadAt(update_.size() - piece.size(), piece), absl::OkStatus());
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), update_.end() - piece.size()));
  EXPECT_EQ(first->ReadAt(update_.size() - 9, piece).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(first->ReadAt(update_.size() + 1, {}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Status(other_, Digest{8, 8}).code(), absl::StatusCode::kFailedPrecondition);
}

// Only the description of the update is read in advance, and only once.
TEST_F(UpdateReaderTest, OtherRecordsInTheFileAreIgnored) {
  File()[500] ^= std::byte{1};  // of the contribution
  EXPECT_EQ(Status(log_), absl::OkStatus());
  File().back() ^= std::byte{1};
  EXPECT_NE(All(**log_.OpenUpdate(kKey, kLayout)), update_) << "its place is known: the receiver compares the digest";
  EXPECT_EQ(Status(other_).code(), absl::StatusCode::kNotFound) << "as of a tail that was never flushed";
}

TEST_F(UpdateReaderTest, AReaderIsNoPin) {
  const auto reader = *log_.OpenUpdate(kKey, kLayout);
  ASSERT_EQ(log_.Drop(kKey), absl::OkStatus());
  std::array<std::byte, 10> piece{};
  EXPECT_EQ(reader->ReadAt(0, piece).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Status(log_).code(), absl::StatusCode::kNotFound);
}

TEST_F(UpdateReaderTest, ALaterOneTakesItsPlace) {
  ASSERT_EQ(Status(log_), absl::OkStatus());
  update_[0] ^= std::byte{1};
  ASSERT_EQ(log_.WriteUpdate(kKey, Info(), update_), absl::OkStatus());
  EXPECT_EQ(All(**log_.OpenUpdate(kKey, kLayout)), update_);
  UpdateInfo wrong = Info();
  wrong.digest = {1, 1};
  ASSERT_EQ(log_.WriteUpdate(kKey, wrong, update_), absl::OkStatus());
  const absl::Status damaged = Status(log_);
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(damaged.message().find(directory_.SegmentPath(kKey)), absl::string_view::npos) << damaged;
}

TEST_F(UpdateReaderTest, WithoutOneThereIsNone) {
  const RoundKey open{kKey.job, kKey.epoch, {{1}, {8}}};
  ASSERT_EQ(log_.Open(open, kLayout), absl::OkStatus());
  EXPECT_EQ(log_.OpenUpdate(open, kLayout).status().code(), absl::StatusCode::kNotFound);
}

class KeptUpdate : public UpdateReaderTest {
 protected:
  KeptUpdate() { log_.Close(kKey); }
  bool Exists(const std::string& path) { return disk_.Exists(path); }
  absl::Status Drop(uint64_t keep_from, std::optional<Version> updates_from) {
    return log_.DropBefore(kKey.job, kKey.epoch, kKey.target.fragment, {keep_from}, updates_from).status();
  }
  const std::string segment_ = directory_.SegmentPath(kKey), kept_ = directory_.KeptUpdatePath(kKey);
};

TEST_F(KeptUpdate, IsServedWithoutItsSegment) {
  const auto before = *log_.OpenUpdate(kKey, kLayout);
  ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
  EXPECT_FALSE(Exists(segment_));
  EXPECT_TRUE(log_.HasUpdate(kKey));
  EXPECT_EQ(All(*before), update_) << "what was open goes on";
  for (RoundLog* log : {&log_, &other_}) {
    const auto reader = log->OpenUpdate(kKey, kLayout);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->info().digest, Info().digest);
    EXPECT_EQ(All(**reader), update_);
  }
  EXPECT_LT(disk_.At(kept_).size(), update_.size() + contribution_.size()) << "of the contributions nothing";
}

TEST_F(KeptUpdate, IsRemovedWhenNoWorkerNeedsIt) {
  ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
  ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
  EXPECT_TRUE(log_.HasUpdate(kKey));
  ASSERT_EQ(Drop(9, Version{8}), absl::OkStatus());
  EXPECT_FALSE(log_.HasUpdate(kKey));
  EXPECT_FALSE(Exists(kept_));
  EXPECT_EQ(Status(log_).code(), absl::StatusCode::kNotFound);
}

TEST_F(KeptUpdate, IsNotKeptWithoutAWorkerThatNeedsIt) {
  ASSERT_EQ(Drop(8, std::nullopt), absl::OkStatus());
  EXPECT_FALSE(Exists(segment_));
  EXPECT_FALSE(Exists(kept_));
}

TEST_F(KeptUpdate, GoesWithItsEpoch) {
  ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
  ASSERT_TRUE(*log_.DropEpochsBefore(kKey.job, kKey.epoch + 1));
  EXPECT_FALSE(Exists(kept_));
}

// At every call that changes the disk: the segment is deleted in any case, and the kept update is
// complete or absent.
TEST_F(KeptUpdate, AFullDiskKeepsNothing) {
  const SimDisk::Content whole = File();
  for (int call = 0;; ++call) {
    SCOPED_TRACE(call);
    disk_.FailAt(call, SimDisk::Fault::kShortWrite);
    const int before = disk_.calls();
    static_cast<void>(Drop(8, Version{7}));
    const bool met = disk_.calls() - before > call;
    disk_.FailAt(-1, SimDisk::Fault::kNone);
    ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
    EXPECT_FALSE(Exists(segment_));
    if (log_.HasUpdate(kKey)) {
      const auto reader = log_.OpenUpdate(kKey, kLayout);
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ(All(**reader), update_);
    }
    if (!met) break;
    ASSERT_EQ(Drop(9, Version{8}), absl::OkStatus());
    EXPECT_FALSE(log_.HasUpdate(kKey));
    ASSERT_EQ(log_.Open(kKey, kLayout), absl::OkStatus());
    log_.Close(kKey);
    File() = whole;
  }
}

TEST_F(KeptUpdate, ADamagedOneIsFound) {
  const auto reader = *log_.OpenUpdate(kKey, kLayout);
  ASSERT_EQ(Drop(8, Version{7}), absl::OkStatus());
  disk_.At(kept_).back() ^= std::byte{1};
  EXPECT_EQ(Status(other_).code(), absl::StatusCode::kNotFound) << "the fragment is";
  disk_.At(kept_).resize(1000);
  std::array<std::byte, 10> piece{};
  EXPECT_EQ(reader->ReadAt(0, piece).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(other_.OpenUpdate(kKey, kLayout).ok());
}

}  // namespace
}  // namespace atl
