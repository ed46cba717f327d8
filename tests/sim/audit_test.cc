// SPDX-License-Identifier: Apache-2.0
// verify and replay on states left by whole runs. An intact state has no findings, every damage is
// found, and every round is equal to the bit under every codec, outer optimizer, weight rule and
// error memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coordinator/store/data_directory.h"
#include "tests/sim/audited_runs.h"

namespace atl {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

constexpr const char* kJob = kAuditedJob;
constexpr char kWayOut[] = "from a backup";

TEST(Audit, AFinishedRunIsWellAndEveryRoundIsEqual) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, KeptJob(h)));
  const StateOnDisk state(h);
  const audit::Report verify = state.Verify();
  ExpectWell(verify);
  EXPECT_EQ(verify.count("committed rounds held"), 6u);
  EXPECT_GE(verify.count("contributions"), 6u);
  EXPECT_EQ(verify.count("checkpoints"), 1u);
  EXPECT_EQ(verify.count("stored files"), 1u);
  const audit::Report replay = state.Replay();
  ExpectAllEqual(replay, 6);
  EXPECT_GE(replay.count("snapshots compared"), 1u);
}

TEST(Audit, WithoutKeptContributionsSomeRoundsHaveNoState) {
  Harness h;
  JobSpec spec = KeptJob(h);
  spec.checkpoint.keep_contributions = false;
  ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 5; }));
  h.KillCoordinator();
  const StateOnDisk state(h);
  ExpectWell(state.Verify());
  const audit::Report replay = state.Replay();
  ExpectWell(replay);
  EXPECT_GE(replay.count("rounds held"), 1u);
  EXPECT_EQ(replay.count("rounds equal") + replay.count("rounds without a state to start from"),
            replay.count("rounds held"));
}

TEST(Audit, AfterARollbackTheRoundsOfBothEpochsAreEqual) {
  Harness h;
  JobSpec spec = KeptJob(h);
  spec.checkpoint.every_rounds = 2;
  ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 5; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
  const uint64_t given_up = h.VersionOf(kJob).value;
  ASSERT_TRUE(h.RollBack(kJob, h.View(kJob)->checkpoints.front().step).ok());
  const uint64_t back_at = h.VersionOf(kJob).value;
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  h.KillCoordinator();
  const StateOnDisk state(h);
  const audit::Report verify = state.Verify();
  ExpectWell(verify);
  EXPECT_EQ(verify.count("rollbacks"), 1u);
  ExpectAllEqual(state.Replay(), given_up + 6 - back_at);
}

TEST(Audit, KilledAtAnyMomentTheStateIsWell) {
  Harness h;
  JobSpec spec = KeptJob(h);
  spec.stop.inner_steps = 300;
  spec.checkpoint.every_rounds = 3;
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
  for (int life = 1; !h.Ended(kJob); ++life) {
    SCOPED_TRACE(life);
    h.RunFor(Milliseconds(700 + 97 * life));
    if (h.Ended(kJob)) break;
    h.KillCoordinator();
    const StateOnDisk state(h);
    ExpectWell(state.Verify());
    const audit::Report replay = state.Replay();
    ExpectAllEqual(replay, replay.count("rounds held"));
    h.StartCoordinator();
  }
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
}

TEST(Audit, AFileOfAnEvaluationTaskThatIsGoneIsMissed) {
  Harness h;
  JobSpec spec = KeptJob(h);
  const std::string examples = "pairs";
  const Bytes bytes = AsBytes(examples);
  const std::string path = DataDirectory("/state").BlobPath(Sha256Of(bytes));
  h.files().SetContent(path, {bytes.begin(), bytes.end()});
  spec.evaluation.tasks = {{"pairs", Sha256Of(bytes), 100}};
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
  const StateOnDisk state(h);
  ExpectWell(state.Verify());
  ASSERT_TRUE(h.files().Remove(path).ok());
  const audit::Report report = state.Verify();
  ASSERT_EQ(report.damage().size(), 1u) << report.Text();
  EXPECT_EQ(report.damage()[0].file, path);
  EXPECT_THAT(report.damage()[0].problem, HasSubstr("a stored file that the job needs is not there"));
}

// ---- every way of merging

class EveryMerge : public testing::TestWithParam<CodecKind> {};

TEST_P(EveryMerge, IsRecomputedToTheBit) {
  for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
    for (const WeightRule weights : {WeightRule::kUniform, WeightRule::kTokens, WeightRule::kTokensSquaredOverSteps}) {
      for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco}) {
        SCOPED_TRACE(testing::Message() << "outer " << static_cast<int>(kind) << ", weights "
                                        << static_cast<int>(weights) << ", memory " << static_cast<int>(memory));
        Harness h;
        JobSpec spec = KeptJob(h);
        spec.outer.kind = kind;
        if (kind == OuterKind::kSgd) spec.outer.momentum = 0;
        spec.sync.weights = weights;
        spec.sync.upload_codec = spec.sync.download_codec = GetParam();
        spec.sync.download_error_memory = memory;
        spec.sync.loco = {.beta = 0.75, .reset_syncs = 3};
        spec.stop.inner_steps = 40;
        ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
        const StateOnDisk state(h);
        ExpectWell(state.Verify());
        ExpectAllEqual(state.Replay(), 4);
      }
    }
  }
}

TEST_P(EveryMerge, OfRobustRulesIsRecomputedToTheBit) {
  for (const MergeRule rule : {MergeRule::kTrimmedMean, MergeRule::kMedian, MergeRule::kCenteredClip}) {
    SCOPED_TRACE(testing::Message() << "merge " << static_cast<int>(rule));
    Harness h;
    JobSpec spec = KeptJob(h);
    spec.sync.merge.rule = rule;
    spec.sync.upload_codec = spec.sync.download_codec = GetParam();
    ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
    const StateOnDisk state(h);
    ExpectWell(state.Verify());
    ExpectAllEqual(state.Replay(), 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryMerge,
                         testing::Values(CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8,
                                         CodecKind::kMxfp4, CodecKind::kE3m0));

// ---- damage

// A finished run with two checkpoints, two fragments and all its rounds.
class AuditOfDamage : public testing::Test {
 protected:
  void SetUp() override {
    JobSpec spec = KeptJob(h_);
    spec.checkpoint.every_rounds = 2;
    spec.sync.pattern = FragmentPattern::kStrided;
    spec.sync.layers_per_fragment = 2;
    spec.stop.inner_steps = 30;
    ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h_, spec));
    state_ = std::make_unique<StateOnDisk>(h_);
    ExpectWell(state_->Verify());
  }

  // Files of the formats. Event logs are left out: they have no checksum and decide nothing.
  std::vector<std::string> Paths(const std::string& part) {
    std::vector<std::string> found;
    for (const std::string& path : h_.files().Paths()) {
      if (path.find(part) != std::string::npos && path.find("/events/") == std::string::npos) found.push_back(path);
    }
    return found;
  }
  // Segments of committed rounds: those with an update.
  std::vector<std::string> CommittedSegments() {
    std::vector<std::string> found;
    for (const std::string& path : Paths(".seg")) {
      const uint64_t version = std::stoull(path.substr(path.size() - 14, 10));
      if (version < h_.CommittedRounds(kJob, path.find("/f00000/") != std::string::npos ? 0u : 1u).size())
        found.push_back(path);
    }
    return found;
  }

  void ExpectFoundAfter(const std::string& path, const std::vector<std::byte>& content, const std::string& how) {
    const std::vector<std::byte> whole = h_.files().Content(path);
    h_.files().SetContent(path, content);
    const audit::Report report = state_->Verify();
    EXPECT_FALSE(report.ok()) << path << " " << how;
    EXPECT_THAT(report.damage(), Contains(Field(&audit::Finding::file, path))) << how << "\n" << report.Text();
    for (const audit::Finding& finding : report.damage()) {
      EXPECT_FALSE(finding.way_out.empty());
      EXPECT_TRUE(finding.offset.has_value() || finding.file != path) << report.Text();
      EXPECT_LE(finding.offset.value_or(0), std::max(content.size(), whole.size()));
    }
    h_.files().SetContent(path, whole);
  }

  // Flips one bit at about `places` places of the file.
  void ExpectFlipsFound(const std::string& path, size_t places) {
    const std::vector<std::byte> whole = h_.files().Content(path);
    const size_t stride = std::max<size_t>(1, whole.size() / places) | 1;
    for (size_t at = 0; at < whole.size(); at += stride) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= static_cast<std::byte>(1 << at % 8);
      ExpectFoundAfter(path, damaged, "with a flipped bit at " + std::to_string(at));
    }
  }

  Harness h_;
  std::unique_ptr<StateOnDisk> state_;
};

TEST_F(AuditOfDamage, AFlippedBitInASegmentIsFoundWherever) {
  const std::vector<std::string> segments = CommittedSegments();
  ASSERT_GE(segments.size(), 4u);
  ExpectFlipsFound(segments.front(), 60);
  ExpectFlipsFound(segments.back(), 20);
}

TEST_F(AuditOfDamage, AFlippedBitInASnapshotIsFoundWherever) {
  const std::vector<std::string> snapshots = Paths("/snapshots/");
  ASSERT_GE(snapshots.size(), 2u);
  ExpectFlipsFound(snapshots.front(), 40);
  ExpectFlipsFound(Paths("/checkpoints/").front(), 20);  // a hard link
}

TEST_F(AuditOfDamage, AFlippedBitInAManifestOrAStoredFileIsFound) {
  const std::vector<std::string> manifests = Paths("/manifest");
  ASSERT_GE(manifests.size(), 1u);
  // All bytes except the boot number, which is stored nowhere else.
  const std::vector<std::byte> whole = h_.files().Content(manifests.front());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x10};
    ExpectFoundAfter(manifests.front(), damaged, "with a flipped bit at " + std::to_string(at));
  }
  ExpectFlipsFound(Paths("/blobs/").front(), 3);
}

TEST_F(AuditOfDamage, AFileThatIsGoneIsMissed) {
  std::vector<std::string> paths = CommittedSegments();
  // Only the first snapshot is needed; a later one can be recomputed.
  for (const char* part : {"v0000000000.snap", "/checkpoints/", "/blobs/"}) {
    for (const std::string& path : Paths(part)) paths.push_back(path);
  }
  for (const std::string& path : paths) {
    const std::vector<std::byte> whole = h_.files().Content(path);
    ASSERT_TRUE(h_.files().Remove(path).ok());
    const audit::Report report = state_->Verify();
    EXPECT_FALSE(report.ok()) << path;
    const std::string directory = path.substr(0, path.find('/', std::string("/state/jobs/").size()));
    EXPECT_THAT(report.damage(), Contains(Field(&audit::Finding::file, HasSubstr(directory)))) << report.Text();
    if (path.find("/rounds/") != std::string::npos) {
      EXPECT_THAT(state_->Replay().Text(), HasSubstr("cannot be recomputed: the segment of its round is not there"));
    }
    h_.files().SetContent(path, whole);
  }
  ExpectWell(state_->Verify());
  for (const std::string& path : Paths("/snapshots/")) ASSERT_TRUE(h_.files().Remove(path).ok());
  EXPECT_THAT(state_->Verify().Text(), HasSubstr("fragment 1 has no whole snapshot at or below its committed version"));
}

TEST_F(AuditOfDamage, ATruncatedFileIsFound) {
  std::vector<std::string> paths = {CommittedSegments().front(), Paths("/snapshots/").front(),
                                    Paths("/blobs/").front()};
  paths.push_back(Paths("/manifest").front());
  for (const std::string& path : paths) {
    const std::vector<std::byte> whole = h_.files().Content(path);
    for (const size_t part : {0u, 1u, 3u}) {
      ExpectFoundAfter(path, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() * part / 4)},
                       "cut to " + std::to_string(part) + " quarters");
    }
  }
}

TEST_F(AuditOfDamage, AFileOfAnotherPlaceIsFound) {
  const std::vector<std::string> segments = CommittedSegments(), snapshots = Paths("/snapshots/");
  ExpectFoundAfter(segments.front(), h_.files().Content(segments.back()), "with the content of another");
  ExpectFoundAfter(snapshots.front(), h_.files().Content(snapshots.back()), "with the content of another");
}

TEST_F(AuditOfDamage, FilesThatTheLedgerDoesNotKnowAreFound) {
  const std::string path = CommittedSegments().front();
  std::string later = path;
  later.replace(later.size() - 14, 10, "0000000099");
  h_.files().SetContent(later, h_.files().Content(path));
  EXPECT_THAT(state_->Verify().damage(), Contains(Field(&audit::Finding::file, later)));
  ASSERT_TRUE(h_.files().Remove(later).ok());
  h_.files().SetContent("/state/jobs/strange/rounds/e0000000000/f00000/v0000000000.seg", h_.files().Content(path));
  EXPECT_THAT(state_->Verify().damage(), Contains(Field(&audit::Finding::job, "strange")));
}

// Files that nothing depends on are noted, not damage.
TEST_F(AuditOfDamage, HalfWrittenFilesAreNoted) {
  h_.files().SetContent(Paths("/snapshots/").front() + ".tmp", {});
  h_.files().SetContent("/state/blobs/ab/" + std::string(64, 'a') + ".part", {});
  const audit::Report report = state_->Verify();
  ExpectWell(report);
  EXPECT_EQ(report.notes().size(), 2u) << report.Text();
}

struct Edit {
  const char* sql;
  const char* told;
};

TEST_F(AuditOfDamage, AnEditedRowOfTheLedgerIsFound) {
  const Edit edits[] = {
      {"UPDATE pools SET consumed = consumed + 1", "do not balance"},
      {"UPDATE pools SET frontier = frontier - 4", "balance"},
      {"UPDATE pools SET abandoned = 3", "do not balance"},
      {"INSERT INTO pool_ranges VALUES ('small', 1, 3, 0)", "balance"},
      {"INSERT INTO leases VALUES (9999, 'small', 'a', 1, 0, 4, 0, 1, 0, 0)", "never given"},
      {"UPDATE meta SET boot = 0", "out of order"},
      {"UPDATE meta SET next_seq = 1", "which comes later"},
      {"UPDATE meta SET next_incarnation = 1", "never given"},
      {"UPDATE meta SET next_job_sequence = 0", "sequence number"},
      {"DELETE FROM meta", "no row"},
      {"UPDATE jobs SET epoch = 1", "rollbacks lead to epoch 0"},
      {"UPDATE jobs SET state = 9", "unknown state"},
      {"UPDATE jobs SET fragments = 5", "fragments"},
      {"UPDATE jobs SET fragments = -125", "has 18446744073709551491 fragments, more than the 1024"},
      {"UPDATE jobs SET dataset_samples = 1", "leased"},
      {"UPDATE jobs SET spec = x'ffff'", "cannot be read"},
      {"UPDATE jobs SET next_evaluation = 0", "never asked for"},
      {"DELETE FROM jobs", "not in the ledger"},
      {"UPDATE rounds SET record = x'ff'", "cannot be read"},
      {"UPDATE rounds SET version = version + 10 WHERE version = 3", "follows version 2"},
      {"UPDATE rounds SET version = -1 WHERE version = 3 AND fragment = 0",
       "version 18446744073709551615 of fragment 0 of job small in epoch 0 follows version 2"},
      {"UPDATE rounds SET epoch = 1 WHERE version = 1 AND fragment = 0", "fits no epoch"},
      {"UPDATE rounds SET seq = seq + 1000 WHERE version = 1 AND fragment = 0", "follows version"},
      {"DELETE FROM rounds WHERE version = 2 AND fragment = 1", "follows version 1"},
      {"DELETE FROM rounds WHERE version = 3", "the ledger"},
      {"UPDATE rounds SET record = (SELECT record FROM rounds r WHERE r.version = 2 AND r.fragment = 0) WHERE version "
       "= 1 "
       "AND fragment = 0",
       "record of another version"},
      {"UPDATE checkpoints SET hashes = zeroblob(length(hashes))", "manifest"},
      {"UPDATE checkpoints SET versions = zeroblob(8)", "fragments"},
      {"UPDATE checkpoints SET wall_nanos = 1 WHERE complete = 1", "manifest"},
      {"INSERT INTO rollbacks VALUES (0, 'small', 1, zeroblob(24), 0)", "no checkpoint"},
      {"UPDATE workers SET job = 'other'", "never given"},
      {"UPDATE workers SET incarnation = 999", "never given"},
  };
  for (const Edit& edit : edits) {
    const StateOnDisk state(h_);
    state.Edit(edit.sql);
    const audit::Report report = state.Verify();
    EXPECT_FALSE(report.ok()) << edit.sql;
    EXPECT_THAT(report.Text(), HasSubstr(edit.told)) << edit.sql;
    EXPECT_THAT(report.Text(), testing::AnyOf(HasSubstr(kWayOut), HasSubstr("from one backup"))) << edit.sql;
  }
}

TEST_F(AuditOfDamage, AChangedRecordOfARoundIsFound) {
  const std::vector<std::pair<const char*, std::function<void(RoundRecord&)>>> changes = {
      {"hash", [](RoundRecord& r) { ++r.hash.low; }},
      {"update digest", [](RoundRecord& r) { ++r.update_digest.high; }},
      {"update size", [](RoundRecord& r) { ++r.update_bytes; }},
      {"tokens", [](RoundRecord& r) { ++r.tokens; }},
      {"tokens of a contribution", [](RoundRecord& r) { ++r.contributions[0].header.tokens; }},
      {"digest of a contribution", [](RoundRecord& r) { ++r.contributions[0].header.digest.low; }},
      {"weight", [](RoundRecord& r) { r.contributions[0].weight += 0.001; }},
      {"worker", [](RoundRecord& r) { r.contributions[0].header.worker.value = "0"; }},
      {"boot", [](RoundRecord& r) { r.boot.value = 77; }},
      {"arithmetic", [](RoundRecord& r) { ++r.arithmetic_revision; }},
      {"no contributions", [](RoundRecord& r) { r.contributions.clear(); }},
  };
  for (const auto& [what, change] : changes) {
    for (auto& transaction : h_.ledger_disk().transactions) {
      for (LedgerRecord& record : transaction) {
        auto* const round = std::get_if<RoundRecord>(&record);
        if (round == nullptr || round->reached != FragmentVersion{FragmentIndex{0}, Version{2}}) continue;
        const RoundRecord whole = *round;
        change(*round);
        EXPECT_FALSE(StateOnDisk(h_).Verify().ok()) << what;
        *round = whole;
      }
    }
  }
  ExpectWell(StateOnDisk(h_).Verify());
}

// ---- found only by replay

// Segment and ledger agree on an update that does not follow from the contributions.
class WrongPublication : public AuditOfDamage {
 protected:
  RoundRecord& Round(uint64_t version) {
    for (auto& transaction : h_.ledger_disk().transactions) {
      for (LedgerRecord& record : transaction) {
        auto* const round = std::get_if<RoundRecord>(&record);
        if (round != nullptr && round->reached == FragmentVersion{FragmentIndex{1}, Version{version}}) return *round;
      }
    }
    ADD_FAILURE() << "no such round";
    std::abort();
  }

  // Changes one byte of the published update and makes all its digests match.
  void Forge(uint64_t version, size_t byte) {
    RoundRecord& round = Round(version);
    const RoundKey key{JobId{kJob}, 0, {FragmentIndex{1}, Version{version - 1}}};
    RoundLog log(h_.files(), DataDirectory("/state"), round.boot, /*secret=*/2);
    const JobSpec spec = h_.ledger_disk().transactions.empty() ? JobSpec{} : SpecOf();
    const Digest layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest;
    ASSERT_TRUE(log.Open(key, layout).ok());
    const auto held = log.OpenUpdate(key, layout);
    ASSERT_TRUE(held.ok()) << held.status();
    UpdateInfo info = (*held)->info();
    std::vector<std::byte> update(info.encoded_bytes);
    ASSERT_TRUE((*held)->ReadAt(0, update).ok());
    update[byte] ^= std::byte{1};
    round.update_digest = info.digest = DigestOf(update);
    ASSERT_TRUE(log.WriteUpdate(key, info, update).ok());
  }

  JobSpec SpecOf() {
    for (const auto& transaction : h_.ledger_disk().transactions) {
      for (const LedgerRecord& record : transaction) {
        if (const auto* const job = std::get_if<JobRecord>(&record)) return job->spec;
      }
    }
    return {};
  }
};

TEST_F(WrongPublication, AWrongByteOfAnUpdateIsFoundByReplay) {
  for (const size_t byte : {size_t{0}, size_t{1001}}) {
    Forge(2, byte);
    const StateOnDisk state(h_);
    ExpectWell(state.Verify());
    const audit::Report replay = state.Replay();
    EXPECT_FALSE(replay.ok());
    EXPECT_EQ(replay.count("rounds that differ"), 1u) << replay.Text();
    ASSERT_EQ(replay.damage().size(), 1u) << replay.Text();
    EXPECT_THAT(replay.damage()[0].problem, HasSubstr("from its byte " + std::to_string(byte) + " on"));
    EXPECT_THAT(replay.damage()[0].way_out, HasSubstr("roll the job back"));
    EXPECT_TRUE(replay.damage()[0].offset.has_value());
    Forge(2, byte);
  }
  ExpectWell(StateOnDisk(h_).Replay());
}

TEST_F(WrongPublication, AWrongWeightOrRateIsFoundByReplay) {
  RoundRecord& round = Round(2);
  const RoundRecord whole = round;
  ASSERT_EQ(round.contributions.size(), 2u);
  round.contributions[0].weight += 1e-12;
  EXPECT_THAT(StateOnDisk(h_).Replay().Text(), HasSubstr("the weight of worker a"));
  round = whole;
  round.learning_rate *= 1.0001;
  EXPECT_EQ(StateOnDisk(h_).Replay().count("rounds that differ"), 1u);
  round = whole;
  ++round.hash.low;
  EXPECT_THAT(StateOnDisk(h_).Replay().Text(), HasSubstr("the recomputed version has the hash"));
  round = whole;
  ++round.arithmetic_revision;
  EXPECT_EQ(StateOnDisk(h_).Replay().count("rounds of another arithmetic"), 1u);
}

// A torn tail of the open round looks the same as a write that was never flushed, so it is not
// damage.
TEST(Audit, ATornTailOfAnOpenRoundIsNoted) {
  Harness h;
  JobSpec spec = KeptJob(h);
  spec.stop.inner_steps = 1000;
  ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3 && h.View(kJob)->fragments[0].accepted > 0; }));
  const Version head = h.VersionOf(kJob);
  h.KillCoordinator();
  const std::string path = DataDirectory("/state").SegmentPath({JobId{kJob}, 0, {FragmentIndex{0}, head}});
  std::vector<std::byte> content = h.files().Content(path);
  const StateOnDisk state(h);
  EXPECT_TRUE(state.Verify().notes().empty());
  content.resize(content.size() - 3);
  h.files().SetContent(path, content);
  const audit::Report report = state.Verify();
  ExpectWell(report);
  EXPECT_EQ(report.count("torn tails"), 1u);
  ASSERT_EQ(report.notes().size(), 1u);
  EXPECT_EQ(report.notes()[0].file, path);
  EXPECT_THAT(report.notes()[0].problem, HasSubstr("torn tail"));
}

}  // namespace
}  // namespace atl
