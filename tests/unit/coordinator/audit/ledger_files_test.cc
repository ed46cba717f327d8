// SPDX-License-Identifier: Apache-2.0
// The ledger's files: the write-ahead log as SQLite leaves it after a kill, and flipped bits in it
// and in the database.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/wal.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl::audit {
namespace {

class LedgerFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = (std::filesystem::temp_directory_path() / "atoll-ledger-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    const std::string open = directory_ + "/open.sqlite";
    auto ledger = OpenSqliteLedger(open);
    ASSERT_TRUE(ledger.ok() && (*ledger)->Recover().ok());
    for (uint64_t n = 1; n <= kCommits; ++n) ASSERT_TRUE((*ledger)->Commit({CountersRecord{n, n, n}}).ok());
    // Copied while open, which gives the files that a kill would leave.
    std::filesystem::copy_file(open, path_ = directory_ + "/ledger.sqlite");
    std::filesystem::copy_file(open + "-wal", path_ + "-wal");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static void Flip(const std::string& path, uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  WalCheck Check() const {
    const auto wal = files_->OpenForRead(path_ + "-wal");
    EXPECT_TRUE(wal.ok());
    const auto check = CheckWal(**wal);
    EXPECT_TRUE(check.ok());
    return check.value_or(WalCheck{});
  }
  std::optional<LedgerImage> Read(Report& report) const {
    auto image = ReadLedger(*files_, path_, report);
    EXPECT_TRUE(image.ok()) << image.status();
    return image.ok() ? *image : std::nullopt;
  }

  static constexpr uint64_t kCommits = 6, kFrame = 24 + 4096;
  std::string directory_, path_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(LedgerFiles, AWholeLogIsWellAndIsRead) {
  EXPECT_GE(Check().frames, kCommits);
  EXPECT_FALSE(Check().broken.has_value());
  Report report("verify", directory_);
  const auto image = Read(report);
  EXPECT_TRUE(report.ok()) << report.Text();
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->boot.value, 1u);
  EXPECT_EQ(image->counters.next_lease, kCommits);
}

// In all transactions but the last, since damage in the last looks like a write that was never
// flushed.
TEST_F(LedgerFiles, AFlippedBitInADurableFrameIsFoundWithItsOffset) {
  const uint64_t frames = Check().frames;
  ASSERT_EQ(std::filesystem::file_size(path_ + "-wal"), 32 + frames * kFrame);
  for (uint64_t frame = 0; frame + 1 < frames; ++frame) {
    for (const uint64_t in_frame : {uint64_t{0}, uint64_t{17}, uint64_t{24}, uint64_t{2000}, kFrame - 1}) {
      const uint64_t at = 32 + frame * kFrame + in_frame;
      Flip(path_ + "-wal", at);
      const WalCheck check = Check();
      // Only an intact checksum shows that the last frame but one is durable.
      if (frame + 2 < frames || in_frame >= 24) {
        ASSERT_TRUE(check.broken.has_value()) << "frame " << frame << " byte " << in_frame;
        EXPECT_EQ(*check.broken, 32 + frame * kFrame);
      }
      Flip(path_ + "-wal", at);
    }
  }
  EXPECT_FALSE(Check().broken.has_value());
}

TEST_F(LedgerFiles, AFlippedBitInTheHeaderOfTheLogIsFound) {
  for (uint64_t at = 0; at < 32; ++at) {
    Flip(path_ + "-wal", at);
    EXPECT_TRUE(Check().broken.has_value()) << at;
    Report report("verify", directory_);
    (void)Read(report);
    EXPECT_FALSE(report.ok()) << at;
    Flip(path_ + "-wal", at);
  }
}

TEST_F(LedgerFiles, ATornTailOfTheLogIsWell) {
  const uint64_t bytes = std::filesystem::file_size(path_ + "-wal");
  for (const uint64_t cut : {uint64_t{1}, uint64_t{4096}, kFrame, kFrame + 1}) {
    std::filesystem::resize_file(path_ + "-wal", bytes - cut);
    EXPECT_FALSE(Check().broken.has_value()) << cut;
  }
  std::filesystem::resize_file(path_ + "-wal", 0);
  EXPECT_FALSE(Check().broken.has_value());
}

class LogPrefix : public LedgerFiles {
 protected:
  std::string Whole() const {
    std::ifstream file(path_ + "-wal", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void Write(const std::string& bytes) const { std::ofstream(path_ + "-wal", std::ios::binary) << bytes; }
  // The end of the last commit within the first `bytes` bytes of `log`, from the frames' flags
  // alone.
  static uint64_t LastCommit(const std::string& log, uint64_t bytes) {
    uint64_t last = 0;
    for (uint64_t at = 32; at + kFrame <= bytes; at += kFrame) {
      if (log.compare(at + 4, 4, std::string(4, '\0')) != 0) last = at + kFrame;
    }
    return last;
  }
  void Extend(WalPrefix& prefix) const {
    const auto wal = files_->OpenForRead(path_ + "-wal");
    ASSERT_TRUE(wal.ok() && prefix.Extend(**wal).ok());
  }
};

TEST_F(LogPrefix, ALogThatIsWrittenEndsWithItsLastCommit) {
  const std::string whole = Whole();
  WalPrefix going_on;
  uint64_t commits = 0;
  for (uint64_t frame_end = 32; frame_end <= whole.size(); frame_end += kFrame) {
    for (const uint64_t bytes : {frame_end - 1, frame_end, frame_end + 1, frame_end + 24, frame_end + 4000}) {
      Write(whole.substr(0, bytes));
      WalPrefix fresh;
      for (WalPrefix* prefix : {&fresh, &going_on}) {
        Extend(*prefix);
        EXPECT_EQ(prefix->bytes(), whole.substr(0, LastCommit(whole, std::min<uint64_t>(bytes, whole.size()))));
        EXPECT_EQ(prefix->generation(), bytes < 32 ? "" : whole.substr(0, 32));
      }
    }
    commits += LastCommit(whole, frame_end) == frame_end ? 1 : 0;
  }
  EXPECT_GE(commits, kCommits);
}

TEST_F(LogPrefix, AFrameThatIsBeingWrittenIsReadOnceItIsWhole) {
  const std::string whole = Whole();
  const uint64_t last = LastCommit(whole, whole.size() - 1);
  for (const uint64_t at : {last, last + 9, last + 23, last + 24, last + 4000}) {
    Flip(path_ + "-wal", at);
    WalPrefix prefix;
    Extend(prefix);
    EXPECT_EQ(prefix.bytes(), whole.substr(0, last)) << at;
    Flip(path_ + "-wal", at);
    Extend(prefix);
    EXPECT_EQ(prefix.bytes(), whole) << at;
  }
}

TEST_F(LogPrefix, ALogThatWasBegunAnewIsReadFromItsStart) {
  const std::string earlier = Whole();
  { ASSERT_TRUE(OpenSqliteLedger(path_).ok()); }  // folds the log into the database
  const auto ledger = OpenSqliteLedger(path_);
  ASSERT_TRUE(ledger.ok() && (*ledger)->Commit({CountersRecord{99, 99, 99}}).ok());
  const std::string later = Whole();
  // SQLite started again at the head of the same file: frames of the earlier log follow.
  Write(earlier);
  WalPrefix prefix;
  Extend(prefix);
  EXPECT_EQ(prefix.bytes(), earlier);
  Write(later + earlier.substr(later.size()));
  Extend(prefix);
  EXPECT_EQ(prefix.bytes(), later);
  Write(earlier);
  Flip(path_ + "-wal", 31);  // a header that is being written; SQLite draws its salt, so only a flip is sure to differ
  Extend(prefix);
  EXPECT_EQ(prefix.bytes() + prefix.generation(), "");
}

TEST_F(LedgerFiles, ADatabaseThatSqliteCannotReadIsDamage) {
  { ASSERT_TRUE(OpenSqliteLedger(path_).ok()); }  // folds the log into the database
  for (const uint64_t at : {uint64_t{0}, uint64_t{100}, uint64_t{103}, uint64_t{4096}}) {
    Flip(path_, at);
    Report report("verify", directory_);
    (void)Read(report);
    EXPECT_FALSE(report.ok()) << at;
    Flip(path_, at);
  }
  Flip(path_, 70);  // application_id
  Report report("verify", directory_);
  EXPECT_EQ(ReadLedger(*files_, path_, report).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Row checksums reveal changes that SQLite does not notice.
TEST_F(LedgerFiles, AChangedRowIsDamageWithItsTable) {
  { ASSERT_TRUE(OpenSqliteLedger(path_).ok()); }
  const uint64_t bytes = std::filesystem::file_size(path_);
  std::ifstream file(path_, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&] {
    Report report("verify", directory_);
    const auto image = Read(report);
    return std::pair(report.ok(), image ? image->counters.next_lease : 0);
  };
  ASSERT_EQ(read(), std::pair(true, kCommits));
  size_t noticed = 0;
  // The page of `meta` is the second one; its only row is at the page's end.
  for (uint64_t at = 2 * 4096 - 24; at < std::min<uint64_t>(bytes, 2 * 4096); ++at) {
    Flip(path_, at);
    const auto [whole, next_lease] = read();
    EXPECT_EQ(next_lease, whole ? kCommits : 0) << at << ": nothing is read of a ledger with such a row";
    noticed += whole ? 0 : 1;
    Flip(path_, at);
  }
  EXPECT_GE(noticed, 16u);
}

}  // namespace
}  // namespace atl::audit
