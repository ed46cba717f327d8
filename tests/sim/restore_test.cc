// SPDX-License-Identifier: Apache-2.0
// The state is restored from a backup older than the workers' state. Workers start over from the
// backup, and nothing of the lost history is merged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/plan/boot_lines.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/state_paths.h"
#include "tests/sim/state_on_disk.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

JobSpec JobToRestore() {
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 4;
  spec.sync.overlap_steps = 1;
  spec.sync.mix = 0.5;
  spec.sync.upload_codec = CodecKind::kBf16;
  spec.sync.upload_error_memory = ErrorMemory::kFeedback;
  spec.stop.inner_steps = 120;
  spec.checkpoint = {.every_rounds = 2, .keep_last = 2, .keep_every = 0, .keep_contributions = true};
  return spec;
}

// Does what `atoll-coordinator backup` and `restore` do, on the disk of a harness. The coordinator
// must not run.
class Backup {
 public:
  explicit Backup(Harness& h) : ledger_(h.ledger_disk()) {
    for (const std::string& path : h.files().Paths()) content_[path] = h.files().Content(path);
    audit::Report report("verify", "/state");
    const auto state = audit::ListState(h.files(), "/state", report);
    for (const auto& [job, files] : state->jobs) {
      for (const auto& [key, path] : files.segments) {
        const auto segment = audit::ReadSegment(h.files(), path, job, report);
        for (const auto& [worker, c] : segment->accepted) accepted_.insert(c.record.header.digest);
      }
    }
  }

  void Restore(Harness& h, int64_t wall_s) const {
    for (const std::string& path : h.files().Paths()) {
      if (content_.contains(path)) continue;
      ASSERT_TRUE(h.files().Remove(path).ok() && h.files().SyncDirectory(DirectoryOf(path)).ok());
    }
    for (const auto& [path, content] : content_) h.files().SetContent(path, content);
    h.ledger_disk() = ledger_;
    h.ledger_disk().boot = NextLine(BootNumber{ledger_.boot}, wall_s).value;
  }

  // True if the backup holds the contribution.
  bool Holds(const Digest& digest) const { return accepted_.contains(digest); }
  size_t transactions() const { return ledger_.transactions.size(); }
  // The first incarnation that the ledger has not yet assigned.
  uint64_t next_incarnation() const {
    uint64_t next = 0;
    for (const auto& transaction : ledger_.transactions) {
      for (const LedgerRecord& record : transaction) {
        if (const auto* counters = std::get_if<CountersRecord>(&record)) next = counters->next_incarnation;
      }
    }
    return next;
  }

 private:
  const MemoryLedgerDisk ledger_;
  std::map<std::string, std::vector<std::byte>> content_;
  std::set<Digest> accepted_;
};

// Contributions committed after the restore come from incarnations of the restored coordinator, or
// are in the backup.
void ExpectNothingOfTheLostHistory(Harness& h, const Backup& backup) {
  int rounds = 0;
  const auto& transactions = h.ledger_disk().transactions;
  for (size_t i = backup.transactions(); i < transactions.size(); ++i) {
    for (const LedgerRecord& record : transactions[i]) {
      const auto* const round = std::get_if<RoundRecord>(&record);
      if (round == nullptr) continue;
      ++rounds;
      for (const CommittedContribution& c : round->contributions) {
        EXPECT_TRUE(c.header.incarnation.value >= backup.next_incarnation() || backup.Holds(c.header.digest))
            << "version " << round->reached.version.value << " of fragment " << round->reached.fragment.value
            << " holds work of incarnation " << c.header.incarnation.value << " of worker " << c.header.worker.value;
      }
    }
  }
  EXPECT_GT(rounds, 0);
}

void ExpectAuditsAreWell(Harness& h) {
  h.KillCoordinator();
  const StateOnDisk state(h);
  const audit::Report verify = state.Verify();
  EXPECT_TRUE(verify.ok()) << verify.Text();
  const audit::Report replay = state.Replay();
  EXPECT_TRUE(replay.ok()) << replay.Text();
  EXPECT_EQ(replay.count("rounds equal"), replay.count("rounds in the ledger")) << replay.Text();
}

// The coordinator runs for `longer` after the backup; then its disk is lost.
void LoseAndRestore(uint64_t seed, Duration longer, bool worker_more) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << longer.ns / 1'000'000 << " ms between backup and loss");
  Harness h(seed);
  StoreManifest(h);
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(JobToRestore()).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; }));
  h.KillCoordinator();
  const Backup backup(h);
  h.StartCoordinator();
  if (worker_more) h.StartWorker("c");
  h.RunFor(longer);
  ASSERT_FALSE(h.Ended(kJob)) << "too late to lose anything";
  h.KillCoordinator();
  ASSERT_NO_FATAL_FAILURE(backup.Restore(h, 1'700'000'000));
  h.StartCoordinator();
  EXPECT_GT(h.session("a")->core().boot().value, 0u);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  EXPECT_EQ(LineOf(h.session("a")->core().boot()), 1'700'000'000u);
  const BalanceView balance = h.View(kJob)->balance;
  EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
  EXPECT_LT(h.View(kJob)->evaluations.back().nll_micro_nats, h.View(kJob)->evaluations.front().nll_micro_nats / 2);
  ExpectNothingOfTheLostHistory(h, backup);
  ExpectAuditsAreWell(h);
}

// S19.
TEST(RestoredState, WorkersAheadOfItStartOverAndNothingOfTheLostHistoryIsMerged) {
  for (uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) {
    LoseAndRestore(seed, Milliseconds(250 * static_cast<int64_t>(seed - 1)), seed % 3 == 0);
  }
}

// Two restores from one backup, as when the first replacement machine is lost as well.
TEST(RestoredState, ASecondRestoreIsFollowedAndTheFirstOneIsNot) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 1; }));
  h.KillCoordinator();
  const Backup backup(h);
  for (const int64_t wall_s : {1'700'000'000, 1'700'000'060}) {
    ASSERT_NO_FATAL_FAILURE(backup.Restore(h, wall_s));
    h.StartCoordinator();
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(LineOf(h.session("a")->core().boot()), static_cast<uint64_t>(wall_s));
    h.KillCoordinator();
  }
  ASSERT_NO_FATAL_FAILURE(backup.Restore(h, 1'700'000'000));
  h.StartCoordinator();
  h.RunFor(Seconds(10));
  EXPECT_LE(h.VersionOf(kJob).value, 1u) << "workers follow a state that they know to be the older one";
  EXPECT_EQ(LineOf(h.session("a")->core().boot()), 1'700'000'060u);
}

}  // namespace
}  // namespace atl
