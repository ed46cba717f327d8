// SPDX-License-Identifier: Apache-2.0
// The audit log on disk, read by the audit, which knows only the format.
#include "coordinator/store/audit_log.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/forwarded_files.h"
#include "coordinator/audit/trail_checks.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {
namespace {

constexpr char kFirst[] = "/data/events/audit/0000000000.jsonl";
constexpr char kSecond[] = "/data/events/audit/0000000001.jsonl";

class AuditLogTest : public testing::Test {
 protected:
  AuditLogTest() { Reopen(); }
  void Reopen(uint64_t file_bytes = AuditLog::kFileBytes) {
    auto opened = AuditLog::Open(disk_, DataDirectory("/data"), file_bytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
  }
  absl::Status Tell(const std::string& what) {
    return log_->Append(std::vector<std::string>{"{\"call\":\"" + what + "\"}"});
  }
  std::string Text(const std::string& path) {
    const SimDisk::Content& content = disk_.At(path);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }
  audit::Report Check() {
    audit::Report report("verify", "/data");
    audit::CheckTrail(disk_, "/data", report);
    return report;
  }
  // Replaces the first `from` by `to`, of the same length.
  void Change(const std::string& path, const std::string& from, const std::string& to) {
    const size_t at = Text(path).find(from);
    ASSERT_NE(at, std::string::npos);
    for (size_t i = 0; i < to.size(); ++i) disk_.At(path)[at + i] = static_cast<std::byte>(to[i]);
  }

  SimDisk disk_;
  std::unique_ptr<AuditLog> log_;
};

// S32.
TEST_F(AuditLogTest, LinesAreChainedAcrossStartsAndPowerFailures) {
  EXPECT_TRUE(Check().ok());
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  ASSERT_EQ(log_->Append(std::vector<std::string>{R"({"call":"two"})", R"({"call":"three"})"}), absl::OkStatus());
  disk_.Crash();
  Reopen();
  ASSERT_EQ(Tell("four"), absl::OkStatus());
  const audit::Report report = Check();
  EXPECT_TRUE(report.ok()) << report.Text();
  EXPECT_EQ(report.count("audit lines"), 4u);
  const std::string zeros = "{\"previous\":\"" + std::string(64, '0') + "\",\"call\":\"one\"}";
  EXPECT_EQ(Text(kFirst).substr(0, zeros.size() + 1), zeros + "\n");
  const std::string after = "{\"previous\":\"" + Sha256Of(AsBytes(zeros)).Hex() + "\",\"call\":\"two\"}\n";
  EXPECT_EQ(Text(kFirst).substr(zeros.size() + 1, after.size()), after);
}

TEST_F(AuditLogTest, ALineThatIsChangedLeftOutOrPutInIsFound) {
  for (const char* what : {"one", "two", "six", "ten"}) ASSERT_EQ(Tell(what), absl::OkStatus());
  const SimDisk::Content whole = disk_.At(kFirst);
  Change(kFirst, "two", "owt");
  ASSERT_EQ(Check().damage().size(), 1u);
  EXPECT_EQ(Check().damage()[0].file, kFirst);
  EXPECT_EQ(Check().damage()[0].offset, 2 * (Text(kFirst).size() / 4)) << "the line behind it";

  disk_.At(kFirst) = whole;
  const auto size = static_cast<std::ptrdiff_t>(whole.size() / 4);
  disk_.At(kFirst).erase(disk_.At(kFirst).begin() + size, disk_.At(kFirst).begin() + 2 * size);
  EXPECT_EQ(Check().damage().size(), 1u);

  disk_.At(kFirst) = whole;
  disk_.At(kFirst).insert(disk_.At(kFirst).begin() + size, whole.begin(), whole.begin() + size);
  EXPECT_EQ(Check().damage().size(), 1u);
}

TEST_F(AuditLogTest, IncompleteLineIsCutOff) {
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  const size_t whole = Text(kFirst).size();
  for (const std::string& torn : {std::string("{\"previous\":\"00"), std::string(100, '\0')}) {
    for (const char c : torn) disk_.At(kFirst).push_back(static_cast<std::byte>(c));
    const audit::Report report = Check();
    EXPECT_TRUE(report.ok()) << report.Text();
    ASSERT_EQ(report.notes().size(), 1u);
    EXPECT_EQ(report.notes()[0].offset, whole);
    Reopen();
    EXPECT_EQ(Text(kFirst).size(), whole);
  }
  ASSERT_EQ(Tell("two"), absl::OkStatus());
  EXPECT_TRUE(Check().ok());
  EXPECT_EQ(Check().count("audit lines"), 2u);
}

// The end of a file is searched in pieces. Complete lines, and torn bytes after them, have every
// length around one and two pieces.
TEST_F(AuditLogTest, TheLastLineIsFoundWhereverItEnds) {
  constexpr size_t kPiece = 64 << 10;
  uint64_t lines = 0;
  for (const size_t line : {size_t{100}, kPiece, 2 * kPiece}) {
    for (const size_t torn : {size_t{0}, size_t{1}, size_t{50}, kPiece - 120, kPiece - 2, kPiece - 1, kPiece,
                              kPiece + 1, 2 * kPiece - 101}) {
      ASSERT_EQ(Tell(std::string(line - 91 - lines % 3, 'x')), absl::OkStatus());
      const size_t whole = Text(kFirst).size();
      const SimDisk::Content tail(torn, static_cast<std::byte>(torn % 2 == 0 ? '\0' : 'y'));
      disk_.At(kFirst).insert(disk_.At(kFirst).end(), tail.begin(), tail.end());
      Reopen();
      ASSERT_EQ(Text(kFirst).size(), whole) << "a line of " << line << " bytes and " << torn << " torn ones";
      ASSERT_EQ(Tell("next"), absl::OkStatus());
      lines += 2;
      const audit::Report report = Check();
      ASSERT_TRUE(report.ok()) << report.Text();
      ASSERT_EQ(report.count("audit lines"), lines);
    }
  }
}

TEST_F(AuditLogTest, FileWithoutACompleteLineIsEmptied) {
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  for (const size_t torn : {size_t{1}, size_t{64} << 10, size_t{200'000}}) {
    disk_.At(kFirst) = SimDisk::Content(torn, static_cast<std::byte>('y'));
    Reopen();
    EXPECT_EQ(Text(kFirst), "");
  }
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  EXPECT_TRUE(Check().ok()) << Check().Text();
}

// Files that count the bytes read.
class CountingFiles : public ForwardedFiles {
 public:
  explicit CountingFiles(Files& files) : ForwardedFiles({std::shared_ptr<Files>(), &files}) {}
  uint64_t read_bytes() const { return read_bytes_; }

  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override {
    auto file = inner().OpenForRead(path);
    if (!file.ok()) return file.status();
    return std::make_unique<Counted>(*std::move(file), read_bytes_);
  }

 private:
  class Counted : public File {
   public:
    Counted(std::unique_ptr<File> file, uint64_t& bytes) : file_(std::move(file)), bytes_(bytes) {}
    absl::Status Append(Bytes data) override { return file_->Append(data); }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      bytes_ += out.size();
      return file_->ReadAt(offset, out);
    }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    const std::unique_ptr<File> file_;
    uint64_t& bytes_;
  };

  mutable uint64_t read_bytes_ = 0;
};

TEST_F(AuditLogTest, AStartReadsOnlyTheEndOfALargeFile) {
  const std::vector<std::string> lines(100, "{\"call\":\"" + std::string(10'000, 'x') + "\"}");
  for (int i = 0; i < 10; ++i) ASSERT_EQ(log_->Append(lines), absl::OkStatus());
  ASSERT_GT(Text(kFirst).size(), size_t{9} << 20);
  CountingFiles counting(disk_);
  ASSERT_TRUE(AuditLog::Open(counting, DataDirectory("/data")).ok());
  EXPECT_LE(counting.read_bytes(), 128u << 10);
  EXPECT_GT(counting.read_bytes(), 0u);
}

TEST_F(AuditLogTest, TheNewestFilesAreKeptAndAMissingOneIsFound) {
  Reopen(/*file_bytes=*/1);  // a file for each line
  for (int i = 0; i < 12; ++i) ASSERT_EQ(Tell(std::to_string(i)), absl::OkStatus());
  EXPECT_EQ(disk_.Paths().size(), AuditLog::kKeptFiles);
  EXPECT_TRUE(Check().ok()) << Check().Text();
  EXPECT_EQ(Check().count("audit lines"), AuditLog::kKeptFiles);
  Reopen(1);
  ASSERT_EQ(Tell("again"), absl::OkStatus());
  EXPECT_TRUE(Check().ok()) << Check().Text();
  ASSERT_EQ(disk_.Remove("/data/events/audit/0000000005.jsonl"), absl::OkStatus());
  EXPECT_FALSE(Check().ok()) << "the oldest of eight is gone";
}

TEST_F(AuditLogTest, LinesLostToAFullDiskAreCounted) {
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  disk_.FailAt(0, SimDisk::Fault::kFull);
  EXPECT_EQ(Tell("lost").code(), absl::StatusCode::kResourceExhausted);
  disk_.FailAt(0, SimDisk::Fault::kShortWrite);
  EXPECT_FALSE(Tell("lost").ok());
  log_->Lose(5);
  ASSERT_EQ(Tell("two"), absl::OkStatus());
  EXPECT_NE(Text(kFirst).find(R"(","lost":"7","call":"two"})"), std::string::npos) << Text(kFirst);
  EXPECT_TRUE(Check().ok()) << Check().Text();
  EXPECT_EQ(Check().count("audit lines"), 2u);
}

TEST_F(AuditLogTest, AfterAFailedFlushANewFileIsBegun) {
  ASSERT_EQ(Tell("one"), absl::OkStatus());
  disk_.FailAt(1, SimDisk::Fault::kFails);  // after the append
  EXPECT_FALSE(Tell("two").ok());
  ASSERT_EQ(Tell("three"), absl::OkStatus());
  EXPECT_NE(Text(kSecond).find("three"), std::string::npos);
  EXPECT_TRUE(Check().ok()) << Check().Text();
  EXPECT_EQ(Check().count("audit lines"), 3u);
}

}  // namespace
}  // namespace atl
