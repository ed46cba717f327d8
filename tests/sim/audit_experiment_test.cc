// SPDX-License-Identifier: Apache-2.0
// verify and replay on states left by jobs with experiments, and on truncated segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/data_directory.h"
#include "coordinator/store/segment_format.h"
#include "tests/sim/audited_runs.h"

namespace atl {
namespace {

using testing::HasSubstr;

constexpr const char* kJob = kAuditedJob;

void ExpectWellAndEqual(const StateOnDisk& state, uint64_t rounds) {
  ExpectWell(state.Verify());
  ExpectAllEqual(state.Replay(), rounds);
}

// Some rounds lack a worker; some have no contribution.
TEST(AuditExperiment, RoundsWithDroppedSyncsAreEqual) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kMxfp4}) {
    Harness h;
    JobSpec spec = KeptJob(h);
    spec.experiment.drop_sync_probability = 0.7;
    spec.stop.inner_steps = 120;
    spec.sync.download_codec = codec;
    ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
    uint64_t empty = 0;
    const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
    for (const auto& [version, round] : rounds) empty += round.contributions.empty() ? 1 : 0;
    EXPECT_GT(empty, 0u);
    const StateOnDisk state(h);
    ExpectWellAndEqual(state, rounds.size());
  }
}

// One corpus per worker; contributions are weighted by corpus size.
TEST(AuditExperiment, RoundsWithShardsAreEqual) {
  Harness h;
  JobSpec spec = KeptJob(h);
  const Sha256 manifest = spec.data.corpora[0].manifest;
  spec.data.corpora = {{.name = "one", .manifest = manifest, .samples = 100},
                       {.name = "two", .manifest = manifest, .samples = 230}};
  spec.data.pin_shards = true;
  spec.sync.weights = WeightRule::kShardSize;
  spec.workers = {.min = 1, .max = 2, .planned = 2};
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
  ExpectWellAndEqual(StateOnDisk(h), h.CommittedRounds(kJob).size());
}

// Cut within a record, and at a record boundary: the ledger counts contributions that are missing,
// so this is damage and not a torn tail.
TEST(AuditOfACutSegment, LacksContributionsOfACommittedRound) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  const StateOnDisk state(h);
  const std::string path = DataDirectory("/state").SegmentPath({JobId{kAuditedJob}, 0, {FragmentIndex{0}, Version{1}}});
  const std::vector<std::byte> whole = h.files().Content(path);
  const auto file = h.files().OpenForRead(path);
  ASSERT_TRUE(file.ok());
  std::vector<uint64_t> ends = {0};
  const auto visit = [&ends](const ScannedRecord& record, Bytes) {
    const uint64_t offset = record.payload_offset - kRecordHeaderBytes;
    ends.insert(ends.end(), {offset + 5, offset, record.payload_offset + record.header.payload_bytes - 1});
    return absl::OkStatus();
  };
  ASSERT_TRUE(ScanRecords(**file, visit).ok());
  ASSERT_GT(ends.size(), 10u);
  for (const uint64_t end : ends) {
    SCOPED_TRACE(end);
    h.files().SetContent(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(end)});
    const audit::Report report = state.Verify();
    ASSERT_FALSE(report.ok());
    EXPECT_TRUE(report.notes().empty()) << report.Text();
    EXPECT_EQ(report.count("torn tails"), 0u);
    for (const audit::Finding& finding : report.damage()) {
      EXPECT_EQ(finding.file, path);
      EXPECT_LE(finding.offset.value_or(whole.size()), end);
      EXPECT_THAT(finding.problem, HasSubstr("the committed round that led to version "));
      EXPECT_THAT(finding.problem, HasSubstr("missing"));
      EXPECT_THAT(finding.way_out, HasSubstr("from a backup"));
    }
  }
  h.files().SetContent(path, whole);
}

}  // namespace
}  // namespace atl
