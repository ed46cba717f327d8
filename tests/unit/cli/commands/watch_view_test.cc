// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/output.h"

namespace atl::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::WorkerStatus Worker(const std::string& name, const std::string& activity, const std::string& waiting_for = "") {
  v1::WorkerStatus w;
  w.set_name("workers/" + name);
  w.set_state("training");
  w.set_activity(activity);
  w.set_step(1240);
  w.set_tokens_per_second(21'000);
  w.set_loss(3.15);
  w.set_waiting_for(waiting_for);
  return w;
}

v1::WatchJobResponse State() {
  v1::WatchJobResponse state;
  v1::Job& job = *state.mutable_job();
  job.set_name("jobs/tiny-llama");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_step(1234);
  job.set_stop_step(4000);
  job.set_round(12);
  job.set_loss(3.1415);
  job.set_tokens_per_second(42'100);
  job.set_tokens(12'300'000);
  job.set_parameters(917'504);
  job.set_workers_alive(3);
  job.set_workers_training(2);
  job.set_workers_participating(2);
  job.set_uploaded_bytes(22'000'000);
  job.set_downloaded_bytes(44'000'000);
  job.mutable_remaining()->set_seconds(125);
  job.mutable_last_evaluation()->set_loss(3.2);
  job.mutable_last_evaluation()->set_perplexity(24.53);
  job.mutable_last_evaluation()->set_bits_per_byte(2.1);
  for (int i = 0; i < 100; ++i) state.add_recent_losses(5.5 - 0.02 * i);
  *state.add_workers() = Worker("paris-1", "training");
  *state.add_workers() = Worker("tokyo-2", "waiting", "update of fragment 0 for 3 s");
  state.set_waiting_line("round 12 waits for tokyo-2, whose upload takes 14 s at 1.2 MB/s");
  return state;
}

std::vector<std::string> Texts(const std::vector<WatchLine>& lines) {
  std::vector<std::string> out;
  for (const WatchLine& line : lines) out.push_back(line.text);
  return out;
}

TEST(RenderWatch, LooksRightAt80Columns) {
  EXPECT_THAT(Texts(RenderWatch(State(), {80, 24, true})),
              ElementsAre("tiny-llama   running   step 1,234 of 4,000   round 12   918k parameters",
                          "[█████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░]  30 %  ETA 2 m 5 s",
                          "loss 3.1415   █▇▇▆▅▅▄▄▃▂▂▁   held-out 3.2000, perplexity 24.53, 2.100 bits/byte",
                          "42.1k tokens/s   12.3M tokens   workers: 3 alive, 2 training, 2 participating",
                          "  paris-1  training    step 1,240     21.0k tok/s  loss 3.1500",
                          "  tokyo-2  waiting     step 1,240     21.0k tok/s  loss 3.1500",
                          "      update of fragment 0 for 3 s",
                          "round 12 waits for tokyo-2, whose upload takes 14 s at 1.2 MB/s"));
}

TEST(RenderWatch, LooksRightAt200Columns) {
  EXPECT_THAT(
      Texts(RenderWatch(State(), {200, 24, true})),
      ElementsAre("tiny-llama   running   step 1,234 of 4,000   round 12   918k parameters",
                  "[██████████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░]"
                  "  30 %  ETA 2 m 5 s",
                  "loss 3.1415   █████▇▇▇▇▇▇▇▇▆▆▆▆▆▆▆▆▆▅▅▅▅▅▅▅▅▄▄▄▄▄▄▄▄▃▃▃▃▃▃▃▃▃▂▂▂▂▂▂▂▂▁▁▁▁▁   "
                  "held-out 3.2000, perplexity 24.53, 2.100 bits/byte",
                  "42.1k tokens/s   12.3M tokens   workers: 3 alive, 2 training, 2 participating   up 22.0 MB   "
                  "down 44.0 MB",
                  "  paris-1  training    step 1,240     21.0k tok/s  loss 3.1500",
                  "  tokyo-2  waiting     step 1,240     21.0k tok/s  loss 3.1500  update of fragment 0 for 3 s",
                  "round 12 waits for tokyo-2, whose upload takes 14 s at 1.2 MB/s"));
}

TEST(RenderWatch, NamesStrikesAndQuarantine) {
  v1::WatchJobResponse state = State();
  v1::WorkerStatus& worker = *state.mutable_workers(0);
  worker.set_screened("1 strike in fragment 0, the newest: it is large");
  WatchLine line = RenderWatch(state, {120, 24, true})[4];
  EXPECT_THAT(line.text, HasSubstr("  1 strike in fragment 0, the newest: it is large"));
  EXPECT_EQ(line.style, WatchLine::Style::kWarning);
  worker.set_state("quarantined");
  EXPECT_EQ(RenderWatch(state, {120, 24, true})[4].style, WatchLine::Style::kBad);
}

TEST(RenderWatch, NamesASilentWorker) {
  v1::WatchJobResponse state = State();
  v1::WorkerStatus& worker = *state.mutable_workers(0);
  worker.set_state("silent");
  worker.clear_activity();
  worker.set_waiting_for("no heartbeat for 6 s");
  const WatchLine line = RenderWatch(state, {120, 24, true})[4];
  EXPECT_THAT(line.text, testing::AllOf(HasSubstr("  paris-1  silent "), HasSubstr("  no heartbeat for 6 s")));
  EXPECT_EQ(line.style, WatchLine::Style::kWarning);
}

TEST(RenderWatch, NamesASlowLink) {
  v1::WatchJobResponse state = State();
  v1::WorkerStatus& worker = *state.mutable_workers(0);
  worker.set_link_too_slow("the link of worker paris-1 carries 1.0 kB/s up");
  EXPECT_THAT(Texts(RenderWatch(state, {120, 24, true}))[4], HasSubstr("slow link: all wait for it"));
  worker.set_not_waited_for(true);
  EXPECT_THAT(Texts(RenderWatch(state, {120, 24, true}))[4], HasSubstr("slow link: not waited for"));
}

// For any state every line is narrower than the terminal, and all lines fit its height.
TEST(RenderWatch, NeverWrapsAndNeverScrolls) {
  v1::WatchJobResponse state = State();
  state.set_waiting_line(absl::StrCat(std::string(500, 'w'), "\n\x1b[2J"));
  for (int i = 0; i < 60; ++i)
    *state.add_workers() = Worker(std::string(static_cast<size_t>(i) + 1, 'n'), "training", std::string(300, 'x'));
  for (uint32_t columns = 1; columns < 260; ++columns) {
    for (const uint32_t rows : {1u, 8u, 10u, 24u, 50u}) {
      const std::vector<WatchLine> lines = RenderWatch(state, {columns, rows, true});
      if (rows >= 10) {
        EXPECT_LT(lines.size(), rows);
      }
      for (const WatchLine& line : lines) {
        EXPECT_LT(DisplayWidth(line.text), std::max(columns, 20u)) << columns;
        EXPECT_EQ(line.text.find('\n'), std::string::npos);
        EXPECT_EQ(line.text.find('\x1b'), std::string::npos) << "text from workers must not steer the terminal";
      }
    }
  }
}

TEST(RenderWatch, CountsWorkersThatDoNotFit) {
  v1::WatchJobResponse state = State();
  for (int i = 0; i < 60; ++i) *state.add_workers() = Worker("w" + std::to_string(i), "training");
  const std::vector<std::string> lines = Texts(RenderWatch(state, {80, 24, true}));
  EXPECT_EQ(lines.size(), 23u);
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("and 45 more workers"));
  EXPECT_THAT(lines.back(), HasSubstr("waits for tokyo-2"));
}

TEST(RenderWatch, ALongReasonTakesTwoLines) {
  v1::WatchJobResponse state = State();
  state.set_waiting_line(
      "round 1 of fragment 0: it has 1 of the 2 contributions that it needs; nobody else is expected in it, and it "
      "goes "
      "on when another worker joins");
  const std::vector<std::string> lines = Texts(RenderWatch(state, {80, 24, true}));
  EXPECT_EQ(lines[lines.size() - 2], "round 1 of fragment 0: it has 1 of the 2 contributions that it needs; nobody");
  EXPECT_EQ(lines.back(), "  else is expected in it, and it goes on when another worker joins");
}

// At 80 columns a worker's line has no space for the reason of its wait, which follows below, in
// whole words.
TEST(RenderWatch, LongReasonIsPrintedBelowTheFigures) {
  v1::WatchJobResponse state = State();
  const std::string reason =
      "the data of the job: shard train-00000.bin of corpus text cannot be served from the coordinator's data root";
  state.mutable_workers(1)->set_waiting_for(reason);
  EXPECT_THAT(Texts(RenderWatch(state, {80, 24, true})),
              testing::IsSupersetOf({"  tokyo-2  waiting     step 1,240     21.0k tok/s  loss 3.1500",
                                     "      the data of the job: shard train-00000.bin of corpus text cannot be",
                                     "      served from the coordinator's data root"}));
  EXPECT_EQ(RenderWatch(state, {80, 24, true})[6].style, WatchLine::Style::kWarning);
  EXPECT_THAT(Texts(RenderWatch(state, {200, 24, true}))[5], HasSubstr(reason))
      << "where there is room it stays behind";
  // Ten rows have no space for reasons: the workers' lines come first.
  const std::vector<std::string> few = Texts(RenderWatch(state, {80, 9, true}));
  EXPECT_THAT(few[5], HasSubstr("loss 3.1500  the data of th"));
  EXPECT_EQ(few.size(), 7u);
}

TEST(RenderWatch, AnEmptyJobIsNoTrouble) {
  const std::vector<std::string> lines = Texts(RenderWatch({}, {80, 24, false}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[1], HasSubstr("0 %"));
}

TEST(RenderWatch, PlainTerminalsGetAscii) {
  for (const std::string& line : Texts(RenderWatch(State(), {80, 24, false}))) {
    for (const char c : line) EXPECT_GE(c, ' ') << line;
  }
}

TEST(Sparkline, ScalesToItsRange) {
  EXPECT_EQ(Sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, true), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline({9, 0, 7}, 2, true), "▁█");
  EXPECT_EQ(Sparkline({3, 3}, 8, true), "▁▁");
  EXPECT_EQ(Sparkline({}, 8, true), "");
  EXPECT_EQ(Sparkline({0, 7}, 8, false), "_#");
}

TEST(ProgressBar, FillsExactlyItsWidth) {
  EXPECT_EQ(ProgressBar(0.5, 12, false), "[#####.....]");
  EXPECT_EQ(ProgressBar(-1, 6, false), "[....]");
  EXPECT_EQ(ProgressBar(2, 6, false), "[####]");
  EXPECT_EQ(ProgressBar(0.999, 12, false), "[#########.]") << "full only when done";
}

TEST(WatchPainter, DrawsOverTheLastView) {
  std::ostringstream out;
  WatchPainter painter(out, false);
  painter.Draw({{"one", {}}, {"two", {}}}, {80, 24, true});
  painter.Draw({{"three", {}}}, {80, 24, true});
  EXPECT_EQ(out.str(), "\r\x1b[2Kone\n\r\x1b[2Ktwo\n\x1b[2A\r\x1b[2Kthree\n\x1b[J");
}

TEST(WatchPainter, RestartsAfterAResize) {
  std::ostringstream out;
  WatchPainter painter(out, false);
  painter.Draw({{"one", {}}}, {80, 24, true});
  painter.Draw({{"two", {}}}, {40, 24, true});
  painter.Draw({{"three", {}}}, {40, 24, true});
  painter.Draw({{"four", {}}}, {40, 50, true});
  EXPECT_EQ(out.str(), "\r\x1b[2Kone\n\x1b[H\x1b[2J\r\x1b[2Ktwo\n\x1b[1A\r\x1b[2Kthree\n\x1b[H\x1b[2J\r\x1b[2Kfour\n");
}

TEST(WatchPainter, ColoursWholeLines) {
  std::ostringstream out;
  WatchPainter(out, true).Draw({{"bad", WatchLine::Style::kBad}}, {80, 24, true});
  EXPECT_EQ(out.str(), "\r\x1b[2K\x1b[31mbad\x1b[0m\n");
}

TEST(EventLine, IsOneLine) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(45'067);
  event.set_kind("worker lost");
  event.set_text("tokyo-2 sent no heartbeat for 20 s\nsecond");
  EXPECT_EQ(EventLine(event), "12:31:07 worker lost: tokyo-2 sent no heartbeat for 20 s?second");
}

}  // namespace
}  // namespace atl::cli
