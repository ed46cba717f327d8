// SPDX-License-Identifier: Apache-2.0
// A state is copied while it is being written: the copy is a state that a kill at one instant would
// have left.
#include "coordinator/backup/cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stop_token>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/backup/copy.h"
#include "coordinator/backup/room.h"
#include "coordinator/store/disk_budget.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl::backup {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kMostOpen = 100;

class CutTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / "atoll-cut-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    fs::create_directories(At("state"));
    auto ledger = OpenSqliteLedger(At("state/ledger.sqlite"));
    ASSERT_TRUE(ledger.ok() && (*ledger)->Recover().ok());
    ledger_ = *std::move(ledger);
  }
  void TearDown() override {
    ledger_.reset();
    fs::remove_all(root_);
  }

  std::string At(const std::string& name) const { return root_ + "/" + name; }
  void Append(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(At(name)).parent_path());
    std::ofstream(At(name), std::ios::binary | std::ios::app) << content;
  }
  std::string Get(const std::string& name) const {
    std::ifstream file(At(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  absl::StatusOr<Cut> Take(size_t most_open = kMostOpen) {
    fs::create_directories(At("copy"));
    return TakeCut(*files_, At("state"), At("copy"), most_open);
  }
  absl::Status Copy(Cut& cut) {
    manifest_ = {};
    const auto room = Room::Find(*files_, At("state"), root_);
    return room.ok() ? CopyCut(*files_, cut, At("state"), At("copy"), *room, manifest_) : room.status();
  }
  CountersRecord CopiedCounters() {
    audit::Report report("verify", At("copy"));
    const auto image = audit::ReadLedger(*files_, At("copy/ledger.sqlite"), report);
    EXPECT_TRUE(image.ok() && report.ok()) << image.status() << report.Text();
    return image.ok() && *image ? (*image)->counters : CountersRecord{};
  }

  std::string root_;
  const std::unique_ptr<Files> files_ = MakePosixFiles();
  std::unique_ptr<Ledger> ledger_;
  Manifest manifest_;
};

std::string Segment(uint64_t round) { return absl::StrFormat("jobs/j/rounds/e0/f0/v%010d.seg", round); }
std::string Snapshot(uint64_t round) { return absl::StrFormat("jobs/j/snapshots/e0/f0/v%010d.snap", round); }

// Does the work of a coordinator round after round, in its order: grants a lease, accepts a
// contribution that refers to it, writes a snapshot, commits the round, logs a line, begins the
// next segment, deletes older files. Among the ledger's counters `next_lease` is the newest lease
// and `next_incarnation` the newest round; both begin with 1.
class Writer {
 public:
  Writer(const std::string& root, Ledger& ledger) : root_(root), ledger_(ledger) {
    Append(Segment(1), "accepted");
    Append(Snapshot(1), "parameters");
    Append("events/j.jsonl", "line\n");
    Append(Segment(2), "");
  }

  void Run(const std::stop_token& stop) {
    while (WaitForTurn(stop)) PlayRound(++played_);
  }
  // Allows this number of further rounds, so that on a slow disk the writer does not run away from
  // the copy.
  void MayPlay(uint64_t rounds) {
    const std::lock_guard lock(mutex_);
    allowed_ = played_ + rounds;
    turn_.notify_one();
  }

 private:
  bool WaitForTurn(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return turn_.wait(lock, stop, [this] { return played_ < allowed_; });
  }
  void PlayRound(uint64_t round) {
    Commit({round, round - 1, 1});
    Append(Segment(round), "accepted");
    Append(Snapshot(round) + ".tmp", "parameters");
    fs::rename(root_ + Snapshot(round) + ".tmp", root_ + Snapshot(round));
    Commit({round, round, 1});
    Append("events/j.jsonl", "line\n");
    Append(Segment(round + 1), "");
    if (round <= kKept) return;
    fs::remove(root_ + Snapshot(round - kKept));
    fs::remove(root_ + Segment(round - kKept));
  }
  // Large rows, so that SQLite restarts its log every few rounds.
  void Commit(const CountersRecord& counters) {
    TokenRecord token;
    token.id = absl::StrCat("t", counters.next_lease % 4);
    token.name = std::string(200'000, 'n');
    ATOLL_CHECK(ledger_.PutToken(token).ok(), "the ledger takes what is written to it");
    ATOLL_CHECK(ledger_.Commit({counters}).ok(), "the ledger takes what is written to it");
  }
  void Append(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(root_ + name).parent_path());
    std::ofstream(root_ + name, std::ios::binary | std::ios::app) << content << std::flush;
  }

  static constexpr uint64_t kKept = 3;
  const std::string root_;
  Ledger& ledger_;
  std::mutex mutex_;
  std::condition_variable_any turn_;
  std::atomic<uint64_t> played_ = 1, allowed_ = 1;
};

TEST_F(CutTest, HoldsAllThatTheLedgerKnowsAndNothingNewer) {
  Writer coordinator(At("state/"), *ledger_);
  std::jthread thread([&coordinator](const std::stop_token& stop) { coordinator.Run(stop); });
  uint64_t first = 0, last = 0;
  for (int i = 0; i < 25 || last < first + 12; ++i) {
    fs::remove_all(At("copy"));
    coordinator.MayPlay(30);  // SQLite restarts its log about three times
    auto cut = Take();
    ASSERT_TRUE(cut.ok()) << cut.status();
    ASSERT_TRUE(Copy(*cut).ok());
    const CountersRecord counters = CopiedCounters();
    const uint64_t leases = counters.next_lease, rounds = counters.next_incarnation;
    for (uint64_t round = rounds > 2 ? rounds - 2 : 1; round <= rounds; ++round) {
      ASSERT_EQ(Get("copy/" + Segment(round)), "accepted") << round << " of " << rounds;
      ASSERT_EQ(Get("copy/" + Snapshot(round)), "parameters") << round << " of " << rounds;
    }
    for (uint64_t round = leases + 1; round < leases + 3; ++round) {
      ASSERT_EQ(Get("copy/" + Segment(round)), "") << "a contribution of a lease that the ledger does not know";
      ASSERT_FALSE(fs::exists(At("copy/" + Snapshot(round))));
    }
    const uint64_t lines = Get("copy/events/j.jsonl").size() / 5;
    ASSERT_TRUE(lines == rounds || lines + 1 == rounds) << lines << " lines and " << rounds << " rounds";
    first = i == 0 ? rounds : first;
    last = rounds;
  }
}

TEST_F(CutTest, ChangesAfterTheCutAreNotCopied) {
  Append("state/" + Segment(1), "before");
  Append("state/" + Snapshot(1), "parameters");
  Append("state/events/_fleet.jsonl", "{}\n");
  auto cut = Take();
  ASSERT_TRUE(cut.ok()) << cut.status();
  Append("state/" + Segment(1), " and after");
  Append("state/" + Segment(2), "after");
  fs::remove(At("state/" + Snapshot(1)));
  fs::rename(At("state/events/_fleet.jsonl"), At("state/events/_fleet.1.jsonl"));
  ASSERT_TRUE(Copy(*cut).ok());
  EXPECT_EQ(Get("copy/" + Segment(1)), "before");
  EXPECT_EQ(Get("copy/" + Snapshot(1)), "parameters");
  EXPECT_EQ(Get("copy/events/_fleet.jsonl"), "{}\n");
  EXPECT_FALSE(fs::exists(At("copy/" + Segment(2))));
  EXPECT_EQ(manifest_.files.at(Segment(1)), Sha256Of(AsBytes(std::string("before"))));
  EXPECT_EQ(manifest_.files.size(), 5u) << "with the ledger and its log";
}

TEST_F(CutTest, MoreFilesThanMayBeOpenAreCopiedUnlessOneIsDropped) {
  Append("state/" + Snapshot(1), "one");
  Append("state/" + Snapshot(2), "two");
  auto cut = Take(/*most_open=*/1);
  ASSERT_TRUE(cut.ok() && Copy(*cut).ok());
  EXPECT_EQ(Get("copy/" + Snapshot(2)), "two");
  cut = Take(1);
  ASSERT_TRUE(cut.ok());
  fs::remove(At("state/" + Snapshot(2)));
  const absl::Status dropped = Copy(*cut);
  EXPECT_EQ(dropped.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(dropped.message()), HasSubstr("raise the limit"));
}

TEST_F(CutTest, AStartOrAFileCutOffMeanwhileAsksForAnotherCut) {
  Append("state/LOCK", "123");
  Append("state/" + Segment(1), "torn");
  Append("state/" + Snapshot(1), "parameters");
  auto cut = Take();
  ASSERT_TRUE(cut.ok());
  fs::resize_file(At("state/" + Segment(1)), 2);  // as after a failed append is undone
  EXPECT_EQ(Copy(*cut).code(), absl::StatusCode::kAborted);
  cut = Take();
  ASSERT_TRUE(cut.ok());
  fs::resize_file(At("state/LOCK"), 0);
  Append("state/LOCK", "124");
  EXPECT_EQ(Copy(*cut).code(), absl::StatusCode::kAborted);
  cut = Take();
  ASSERT_TRUE(cut.ok());
  EXPECT_TRUE(Copy(*cut).ok());
}

TEST_F(CutTest, FilesOfOneContentAreOneFileAndCountOnce) {
  const std::string linked = "jobs/j/checkpoints/1/f00000.snap", equal = "jobs/j/checkpoints/2/f00000.snap";
  Append("state/" + Snapshot(1), "parameters");
  for (const std::string& name : {linked, equal}) fs::create_directories(fs::path(At("state/" + name)).parent_path());
  fs::create_hard_link(At("state/" + Snapshot(1)), At("state/" + linked));
  Append("state/" + equal, "parameters");
  auto cut = Take();
  ASSERT_TRUE(cut.ok() && Copy(*cut).ok());
  for (const std::string& name : {linked, equal}) {
    EXPECT_EQ(Get("copy/" + name), "parameters");
    EXPECT_TRUE(fs::equivalent(At("copy/" + Snapshot(1)), At("copy/" + name)));
  }
  EXPECT_EQ(manifest_.files.size(), 5u);
  EXPECT_EQ(manifest_.bytes,
            fs::file_size(At("copy/ledger.sqlite")) + fs::file_size(At("copy/ledger.sqlite-wal")) + 10);
  const auto bytes = StateBytes(At("state"));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, manifest_.bytes + 10) << "the state has them as two files";
}

TEST_F(CutTest, ExistingCopiesAreKept) {
  Append("state/" + Snapshot(1), "parameters");
  Append("state/" + Segment(1), "grown");
  Append("copy/" + Snapshot(1), "parameters");
  Append("copy/" + Segment(1), "gr");
  Append("copy/" + Segment(7), "of an earlier try");
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(At("copy/" + Snapshot(1)).c_str(), &before), 0);
  auto cut = Take();
  ASSERT_TRUE(cut.ok() && Copy(*cut).ok() && RemoveStrays(*files_, manifest_, At("copy")).ok());
  ASSERT_EQ(::stat(At("copy/" + Snapshot(1)).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "it was written again";
  EXPECT_EQ(Get("copy/" + Segment(1)), "grown");
  EXPECT_FALSE(fs::exists(At("copy/" + Segment(7))));
}

TEST_F(CutTest, ACopyDoesNotTakeTheCoordinatorsRoom) {
  Append("state/blobs/aa/x", std::string(60'000, 'x'));
  const auto used = DiskUseBelow(At("state"));
  ASSERT_TRUE(used.ok());
  const auto with_free = [&](uint64_t percent) {
    return WithDiskBudget(MakePosixFiles(), At("state"), *used * 100 / (100 - percent));
  };
  const std::unique_ptr<Files> half = with_free(50);
  const auto room = Room::Find(*half, At("state"), root_);
  ASSERT_TRUE(room.ok());
  ASSERT_TRUE(room->shared());
  EXPECT_TRUE(room->Allows(*used / 2).ok());
  EXPECT_EQ(room->Allows(*used * 9 / 10).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(room->Fits(*used * 9 / 10).message()), HasSubstr("use another disk"));
  EXPECT_EQ(room->Holds(*used * 2).code(), absl::StatusCode::kResourceExhausted);

  // On another disk: only its own data counts, not how full the first disk is.
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no second disk here";
  const std::unique_ptr<Files> little = with_free(11);
  const auto elsewhere = Room::Find(*little, At("state"), "/dev/shm");
  ASSERT_TRUE(elsewhere.ok());
  if (elsewhere->shared()) GTEST_SKIP() << "no second disk here";
  EXPECT_TRUE(elsewhere->Allows(1 << 20).ok());
  const auto before = Room::Find(*half, At("state"), "/dev/shm");
  ASSERT_TRUE(before.ok());
  Append("state/blobs/aa/y", std::string(*used * 9 / 10, 'y'));
  EXPECT_THAT(std::string(before->Allows(0).message()), HasSubstr("that the coordinator has dropped"));
}

}  // namespace
}  // namespace atl::backup
