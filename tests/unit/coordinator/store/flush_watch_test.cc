// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/flush_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/forwarded_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_ledger.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A disk with flushes controlled by the test.
class DiskThatHangs final : public ForwardedFiles {
 public:
  explicit DiskThatHangs(std::function<void()> hang)
      : ForwardedFiles(std::make_shared<SimDisk>()), hang_(std::move(hang)) {
    (void)MakeDirectory("state");
  }

  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    ATOLL_ASSIGN_OR_RETURN(auto file, inner().OpenForAppend(path));
    return std::make_unique<Hanging>(std::move(file), hang_);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    hang_();
    return inner().SyncDirectory(path);
  }

 private:
  class Hanging final : public File {
   public:
    Hanging(std::unique_ptr<File> file, const std::function<void()>& hang) : file_(std::move(file)), hang_(hang) {}
    absl::Status Append(Bytes data) override { return file_->Append(data); }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override { return file_->ReadAt(offset, out); }
    absl::Status Sync() override {
      hang_();
      return file_->Sync();
    }
    absl::Status Truncate(uint64_t size) override { return file_->Truncate(size); }
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }

   private:
    const std::unique_ptr<File> file_;
    const std::function<void()>& hang_;
  };

  const std::function<void()> hang_;
};

class FlushWatchTest : public testing::Test {
 protected:
  // The value of `field` in each line with this event.
  std::vector<std::string> Told(const std::string& event, const std::string& field) const {
    std::vector<std::string> told;
    for (const LogLine& line : log_.Recent(1000)) {
      if (line.event != event) continue;
      for (const LogField& f : line.fields) {
        if (f.key == field) told.push_back(f.value);
      }
    }
    return told;
  }
  size_t Lines() const { return log_.Recent(1000).size(); }
  void Takes(uint64_t bytes, Duration time) {
    const FlushWatch::Flush flush(watch_, FlushKind::kSync, "x", bytes);
    clock_.Advance(time);
  }
  // Lets time pass for the watching thread during a flush.
  void Pass(Duration time) {
    for (const Instant end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(FlushWatch::kLookEvery);
      watch_.Look();
    }
  }

  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  FlushWatch watch_{clock_, log_};
};

TEST_F(FlushWatchTest, HangingFlushIsLoggedThenEveryMinuteAndAtItsEnd) {
  Duration seen{};
  const auto files = WithFlushWatch(std::make_unique<DiskThatHangs>([&] {
                                      Pass(Seconds(9));
                                      EXPECT_EQ(Lines(), 0u);
                                      Pass(Seconds(130));
                                      seen = watch_.Oldest();
                                    }),
                                    watch_);
  const auto file = files->OpenForAppend("state/round.seg");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(AsBytes(std::string("twelve bytes"))).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(seen, Seconds(139));
  EXPECT_EQ(watch_.Oldest(), Duration{});
  EXPECT_EQ(Told("flush takes long", "file"), (std::vector<std::string>(3, "state/round.seg")));
  EXPECT_EQ(Told("flush takes long", "bytes"), (std::vector<std::string>(3, "12")));
  EXPECT_EQ(Told("flush takes long", "for"), (std::vector<std::string>{"11 s", "71 s", "131 s"}));
  EXPECT_EQ(Told("flush ended", "took"), (std::vector<std::string>{"139 s"}));
}

TEST_F(FlushWatchTest, FlushInTimeIsNotLogged) {
  const FlushWatch::Flush flush(watch_, FlushKind::kSync, "a", 0);
  Pass(FlushWatch::kFloor - FlushWatch::kLookEvery);
  EXPECT_EQ(Lines(), 0u);
}

TEST_F(FlushWatchTest, LargeFlushGetsTimeByTheMeasuredRate) {
  for (int i = 0; i < 5; ++i) Takes(100 * kMiB, Seconds(10));  // 10 MiB/s
  Takes(100 * kMiB, Seconds(1000));                            // a stalled flush does not change the estimate
  {
    const FlushWatch::Flush flush(watch_, FlushKind::kSync, "large", 1000 * kMiB);
    Pass(Seconds(209));
    EXPECT_EQ(Lines(), 0u) << "twice 100 s, and 10 s";
    Pass(Seconds(2));
    EXPECT_EQ(Told("flush takes long", "usually"), (std::vector<std::string>{"100 s"}));
  }
  EXPECT_EQ(Told("flush takes long", "why")[0],
            "210 s is too long for a flush that took 100 s at the speed of the newest flushes; its callers are "
            "blocked: check "
            "the disk");
}

TEST_F(FlushWatchTest, UnmeasuredRateIsAssumedAndLogged) {
  const FlushWatch::Flush flush(watch_, FlushKind::kWholeFile, "snapshot", 100'000'000);
  Pass(Seconds(29));
  EXPECT_EQ(Lines(), 0u);
  Pass(Seconds(2));
  EXPECT_EQ(Told("flush takes long", "why")[0],
            "30 s is too long for a flush that took 10 s at the speed of the newest flushes (no rate was measured yet: "
            "10 MB/s); "
            "its callers are blocked: check the disk");
}

TEST_F(FlushWatchTest, ADiskThatIsSlowForGoodIsUsual) {
  for (size_t i = 0; i < FlushWatch::kRemembered; ++i) Takes(0, Milliseconds(1));
  for (size_t i = 0; i < FlushWatch::kRemembered; ++i) Takes(0, Seconds(8));
  const FlushWatch::Flush flush(watch_, FlushKind::kSync, "a", 0);
  Pass(Seconds(25));
  EXPECT_EQ(Lines(), 0u);
  Pass(Seconds(2));
  EXPECT_EQ(Told("flush takes long", "usually"), (std::vector<std::string>{"8 s"}));
}

TEST_F(FlushWatchTest, DirectoriesAndTheLedgerAreWatchedToo) {
  const auto files = WithFlushWatch(std::make_unique<DiskThatHangs>([this] { Pass(Seconds(11)); }), watch_);
  EXPECT_TRUE(files->SyncDirectory("state").ok());
  MemoryLedgerDisk disk;
  const auto ledger = WithFlushWatch(MakeMemoryLedger(disk,
                                                      [this] {
                                                        Pass(Seconds(11));
                                                        return absl::OkStatus();
                                                      }),
                                     "state/ledger.sqlite", watch_);
  ASSERT_TRUE(ledger->Recover().ok());
  EXPECT_TRUE(ledger->Commit({}).ok());
  EXPECT_EQ(Told("flush takes long", "file"), (std::vector<std::string>{"state", "state/ledger.sqlite"}));
  EXPECT_EQ(Told("flush ended", "file"), (std::vector<std::string>{"state", "state/ledger.sqlite"}));
}

}  // namespace
}  // namespace atl
