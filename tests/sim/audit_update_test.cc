// verify, replay and a start on a state whose newest committed round lacks its update.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "coordinator/store/data_directory.h"
#include "coordinator/store/segment_format.h"
#include "tests/sim/audited_runs.h"

namespace atl {
namespace {

constexpr const char* kJob = kAuditedJob;

// Where the record of the update begins, which is the last of a committed round; nothing while it is not there.
std::optional<size_t> UpdateBeginsAt(const std::vector<std::byte>& segment) {
  constexpr std::array kMagic = {std::byte{'A'}, std::byte{'T'}, std::byte{'L'}, std::byte{'R'}};
  constexpr std::byte kUpdate{static_cast<uint8_t>(RecordType::kUpdate)};
  const auto last = std::find_end(segment.begin(), segment.end(), kMagic.begin(), kMagic.end());
  if (segment.end() - last < 5 || last[4] != kUpdate) return std::nullopt;
  return static_cast<size_t>(last - segment.begin());
}

// A process that ends between the commit of a round and the write of its update, or in the middle of that write: the
// state is well, the next process recomputes the update, serves it and writes it.
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

}  // namespace
}  // namespace atl
