// SPDX-License-Identifier: Apache-2.0
// verify, replay and a start on a state in which the newest committed round lacks its update, and
// updates of deleted rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/segment_format.h"
#include "tests/sim/audited_runs.h"

namespace atl {
namespace {

constexpr const char* kJob = kAuditedJob;

// The offset of the update record, the last record of a committed round; empty while it is missing.
std::optional<size_t> UpdateBeginsAt(const std::vector<std::byte>& segment) {
  constexpr std::array kMagic = {std::byte{'A'}, std::byte{'T'}, std::byte{'L'}, std::byte{'R'}};
  constexpr std::byte kUpdate{static_cast<uint8_t>(RecordType::kUpdate)};
  const auto last = std::find_end(segment.begin(), segment.end(), kMagic.begin(), kMagic.end());
  if (segment.end() - last < 5 || last[4] != kUpdate) return std::nullopt;
  return static_cast<size_t>(last - segment.begin());
}

// A process ends between the commit of a round and the write of its update, or during that write.
// The state is valid: the next process recomputes, serves and writes the update.
TEST(Audit, AnUpdateThatWasNotWrittenYetIsRecomputed) {
  for (const bool torn : {false, true}) {
    Harness h;
    JobSpec spec = KeptJob(h);
    spec.stop.inner_steps = 120;
    ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
    const DataDirectory directory("/state");
    const auto head_segment = [&] {
      return directory.SegmentPath({JobId{kJob}, 0, {{0}, {h.VersionOf(kJob).value - 1}}});
    };
    ASSERT_TRUE(h.RunUntil([&] {
      const Version version = h.VersionOf(kJob);
      return version.value >= 3 && !h.files().Exists(directory.SnapshotPath({JobId{kJob}, 0, {{0}, version}})) &&
             UpdateBeginsAt(h.files().Content(head_segment()));
    }));
    const uint64_t head = h.VersionOf(kJob).value;
    const std::string path = head_segment();
    h.KillCoordinator();
    const std::vector<std::byte> whole = h.files().Content(path);
    const size_t begin = UpdateBeginsAt(whole).value();
    std::vector<std::byte> cut = whole;
    cut.resize(torn ? whole.size() - 1 : begin);
    h.files().SetContent(path, cut);
    {
      const StateOnDisk state(h);
      const audit::Report verify = state.Verify();
      ExpectWell(verify);
      EXPECT_EQ(verify.count("updates to be recomputed"), 1u);
      ExpectAllEqual(state.Replay(), head);
    }
    h.StartCoordinator();
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
    for (const EventLine& line : h.EventLines(kJob)) EXPECT_NE(line.kind, "round log damaged") << line.text;
    h.KillCoordinator();
    const std::vector<std::byte> written = h.files().Content(path);
    EXPECT_EQ(UpdateBeginsAt(written), begin);
    EXPECT_TRUE(std::equal(written.begin() + static_cast<std::ptrdiff_t>(begin + kRecordHeaderBytes), written.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(begin + kRecordHeaderBytes), whole.end()));
    const StateOnDisk state(h);
    const audit::Report verify = state.Verify();
    ExpectWell(verify);
    EXPECT_EQ(verify.count("updates to be recomputed"), 0u);
  }
}

// Kept updates serve workers that are several versions late. They decide nothing, so a bad one is
// reported and is not damage.
TEST(Audit, AKeptUpdateThatCannotBeServedIsNoted) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  const DataDirectory directory("/state");
  const auto key = [](uint64_t version) { return RoundKey{JobId{kJob}, 0, {{0}, {version}}}; };
  const std::array segments = {directory.SegmentPath(key(0)), directory.SegmentPath(key(1))};
  const std::array contents = {h.files().Content(segments[0]), h.files().Content(segments[1])};
  ASSERT_TRUE(RoundLog(h.files(), directory, BootNumber{1}, 7)
                  .DropBefore(JobId{kJob}, 0, FragmentIndex{0}, Version{2}, Version{1})
                  .ok());
  for (size_t i = 0; i < segments.size(); ++i) h.files().SetContent(segments[i], contents[i]);
  const std::string kept = directory.KeptUpdatePath(key(1));
  const std::vector<std::byte> whole = h.files().Content(kept);
  const StateOnDisk state(h);
  const audit::Report well = state.Verify();
  ExpectWell(well);
  EXPECT_EQ(well.count("kept updates"), 1u);
  EXPECT_TRUE(well.notes().empty()) << well.Text();
  const auto expect_noted = [&](const std::string& path, const std::string& how) {
    const audit::Report report = state.Verify();
    ExpectWell(report);
    EXPECT_THAT(report.notes(), testing::Contains(testing::Field(&audit::Finding::file, path))) << how << "\n"
                                                                                                << report.Text();
  };
  for (size_t at = 0; at < whole.size(); at += 37) {
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{1};
    h.files().SetContent(kept, flipped);
    expect_noted(kept, "with a flipped bit at " + std::to_string(at));
    flipped.resize(at);
    h.files().SetContent(kept, flipped);
    expect_noted(kept, "cut at " + std::to_string(at));
  }
  h.files().SetContent(kept, whole);
  h.files().SetContent(directory.KeptUpdatePath(key(0)), whole);
  expect_noted(directory.KeptUpdatePath(key(0)), "under another name");
  h.files().SetContent(kept + ".new", {});
  expect_noted(kept + ".new", "half written");
}

// A segment ends with its update, so a changed update looks like a torn tail. A later snapshot
// proves that the update was flushed.
TEST(Audit, AChangedUpdateAtTheEndOfASegmentIsFoundByBoth) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  const std::string path = DataDirectory("/state").SegmentPath({JobId{kJob}, 0, {{0}, {1}}});
  std::vector<std::byte> content = h.files().Content(path);
  ASSERT_TRUE(UpdateBeginsAt(content));
  content.back() ^= std::byte{1};
  h.files().SetContent(path, content);
  for (const audit::Report& report : {StateOnDisk(h).Verify(), StateOnDisk(h).Replay()}) {
    ASSERT_EQ(report.damage().size(), 1u) << report.Text();
    EXPECT_THAT(report.damage()[0].problem, testing::HasSubstr("the committed round that led to version 2"));
  }
}

// As if a changed element was trimmed and all digests recomputed: same update, different norm.
TEST(Audit, AContributionWithAnotherNormIsFoundByReplay) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  for (auto& transaction : h.ledger_disk().transactions) {
    for (LedgerRecord& record : transaction) {
      auto* const round = std::get_if<RoundRecord>(&record);
      if (round == nullptr || round->reached.version != Version{2}) continue;
      ASSERT_GT(round->contributions[0].norm, 0);
      round->contributions[0].norm = std::nextafter(round->contributions[0].norm, 0.0);
    }
  }
  ExpectWell(StateOnDisk(h).Verify());
  EXPECT_THAT(StateOnDisk(h).Replay().Text(), testing::HasSubstr("has the norm"));
}

// There may be millions of rounds: memory must grow only with the rounds on disk.
TEST(Audit, RecordsOfRoundsThatAreNotOnDiskAreNotHeld) {
  Harness h;
  JobSpec spec = KeptJob(h);
  spec.checkpoint.keep_contributions = false;
  spec.stop.inner_steps *= 4;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
  const StateOnDisk state(h);
  uint64_t whole = 0;
  const audit::LedgerImage ledger = state.Ledger();
  for (const audit::LedgerRound& round : ledger.rounds) {
    whole += round.record != nullptr ? 1 : 0;
    EXPECT_FALSE(round.hash.IsZero());
  }
  EXPECT_EQ(whole, state.Verify().count("committed rounds held"));
  EXPECT_LT(whole, ledger.rounds.size());
}

TEST(Audit, WithoutTheDirectoryOfAJobItsRoundsAreMissed) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  const StateOnDisk state(h);
  for (const std::string& path : h.files().Paths()) {
    if (path.find("/jobs/") == std::string::npos) continue;
    ASSERT_TRUE(h.files().Remove(path).ok());
  }
  const audit::Report replay = state.Replay();
  EXPECT_FALSE(replay.ok());
  EXPECT_EQ(replay.count("rounds missing"), 6u) << replay.Text();
  EXPECT_FALSE(state.Verify().ok());
}

// The manifest also holds the consumed samples that a rollback restores.
TEST(Audit, AManifestTellsWhatWasConsumed) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  int manifests = 0;
  for (const std::string& path : h.files().Paths()) {
    if (path.find("/checkpoints/") == std::string::npos || !path.ends_with("/manifest")) continue;
    ++manifests;
    audit::Report report("verify", "/state");
    const auto manifest = audit::ReadManifest(h.files(), path, kAuditedJob, report);
    ASSERT_TRUE(manifest.has_value()) << report.Text();
    EXPECT_GT(manifest->record.pool_consumed, 0u);
    EXPECT_GE(manifest->record.pool_frontier, manifest->record.pool_consumed);
  }
  EXPECT_EQ(manifests, 1);
}

}  // namespace
}  // namespace atl
