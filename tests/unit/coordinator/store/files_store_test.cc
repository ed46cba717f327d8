// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/disk_budget.h"
#include "coordinator/store/reading_lock.h"
#include "coordinator/store/snapshot_store.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {
namespace {

constexpr Digest kLayout{1, 2};

struct Arrays {
  std::vector<float> public_copy = {1.5f, -2.0f, 0.25f}, momentum = {0.5f, 0.0f, -1.0f}, residual = {1e-8f, 0.0f, 0.0f};
  FragmentArrays view() const { return {public_copy, momentum, residual}; }
  Digest Hash(uint64_t version) const { return ContentHash(public_copy, version, kLayout); }
};

SnapshotKey KeyAt(uint64_t version, uint32_t fragment = 0) { return {{"tiny"}, 0, {{fragment}, {version}}}; }

class SnapshotStoreTest : public testing::Test {
 protected:
  absl::Status Write(uint64_t version, uint32_t fragment = 0) {
    return store_.Write(KeyAt(version, fragment), arrays_.view(), arrays_.Hash(version), kLayout);
  }
  SimDisk disk_;
  DataDirectory directory_{"/data"};
  SnapshotStore store_{disk_, directory_, BootNumber{3}};
  Arrays arrays_;
};

TEST_F(SnapshotStoreTest, ComesBackAfterACrash) {
  ASSERT_EQ(Write(4), absl::OkStatus());
  disk_.Crash();
  const LoadedSnapshot loaded = *store_.Load(KeyAt(4), kLayout);
  EXPECT_EQ(loaded.public_copy, arrays_.public_copy);
  EXPECT_EQ(loaded.momentum, arrays_.momentum);
  EXPECT_EQ(loaded.residual, arrays_.residual);
  EXPECT_EQ(loaded.header.boot.value, 3u);
  EXPECT_EQ(store_.Load(KeyAt(5), kLayout).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_.Load(KeyAt(4), Digest{8, 8}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SnapshotStoreTest, EmptyOuterStateIsZeros) {
  ASSERT_EQ(store_.Write(KeyAt(0), FragmentArrays{arrays_.public_copy, {}, {}}, arrays_.Hash(0), kLayout),
            absl::OkStatus());
  EXPECT_EQ(store_.Load(KeyAt(0), kLayout)->momentum, std::vector<float>(3));
}

// More than one piece as written; pieces do not end at the ends of arrays.
TEST_F(SnapshotStoreTest, EmptyArraysAreZeros) {
  std::vector<float> public_copy(300'001), momentum(300'001), residual(300'001);
  std::iota(public_copy.begin(), public_copy.end(), 1.0f);
  std::iota(momentum.begin(), momentum.end(), 2.0f);
  std::iota(residual.begin(), residual.end(), 3.0f);
  std::vector<float> none;
  const std::vector<float> zeros(300'001);
  uint64_t version = 0;
  for (const auto* held : {&none, &momentum}) {
    for (const auto* lost : {&none, &residual}) {
      const SnapshotKey key = KeyAt(++version);
      const Digest hash = ContentHash(public_copy, version, kLayout);
      ASSERT_EQ(store_.Write(key, FragmentArrays{public_copy, *held, *lost}, hash, kLayout), absl::OkStatus());
      const absl::StatusOr<LoadedSnapshot> loaded = store_.Load(key, kLayout);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_TRUE(loaded->public_copy == public_copy) << version;
      EXPECT_TRUE(loaded->momentum == (held->empty() ? zeros : momentum)) << version;
      EXPECT_TRUE(loaded->residual == (lost->empty() ? zeros : residual)) << version;
    }
  }
}

TEST_F(SnapshotStoreTest, EveryFlippedByteIsFound) {
  ASSERT_EQ(Write(4), absl::OkStatus());
  SimDisk::Content& content = disk_.At(directory_.SnapshotPath(KeyAt(4)));
  const size_t header_end = 16 + 200;
  for (size_t i = 0; i < content.size(); i = i == header_end ? 4096 : i + 1) {
    content[i] ^= std::byte{0x10};
    const absl::StatusOr<LoadedSnapshot> loaded = store_.Load(KeyAt(4), kLayout);
    // Only the zeros that pad the header are meaningless; all other bytes are covered.
    const bool padding = loaded.ok() && i > 16 && i < 4096;
    EXPECT_TRUE(padding || !loaded.ok()) << i;
    content[i] ^= std::byte{0x10};
  }
  content.pop_back();
  EXPECT_EQ(store_.Load(KeyAt(4), kLayout).status().code(), absl::StatusCode::kDataLoss);
}

// The error must not ask the operator to restore a backup.
TEST_F(SnapshotStoreTest, FailedReadIsNotReportedAsDamage) {
  ASSERT_EQ(Write(4), absl::OkStatus());
  disk_.FailReads("/snapshots/");
  const absl::Status read = store_.Load(KeyAt(4), kLayout).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(read.message(), "read " + directory_.SnapshotPath(KeyAt(4)) + ": Input/output error");
  disk_.FailReads("");
  EXPECT_TRUE(store_.Load(KeyAt(4), kLayout).ok());
}

TEST_F(SnapshotStoreTest, AFailureAtAnyCallLeavesTheOldOne) {
  ASSERT_EQ(Write(1), absl::OkStatus());
  const int before = disk_.calls();
  ASSERT_EQ(Write(2), absl::OkStatus());
  const int calls = disk_.calls() - before;
  for (int n = 0; n < calls; ++n) {
    SimDisk disk;
    SnapshotStore store(disk, directory_, BootNumber{1});
    ASSERT_EQ(store.Write(KeyAt(1), arrays_.view(), arrays_.Hash(1), kLayout), absl::OkStatus());
    disk.FailAt(n, SimDisk::Fault::kShortWrite, true);
    EXPECT_FALSE(store.Write(KeyAt(2), arrays_.view(), arrays_.Hash(2), kLayout).ok()) << n;
    disk.Crash();
    EXPECT_TRUE(store.Load(KeyAt(1), kLayout).ok()) << n;
    EXPECT_EQ(store.Write(KeyAt(2), arrays_.view(), arrays_.Hash(2), kLayout), absl::OkStatus());
    EXPECT_TRUE(store.Load(KeyAt(2), kLayout).ok());
  }
}

TEST_F(SnapshotStoreTest, ReaderGivesThePublicCopyAndIsNoPin) {
  ASSERT_EQ(Write(1), absl::OkStatus());
  ASSERT_EQ(Write(5), absl::OkStatus());
  EXPECT_EQ(**store_.NewestUpTo({"tiny"}, 0, {0}, {4}), Version{1});
  EXPECT_FALSE(store_.NewestUpTo({"tiny"}, 0, {0}, {0})->has_value());
  const auto reader = *store_.OpenReader(KeyAt(1));
  std::array<float, 2> values{};
  ASSERT_EQ(reader->ReadAt(4, std::as_writable_bytes(std::span(values))), absl::OkStatus());
  EXPECT_EQ(values[0], -2.0f);
  EXPECT_EQ(reader->ReadAt(8, std::as_writable_bytes(std::span(values))).code(), absl::StatusCode::kOutOfRange);
  ASSERT_EQ(store_.DropBefore({"tiny"}, 0, {0}, {5}), absl::OkStatus());
  EXPECT_EQ(*store_.List({"tiny"}, 0, {0}), (std::vector<Version>{{5}}));
  EXPECT_EQ(reader->ReadAt(4, std::as_writable_bytes(std::span(values))).code(), absl::StatusCode::kNotFound);
}

TEST_F(SnapshotStoreTest, TheFirstMayBeKept) {
  for (const uint64_t version : {2u, 4u, 6u}) ASSERT_EQ(Write(version), absl::OkStatus());
  ASSERT_EQ(store_.DropBefore({"tiny"}, 0, {0}, {6}, /*keep_first=*/true), absl::OkStatus());
  EXPECT_EQ(*store_.List({"tiny"}, 0, {0}), (std::vector<Version>{{2}, {6}}));
}

TEST_F(SnapshotStoreTest, PinnedSnapshotStays) {
  for (const uint64_t version : {2u, 4u, 5u, 6u}) ASSERT_EQ(Write(version), absl::OkStatus());
  ASSERT_EQ(store_.DropBefore({"tiny"}, 0, {0}, {6}, /*keep_first=*/false, Version{4}), absl::OkStatus());
  EXPECT_EQ(*store_.List({"tiny"}, 0, {0}), (std::vector<Version>{{4}, {6}}));
  ASSERT_EQ(store_.DropBefore({"tiny"}, 0, {0}, {6}, /*keep_first=*/false, Version{5}), absl::OkStatus());
  EXPECT_EQ(*store_.List({"tiny"}, 0, {0}), (std::vector<Version>{{6}}));
}

TEST_F(SnapshotStoreTest, CheckpointsOutliveTheirSnapshots) {
  ASSERT_EQ(Write(1, 0), absl::OkStatus());
  ASSERT_EQ(Write(2, 1), absl::OkStatus());
  CheckpointRecord record;
  record.job = {"tiny"};
  record.step = 100;
  record.versions = {{1}, {2}};
  record.hashes = {arrays_.Hash(1), arrays_.Hash(2)};
  record.pool_consumed = 5;
  EXPECT_EQ(store_.ReadCheckpoint({"tiny"}, 100).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(store_.WriteCheckpoint(record, 0), absl::OkStatus());
  ASSERT_EQ(store_.WriteCheckpoint(record, 0), absl::OkStatus()) << "again changes nothing";
  ASSERT_EQ(store_.DropBefore({"tiny"}, 0, {0}, {9}), absl::OkStatus());
  disk_.Crash();
  EXPECT_TRUE(store_.ReadCheckpoint({"tiny"}, 100)->complete);
  EXPECT_EQ(store_.ReadCheckpoint({"tiny"}, 100)->pool_consumed, 5u);
  EXPECT_EQ(store_.LoadCheckpointFragment({"tiny"}, 100, {1}, kLayout)->header.at.version.value, 2u);
  ASSERT_EQ(store_.DropCheckpoint({"tiny"}, 100), absl::OkStatus());
  EXPECT_EQ(store_.ReadCheckpoint({"tiny"}, 100).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_.DropCheckpoint({"tiny"}, 100), absl::OkStatus());
}

// If the ledger is an older copy, checkpoints unknown to it are not leftovers.
TEST_F(SnapshotStoreTest, ForgottenCheckpointsGoUnlessTheLedgerIsOlder) {
  ASSERT_EQ(Write(1), absl::OkStatus());
  ASSERT_EQ(Write(2), absl::OkStatus());
  const auto checkpoint = [&](uint64_t step, uint64_t version) {
    CheckpointRecord record;
    record.job = {"tiny"};
    record.step = step;
    record.versions = {{version}};
    record.hashes = {arrays_.Hash(version)};
    ASSERT_EQ(store_.WriteCheckpoint(record, 0), absl::OkStatus());
  };
  for (const uint64_t step : {10u, 20u}) checkpoint(step, 1);
  checkpoint(30, 2);
  const auto drop = [&](uint64_t boot, uint64_t epoch, uint64_t head) {
    return *SnapshotStore(disk_, directory_, BootNumber{boot}).DropCheckpointsBut({10}, {"tiny"}, epoch, {{head}});
  };
  EXPECT_EQ(drop(3, 0, 2), (std::vector<uint64_t>{20, 30})) << "written by the start that the ledger is at";
  EXPECT_EQ(drop(4, 0, 0), (std::vector<uint64_t>{20, 30}));
  EXPECT_EQ(drop(4, 0, 1), (std::vector<uint64_t>{30}));
  EXPECT_FALSE(store_.ReadCheckpoint({"tiny"}, 20).ok());
  EXPECT_TRUE(drop(4, 1, 1).empty()) << "of an epoch that was given up";
  EXPECT_FALSE(store_.ReadCheckpoint({"tiny"}, 30).ok());
  EXPECT_TRUE(store_.ReadCheckpoint({"tiny"}, 10).ok());
}

// A checkpoint is checked while the job is in memory, so without space for a second copy.
TEST_F(SnapshotStoreTest, ACheckpointIsCheckedPieceByPiece) {
  arrays_ = {std::vector<float>(100'000, 1.5f), std::vector<float>(100'000, 2.0f), std::vector<float>(100'000, 3.0f)};
  ASSERT_EQ(Write(1), absl::OkStatus());
  CheckpointRecord record;
  record.job = {"tiny"};
  record.step = 100;
  record.versions = {{1}};
  ASSERT_EQ(store_.WriteCheckpoint(record, 0), absl::OkStatus());
  const auto check = [this](Digest layout) { return store_.CheckCheckpointFragment({"tiny"}, 100, {0}, layout); };
  ASSERT_TRUE(check(kLayout).ok());
  EXPECT_EQ(check(kLayout)->at.version.value, 1u);
  EXPECT_EQ(check(kLayout)->hash, arrays_.Hash(1));
  EXPECT_EQ(check(Digest{8, 8}).status().code(), absl::StatusCode::kFailedPrecondition);
  SimDisk::Content& content = disk_.At(directory_.SnapshotPath(KeyAt(1)));
  for (const size_t at : {20u, 4096u, 4096u + 399'999, 4096u + 400'000, 4096u + 1'199'999}) {
    content[at] ^= std::byte{0x10};
    EXPECT_EQ(check(kLayout).status().code(), absl::StatusCode::kDataLoss) << at;
    content[at] ^= std::byte{0x10};
  }
  EXPECT_TRUE(check(kLayout).ok());
}

TEST_F(SnapshotStoreTest, GoldenBytes) {
  ASSERT_EQ(Write(4), absl::OkStatus());
  const SimDisk::Content& content = disk_.At(directory_.SnapshotPath(KeyAt(4)));
  ASSERT_EQ(content.size(), 4096u + 36);
  EXPECT_EQ(DigestOf(content).Hex(), "7d095bfddcaea4c784e389dab61a45f0");
  EXPECT_EQ(absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(content.data()), 12)),
            "41544c534e41503160000000");
}

class BlobStoreTest : public testing::Test {
 protected:
  absl::Status Put(uint64_t offset, const std::string& bytes) {
    return store_.Append(sha_, turn_, offset, std::array{AsBytes(bytes)});
  }
  // Returns the stored length.
  absl::StatusOr<uint64_t> Begin(uint64_t bytes) {
    ATOLL_ASSIGN_OR_RETURN(const BlobStore::Begun begun, store_.Begin(sha_, bytes));
    turn_ = begun.turn;
    return begun.length;
  }
  absl::Status Finish() { return store_.FinishSome(sha_, turn_).status(); }
  SimDisk disk_;
  DataDirectory directory_{"/data"};
  BlobStore store_{disk_, directory_};
  const std::string content_ = "a tokenizer file";
  const Sha256 sha_ = Sha256Of(AsBytes(content_));
  uint64_t turn_ = 0;
};

TEST_F(BlobStoreTest, ResumesVerifiesAndSurvivesACrash) {
  EXPECT_EQ(store_.Missing({sha_}), (std::vector<Sha256>{sha_}));
  EXPECT_EQ(*Begin(content_.size()), 0u);
  ASSERT_EQ(Put(0, content_.substr(0, 5)), absl::OkStatus());
  EXPECT_EQ(Finish().code(), absl::StatusCode::kFailedPrecondition);
  store_.Suspend(sha_, turn_);
  EXPECT_EQ(*Begin(content_.size()), 5u);
  EXPECT_EQ(Put(4, "x").code(), absl::StatusCode::kOutOfRange);
  ASSERT_EQ(Put(5, content_.substr(5)), absl::OkStatus());
  ASSERT_EQ(Finish(), absl::OkStatus());
  disk_.Crash();
  EXPECT_EQ(*store_.Read(sha_, 100), content_);
  EXPECT_EQ(store_.Read(sha_, 3).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store_.Missing({sha_}).empty());
  EXPECT_EQ(*Begin(content_.size()), content_.size());
}

TEST_F(BlobStoreTest, RefusesContentWithAnotherHash) {
  ASSERT_TRUE(Begin(3).ok());
  ASSERT_EQ(Put(0, "abc"), absl::OkStatus());
  EXPECT_EQ(Finish().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*Begin(content_.size()), 0u);
  EXPECT_EQ(Begin(UINT64_MAX).status().code(), absl::StatusCode::kInvalidArgument);
}

// Two commands store the same file: the second continues at the first's position; the first asks
// again and finds it stored.
TEST_F(BlobStoreTest, ASecondUploadTakesItOverAndTheFirstEndsNothing) {
  ASSERT_TRUE(Begin(content_.size()).ok());
  ASSERT_EQ(Put(0, content_.substr(0, 5)), absl::OkStatus());
  const uint64_t first = std::exchange(turn_, 0);
  EXPECT_EQ(*Begin(content_.size()), 5u);
  EXPECT_EQ(store_.Append(sha_, first, 5, std::array{AsBytes(content_.substr(5))}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store_.FinishSome(sha_, first).status().code(), absl::StatusCode::kUnavailable);
  store_.Suspend(sha_, first);
  ASSERT_EQ(Put(5, content_.substr(5)), absl::OkStatus());
  ASSERT_EQ(Finish(), absl::OkStatus());
  EXPECT_EQ(store_.Append(sha_, first, 5, std::array{AsBytes(content_.substr(5))}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(*store_.FinishSome(sha_, first));
  EXPECT_EQ(*Begin(content_.size()), content_.size());
  EXPECT_EQ(*store_.Read(sha_, 100), content_);
}

TEST_F(BlobStoreTest, AFullDiskAddsNothing) {
  ASSERT_TRUE(Begin(content_.size()).ok());
  disk_.FailAt(0, SimDisk::Fault::kShortWrite);
  EXPECT_EQ(Put(0, content_).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(Put(0, content_), absl::OkStatus());
  EXPECT_EQ(Finish(), absl::OkStatus());
}

// A coordinator has one executor for files: finishing a large file must not block it.
TEST_F(BlobStoreTest, ALargeFileIsHashedAndFlushedAPieceAtATime) {
  const std::string piece(size_t{1} << 20, 'p');
  constexpr uint64_t kPieces = 70;
  Sha256Hasher hasher;
  for (uint64_t i = 0; i < kPieces; ++i) hasher.Update(AsBytes(piece));
  const Sha256 name = hasher.Finish();
  const uint64_t bytes = kPieces * piece.size();
  uint64_t turn = store_.Begin(name, bytes)->turn;
  const auto put = [&](uint64_t i) { return store_.Append(name, turn, i * piece.size(), std::array{AsBytes(piece)}); };
  for (uint64_t i = 0; i + 1 < kPieces; ++i) ASSERT_EQ(put(i), absl::OkStatus());
  store_.Suspend(name, turn);
  turn = store_.Begin(name, bytes)->turn;
  ASSERT_EQ(put(kPieces - 1), absl::OkStatus());
  EXPECT_FALSE(*store_.FinishSome(name, turn)) << "what was there from before is hashed in two goes";
  EXPECT_TRUE(*store_.FinishSome(name, turn));
  EXPECT_TRUE(store_.Has(name));
}

TEST_F(BlobStoreTest, FailedFlushDuringAnUploadRestartsIt) {
  const std::string piece(size_t{1} << 20, 'p');
  ASSERT_TRUE(Begin(uint64_t{1} << 30).ok());
  for (uint64_t i = 0; i < 63; ++i) ASSERT_EQ(Put(i << 20, piece), absl::OkStatus());
  disk_.FailAt(1, SimDisk::Fault::kFails);  // after the append
  EXPECT_EQ(Put(uint64_t{63} << 20, piece).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(*Begin(uint64_t{1} << 30), 0u);
}

// The disk reports a failed flush once: the next flush would succeed.
TEST_F(BlobStoreTest, AFailedFlushIsNotTriedAgain) {
  ASSERT_TRUE(Begin(content_.size()).ok());
  ASSERT_EQ(Put(0, content_), absl::OkStatus());
  disk_.FailAt(0, SimDisk::Fault::kFails);
  EXPECT_EQ(Finish().code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(store_.Has(sha_));
  EXPECT_EQ(*Begin(content_.size()), 0u) << "it is sent anew";
  ASSERT_EQ(Put(0, content_), absl::OkStatus());
  ASSERT_EQ(Finish(), absl::OkStatus());
  disk_.Crash();
  EXPECT_EQ(*store_.Read(sha_, 100), content_);
}

TEST_F(BlobStoreTest, DamageIsFound) {
  ASSERT_TRUE(Begin(content_.size()).ok());
  ASSERT_EQ(Put(0, content_), absl::OkStatus());
  ASSERT_EQ(Finish(), absl::OkStatus());
  disk_.At(directory_.BlobPath(sha_))[3] ^= std::byte{1};
  EXPECT_EQ(store_.Read(sha_, 100).status().code(), absl::StatusCode::kDataLoss);
}

TEST(StalePartsTest, GoOnlyWhenNothingWasAddedForAWeek) {
  const DataDirectory directory(testing::TempDir() + "atoll-parts-" + std::to_string(::getpid()));
  EXPECT_EQ(DropStaleParts(directory), absl::OkStatus()) << "nothing was stored yet";
  const auto make = [&](const std::string& content, bool part, int days) {
    const Sha256 sha256 = Sha256Of(AsBytes(content));
    const std::string path = part ? directory.BlobPartPath(sha256) : directory.BlobPath(sha256);
    EXPECT_TRUE(MakePosixFiles()->MakeDirectory(DirectoryOf(path)).ok());
    EXPECT_TRUE((*MakePosixFiles()->OpenForAppend(path))->Append(AsBytes(content)).ok());
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days));
    return path;
  };
  const std::string stored = make("stored", false, 30), young = make("young", true, 6), old = make("old", true, 8);
  EXPECT_EQ(DropStaleParts(directory), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::exists(stored));
  EXPECT_TRUE(std::filesystem::exists(young));
  EXPECT_FALSE(std::filesystem::exists(old));
  std::filesystem::remove_all(directory.root());
}

TEST(DiskSpaceTest, DoesNotFlap) {
  SimDisk disk;
  disk.space = {1'100'000, 10'000'000};
  EXPECT_EQ(JudgeDiskSpace(disk.space, DiskState::kOk), DiskState::kOk);
  EXPECT_EQ(JudgeDiskSpace(disk.space, DiskState::kLow), DiskState::kLow);
  disk.space.free_bytes = 900'000;
  EXPECT_EQ(JudgeDiskSpace(disk.space, DiskState::kOk), DiskState::kLow);
  disk.space.free_bytes = 1'300'000;
  EXPECT_EQ(JudgeDiskSpace(disk.space, DiskState::kLow), DiskState::kOk);
}

class DiskBudgetTest : public testing::Test {
 protected:
  DiskBudgetTest() { EXPECT_TRUE(MakePosixFiles()->MakeDirectory(root_).ok()); }
  ~DiskBudgetTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& name, size_t bytes) {
    std::unique_ptr<File> file = *MakePosixFiles()->OpenForAppend(root_ + "/" + name);
    EXPECT_TRUE(file->Append(std::vector<std::byte>(bytes, std::byte{1})).ok());
    EXPECT_TRUE(file->Sync().ok());
  }
  const std::string root_ = testing::TempDir() + "atoll-budget-" + std::to_string(::getpid());
};

TEST_F(DiskBudgetTest, FilesBelowTheRootReduceTheBudget) {
  constexpr uint64_t kBudget = uint64_t{4} << 20, kFile = uint64_t{1} << 20;
  const std::unique_ptr<Files> files = WithDiskBudget(MakePosixFiles(), root_, kBudget);
  const uint64_t empty = files->SpaceAt(root_)->free_bytes;
  EXPECT_EQ(files->SpaceAt(root_)->total_bytes, kBudget);
  EXPECT_LE(empty, kBudget);
  ASSERT_TRUE(files->MakeDirectory(root_ + "/below").ok());
  const uint64_t with_directory = files->SpaceAt(root_)->free_bytes;
  Write("below/a", kFile);
  const uint64_t with_file = files->SpaceAt(root_)->free_bytes;
  EXPECT_LE(with_file, with_directory - kFile);
  EXPECT_GE(with_file, with_directory - kFile - kFile / 8);
  ASSERT_TRUE(files->HardLink(root_ + "/below/a", root_ + "/b").ok());
  EXPECT_GE(files->SpaceAt(root_)->free_bytes, with_file - kFile / 8) << "two names of one file";
  Write("c", 2 * kBudget);
  EXPECT_EQ(files->SpaceAt(root_)->free_bytes, 0u);
}

TEST_F(DiskBudgetTest, ADiskThatIsSmallerStaysSo) {
  const Files::Space disk = *MakePosixFiles()->SpaceAt(root_);
  const std::unique_ptr<Files> files = WithDiskBudget(MakePosixFiles(), root_, UINT64_MAX);
  EXPECT_EQ(files->SpaceAt(root_)->total_bytes, disk.total_bytes);
  EXPECT_FALSE(WithDiskBudget(MakePosixFiles(), root_ + "/not-there", UINT64_MAX)->SpaceAt(root_).ok());
}

// Whenever its creator is killed: after the next process has created the directory, it stays.
TEST(StateDirectoryTest, APowerCutDoesNotTakeItAway) {
  for (int n = 0; n < 12; ++n) {
    SCOPED_TRACE(n);
    SimDisk disk;
    disk.FailAt(n, SimDisk::Fault::kFails, /*forever=*/true);
    (void)MakeDurableRoot(disk, "/var/lib/atoll");
    disk.FailAt(-1, SimDisk::Fault::kNone);
    ASSERT_EQ(MakeDurableRoot(disk, "/var/lib/atoll"), absl::OkStatus());
    disk.Crash();
    EXPECT_TRUE(disk.Exists("/var") && disk.Exists("/var/lib") && disk.Exists("/var/lib/atoll"));
  }
}

TEST(StateDirectoryTest, FailedFlushOfAParentIsReported) {
  SimDisk disk;
  ASSERT_EQ(MakeDurableRoot(disk, "/data"), absl::OkStatus());
  disk.FailAt(1, SimDisk::Fault::kFails);  // the call after that of MakeDirectory
  EXPECT_EQ(MakeDurableRoot(disk, "/data").code(), absl::StatusCode::kInternal);
}

TEST(DirectoryLockTest, ASecondHolderIsRefused) {
  const DataDirectory directory(testing::TempDir() + "atoll-lock-" + std::to_string(::getpid()));
  auto first = LockDirectory(directory);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = LockDirectory(directory).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.message().find(std::to_string(::getpid())), absl::string_view::npos) << second;
  first->reset();
  EXPECT_TRUE(LockDirectory(directory).ok());
}

// Without a writer, an open for reading would wait forever.
TEST(DirectoryLockTest, OnlyARegularFileIsALock) {
  const DataDirectory directory(testing::TempDir() + "atoll-pipe-" + std::to_string(::getpid()));
  const std::string path = directory.LockPath();
  EXPECT_TRUE(LockForReading(directory).ok()) << "no coordinator was ever here";
  ASSERT_EQ(MakePosixFiles()->MakeDirectory(directory.root()), absl::OkStatus());
  const auto refused = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(status.message()), path + " is no regular file; remove it; the coordinator makes a new one");
  };
  for (const auto& make : std::vector<std::function<int()>>{[&] { return ::mkfifo(path.c_str(), 0600); },
                                                            [&] { return ::mkdir(path.c_str(), 0700); },
                                                            [&] { return ::symlink("/dev/zero", path.c_str()); }}) {
    ASSERT_EQ(make(), 0);
    refused(LockForReading(directory).status());
    refused(LockDirectory(directory).status());
    ASSERT_EQ(std::remove(path.c_str()), 0);
  }
  EXPECT_TRUE(LockDirectory(directory).ok());
  std::filesystem::remove_all(directory.root());
}

}  // namespace
}  // namespace atl
