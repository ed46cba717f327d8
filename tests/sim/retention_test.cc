// What of a job's files stays on the disk while it runs, without checkpoint.keep_contributions: what a restart needs,
// what workers a little behind may ask for, and never more than the published bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "common/plan/coordinator_needs.h"
#include "coordinator/engine/intake.h"
#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

// Versions in the names of the fragment's files.
std::set<uint64_t> VersionsIn(Harness& h, const std::string& directory, const std::string& ending) {
  const auto names = h.files().List(directory);
  EXPECT_TRUE(names.ok()) << names.status();
  std::set<uint64_t> versions;
  for (const std::string& name : *names) {
    uint64_t version = 0;
    if (name.ends_with(ending) && absl::SimpleAtoi(name.substr(1, name.size() - 1 - ending.size()), &version))
      versions.insert(version);
  }
  return versions;
}

JobSpec Spec(CodecKind codec) {
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kWhole;
  spec.sync.upload_codec = codec;
  spec.sync.download_codec = codec;
  spec.stop.inner_steps = 400;
  spec.checkpoint.every_rounds = 1000;
  return spec;
}

std::set<uint64_t> Segments(Harness& h) {
  const RoundKey key{JobId{kJob}, 0, {FragmentIndex{0}, Version{0}}};
  return VersionsIn(h, DirectoryOf(DataDirectory("/state").SegmentPath(key)), ".seg");
}

std::set<uint64_t> Snapshots(Harness& h) {
  return VersionsIn(h, DataDirectory("/state").SnapshotDirectory(JobId{kJob}, 0, FragmentIndex{0}), ".snap");
}

struct Seen {
  std::set<uint64_t> snapshots;  // versions, over the run
  size_t most_segments = 0;
};

Seen Play(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  EXPECT_TRUE(h.Submit(spec).ok());
  for (const char* worker : {"a", "b", "c"}) h.StartWorker(worker);
  Seen seen;
  uint64_t looked_at = 0;
  EXPECT_TRUE(h.RunUntil([&] {
    const auto view = h.View(kJob);
    const uint64_t head = view->fragments[0].version.value;
    if (head == looked_at || h.Ended(kJob)) return h.Ended(kJob);
    looked_at = head;
    const std::set<uint64_t> segments = Segments(h), snapshots = Snapshots(h);
    seen.most_segments = std::max(seen.most_segments, segments.size());
    seen.snapshots.insert(snapshots.begin(), snapshots.end());
    EXPECT_LE(snapshots.size(), 2u);
    if (snapshots.empty()) return false;
    // A restart recomputes the rounds since the newest snapshot; a worker that missed two asks for their updates.
    const uint64_t needed_from = std::min(*snapshots.rbegin(), head - std::min<uint64_t>(head, 2));
    for (uint64_t version = needed_from; version < head; ++version)
      EXPECT_TRUE(segments.contains(version)) << version << " of " << head;
    return false;
  }));
  return seen;
}

TEST(Retention, LargeRoundsAreFourAtMostAndASnapshotComesWithEveryThird) {
  Harness h;
  const Seen seen = Play(h, Spec(CodecKind::kFp32));
  EXPECT_LE(seen.most_segments, 4u);
  ASSERT_GE(seen.snapshots.size(), 3u);
  const auto end = std::prev(seen.snapshots.end());  // the last is that of the job's end
  for (auto next = std::next(seen.snapshots.begin()); next != end; ++next) EXPECT_EQ(*next - *std::prev(next), 3u);
}

TEST(Retention, SmallRoundsStayUntilTheyOutweighTheState) {
  Harness h;
  const JobSpec spec = Spec(CodecKind::kMxfp4);
  const Seen seen = Play(h, spec);
  EXPECT_GT(seen.most_segments, 5u);
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  const JobSizes sizes = SizesOf(spec, layout);
  const uint64_t round = 3 * sizes.contribution_bytes + sizes.update_bytes;
  EXPECT_LE(seen.most_segments * round, 12 * sizes.parameters + 2 * round);
}

TEST(Retention, ARestartCountsWhatTheLogHolds) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(Spec(CodecKind::kFp32)).ok());
  for (const char* worker : {"a", "b", "c"}) h.StartWorker(worker);
  for (uint64_t version = 2; version < 20; version += 2) {  // before there is a third round since the start
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= version; }));
    EXPECT_LE(Segments(h).size(), 5u) << version;
    h.KillCoordinator();
    h.StartCoordinator();
  }
}

}  // namespace
}  // namespace atl
