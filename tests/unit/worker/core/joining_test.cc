// Where a joiner starts that has fetched for a while.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

// The others have gone on meanwhile: who starts where they were sends everything later than they do.
TEST(WorkerJoining, AJoinerThatFetchesLongStartsWhereTheJobIsByThen) {
  struct Case {
    Duration pace, fetch;
    uint64_t heard, starts;
  };
  const Case cases[] = {
      {Seconds(1), Milliseconds(1500), 0, 15},  // of a period of 4
      {Seconds(1), Seconds(2), 15, 15},
      {Seconds(1), Seconds(60), 0, 16},   // no news of the job: less than a period beyond what is known
      {Seconds(1), Seconds(60), 70, 73},  // likewise, beyond the newest commit
      {Seconds(1), Seconds(1), 70, 70},   // not behind it either
      {Duration{}, Seconds(60), 70, 13},  // the job waits for a joiner
  };
  for (const Case& c : cases) {
    World w;
    w.finish_fetches = false;
    w.Connect();
    w.Assign({Version{3}}, 13, 1, c.pace);
    w.Wait(c.fetch);
    if (c.heard > 0) w.Publish(0, 4, {"w2"}, c.heard);
    w.finish_fetches = true;
    w.Give(FragmentFetched{FragmentIndex{0}, Version{3}});
    EXPECT_TRUE(w.Did(absl::StrCat("ready ", c.starts)))
        << c.fetch.ns << " ns, heard of " << c.heard << ": " << w.core().clock_step();
  }
}

}  // namespace
}  // namespace atl::worker
