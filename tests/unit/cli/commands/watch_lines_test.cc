// SPDX-License-Identifier: Apache-2.0
// How `job watch` reports waits without a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

v1::WatchJobResponse Look(v1::JobState state, uint64_t rounds, const std::string& waiting_line) {
  v1::WatchJobResponse look;
  look.mutable_job()->set_name("jobs/tiny");
  look.mutable_job()->set_state(state);
  look.mutable_job()->set_rounds_committed(rounds);
  look.set_waiting_line(waiting_line);
  return look;
}

std::string Wait(int round, int seconds) {
  return absl::StrCat("round ", round, " of fragment 0: quorum 1 of 2 reached; waits ", seconds, " s for tokyo-2");
}

// The output for `looks`, one per second, followed by the job's end.
std::string Told(std::vector<v1::WatchJobResponse> looks) {
  Harness harness;
  looks.push_back(Look(v1::JOB_STATE_SUCCEEDED, 9, ""));
  harness.fake.watches = {{looks, absl::OkStatus()}};
  harness.fake.before_message = [&] { harness.clock.Advance(Seconds(1)); };
  return harness.Run({"watch", "tiny"}).talk;
}

TEST(Waits, LongWaitsOfAJobArePrintedOnce) {
  std::vector<v1::WatchJobResponse> looks;
  for (int i = 0; i < 60; ++i) looks.push_back(Look(v1::JOB_STATE_RUNNING, 3, Wait(4, 60 - i)));
  EXPECT_EQ(Told(looks), "running: " + Wait(4, 50) + "\njobs/tiny succeeded\n");
}

TEST(Waits, WaitsOfEachRoundAreNotPrinted) {
  std::vector<v1::WatchJobResponse> looks;
  for (int round = 1; round < 20; ++round) {
    for (int i = 0; i < 8; ++i)
      looks.push_back(Look(v1::JOB_STATE_RUNNING, static_cast<uint64_t>(round), Wait(round, 8 - i)));
  }
  EXPECT_EQ(Told(looks), "jobs/tiny succeeded\n");
}

TEST(Waits, WaitsForASilentWorkerArePrintedAtEachReturn) {
  const auto silent = [](int seconds) {
    v1::WatchJobResponse look = Look(
        v1::JOB_STATE_RUNNING, 3, absl::StrCat(Wait(4, 9), " (tokyo-2 at step 40, no heartbeat for ", seconds, " s)"));
    v1::WorkerStatus& worker = *look.add_workers();
    worker.set_name("workers/tokyo-2");
    worker.set_state("silent");
    return look;
  };
  const v1::WatchJobResponse fine = Look(v1::JOB_STATE_RUNNING, 3, "");
  const auto line = [&](int seconds) { return absl::StrCat("running: ", silent(seconds).waiting_line(), "\n"); };
  EXPECT_EQ(Told({fine, silent(6), silent(7), fine, silent(8)}), line(6) + "jobs/tiny succeeded\n");
  std::vector<v1::WatchJobResponse> looks = {silent(6)};
  for (int i = 0; i < 300; ++i) looks.push_back(fine);
  looks.push_back(silent(8));
  EXPECT_EQ(Told(looks), line(6) + line(8) + "jobs/tiny succeeded\n");
}

TEST(Waits, WaitsOfAStalledJobArePrintedAtOnceAndOnChange) {
  const auto waiting = [](const std::string& why) { return Look(v1::JOB_STATE_WAITING_FOR_WORKERS, 0, why); };
  EXPECT_EQ(Told({waiting("1 of 3 workers needed"), waiting("1 of 3 workers needed"), waiting("2 of 3 workers needed"),
                  waiting("1 of 3 workers needed")}),
            "waiting_for_workers: 1 of 3 workers needed\nwaiting_for_workers: 2 of 3 workers needed\n"
            "waiting_for_workers: 1 of 3 workers needed\njobs/tiny succeeded\n");
}

}  // namespace
}  // namespace atl::cli
