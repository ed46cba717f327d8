// SPDX-License-Identifier: Apache-2.0
// Diagnostics of rounds: fields, metrics, participation, and the warning about the momentum.
#include "coordinator/engine/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const JobId kJob{"tiny"};

class DiagnosticsTest : public testing::Test {
 protected:
  void Hear(const std::string& worker, const JobId& job = kJob) {
    Heartbeat heartbeat;
    heartbeat.job = job;
    diagnostics_.Heard({worker}, heartbeat);
  }
  RoundRecord Record(const std::vector<std::string>& workers) {
    RoundRecord record;
    record.job = kJob;
    record.epoch = epoch_;
    record.reached = {FragmentIndex{2}, Version{++version_}};
    record.learning_rate = 0.7;
    record.momentum = 0.9;
    record.clock_step = 100;
    uint64_t age_steps = 1;
    for (const std::string& worker : workers) {
      ContributionHeader header;
      header.worker = {worker};
      header.send_step = 100 - age_steps++;
      header.upload_error_nano = said_[worker];
      record.contributions.push_back({header, 0.5, 1.0});
    }
    return record;
  }
  RoundMeasures Measures(const std::vector<std::string>& workers) {
    RoundMeasures measures;
    measures.merged_norm = 2;
    measures.outer_step_norm = 5;
    measures.download_error = 0.25;
    for (const std::string& worker : workers)
      measures.contributions.push_back({.worker = {worker}, .weight = 0.5, .norm = 3, .cosine_to_merged = 0.75});
    return measures;
  }
  Diagnostics::Outcome Close(const std::vector<std::string>& workers, std::optional<double> alignment = std::nullopt) {
    last_ = Measures(workers);
    last_.momentum_alignment = alignment;
    return diagnostics_.OnRound(Record(workers), last_);
  }

  // Every worker but the last agrees in direction with the others.
  void CloseJudged(const std::vector<std::string>& workers, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      last_ = Measures(workers);
      for (ContributionMeasures& c : last_.contributions) c.cosine_to_others = 0.5;
      last_.contributions.back().cosine_to_others = -0.5;
      (void)diagnostics_.OnRound(Record(workers), last_);
    }
  }
  // True if the mean cosine to the others is shown for the worker.
  bool Shows(const std::string& worker) const {
    return metrics_.Expose().find("atoll_contribution_others_cosine_ratio{fragment=\"2\",job=\"tiny\",worker=\"" +
                                  worker + "\"}") != std::string::npos;
  }

  Metrics metrics_;
  Diagnostics diagnostics_{metrics_};
  uint64_t epoch_ = 0, version_ = 0;
  RoundMeasures last_;
  std::map<std::string, std::optional<uint64_t>> said_;  // errors of uploads, by worker
};

TEST_F(DiagnosticsTest, ARoundIsDescribedInFieldsAndMetrics) {
  Hear("a");
  said_["a"] = 125'000'000;
  Hear("b");
  const auto fields = Close({"a", "b"}, 0.5).fields;
  EXPECT_EQ(fields.at("directions"),
            "a:norm=3,cosine=0.7500,staleness_steps=1,upload_error=0.125 b:norm=3,cosine=0.7500,staleness_steps=2");
  EXPECT_EQ(fields.at("outer_step_gain"), "2.5");
  EXPECT_EQ(fields.at("download_error"), "0.25");
  EXPECT_EQ(fields.at("staleness_steps"), "2");
  EXPECT_EQ(fields.at("momentum_alignment"), "0.5000");
  EXPECT_EQ(fields.at("participation"), "a=1.000 b=1.000");
  EXPECT_FALSE(fields.contains("step_alignment"));
  EXPECT_EQ(last_.staleness_steps, 2u);
  EXPECT_EQ(last_.contributions[0].upload_error, 0.125);
  const std::string text = metrics_.Expose();
  for (const char* line : {"atoll_contribution_norm{fragment=\"2\",job=\"tiny\",worker=\"a\"} 3",
                           "atoll_contribution_cosine_ratio{fragment=\"2\",job=\"tiny\",worker=\"b\"} 0.75",
                           "atoll_outer_step_gain_ratio{fragment=\"2\",job=\"tiny\"} 2.5",
                           "atoll_download_error_ratio{fragment=\"2\",job=\"tiny\"} 0.25",
                           "atoll_round_staleness_steps{fragment=\"2\",job=\"tiny\"} 2",
                           "atoll_momentum_alignment_ratio{fragment=\"2\",job=\"tiny\"} 0.5",
                           "atoll_participation_ratio{job=\"tiny\",worker=\"a\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(text.find("atoll_outer_step_alignment_ratio{"), std::string::npos);
}

TEST_F(DiagnosticsTest, ParticipationIsAMovingShareOfConnectedWorkers) {
  Hear("a");
  Hear("b");
  (void)Close({"a", "b"});
  (void)Close({"a"});
  EXPECT_DOUBLE_EQ(diagnostics_.Participation(kJob).at({"a"}), 1);
  EXPECT_DOUBLE_EQ(diagnostics_.Participation(kJob).at({"b"}), 31.0 / 32);
  (void)Close({"a", "b"});
  EXPECT_DOUBLE_EQ(diagnostics_.Participation(kJob).at({"b"}), 31.0 / 32 * 31 / 32 + 1.0 / 32);
  diagnostics_.Gone({"b"});
  EXPECT_FALSE(diagnostics_.Participation(kJob).contains({"b"}));
  Hear("a", JobId{"other"});
  EXPECT_TRUE(diagnostics_.Participation(kJob).empty()) << "it works for another job";
}

TEST_F(DiagnosticsTest, WarnsOnceWhenTheWorkersPullAgainstTheMomentum) {
  for (size_t i = 1; i < kMisfitRounds; ++i) EXPECT_THAT(Close({"a"}, -0.2).warnings, IsEmpty()) << "too few rounds";
  const auto outcome = Close({"a"}, -0.2);
  ASSERT_EQ(outcome.warnings.size(), 1u);
  EXPECT_EQ(outcome.warnings[0].kind, kMomentumMisfit);
  EXPECT_EQ(outcome.warnings[0].job, kJob);
  EXPECT_THAT(outcome.warnings[0].text, HasSubstr("newest 10 rounds of fragment 2 have a mean cosine of -0.20"));
  EXPECT_THAT(outcome.warnings[0].text, HasSubstr("momentum 0.9 and learning rate 0.7"));
  EXPECT_EQ(outcome.warnings[0].fields.at("version"), "10");
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Close({"a"}, -0.2).warnings, IsEmpty()) << "said already";
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Close({"a"}, 0.3).warnings, IsEmpty());
  int again = 0;
  for (int i = 0; i < 20; ++i) again += !Close({"a"}, -0.3).warnings.empty();
  EXPECT_EQ(again, 1) << "after it had fitted";
}

TEST_F(DiagnosticsTest, NoWarningForNoiseOrAlignedRoundsOrNoMomentum) {
  for (int i = 0; i < 40; ++i) EXPECT_THAT(Close({"a"}, i % 2 == 0 ? -0.3 : 0.25).warnings, IsEmpty());
  EXPECT_NEAR(last_.momentum_mean.value_or(9), -0.025, 1e-12);
  for (int i = 0; i < 40; ++i) EXPECT_THAT(Close({"a"}, 0.9).warnings, IsEmpty());
  for (int i = 0; i < 40; ++i) EXPECT_THAT(Close({"a"}).warnings, IsEmpty());
}

TEST_F(DiagnosticsTest, ARollbackBeginsANewWindow) {
  for (size_t i = 1; i < kMisfitRounds; ++i) (void)Close({"a"}, -0.2);
  ++epoch_;
  EXPECT_THAT(Close({"a"}, -0.2).warnings, IsEmpty());
}

// An alert depends on the figure: one round does not suffice, and an old verdict must not stay on
// display.
TEST_F(DiagnosticsTest, TheCosineToTheOthersIsShownWhileItIsJudged) {
  for (const char* worker : {"a", "b", "e"}) Hear(worker);
  CloseJudged({"a", "b", "e"}, kDirectionRounds - 1);
  EXPECT_FALSE(Shows("e")) << "too few rounds";
  CloseJudged({"a", "b", "e"}, 1);
  EXPECT_TRUE(Shows("a"));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("atoll_contribution_others_cosine_ratio{fragment=\"2\",job=\"tiny\",worker=\"e\"} -0.5\n"));
  CloseJudged({"a", "e"}, kDirectionRounds - 1);
  EXPECT_TRUE(Shows("e")) << "a round of two now and then";
  EXPECT_TRUE(last_.contributions[1].against_others);
  CloseJudged({"a", "e"}, 1);
  EXPECT_FALSE(Shows("e"));
  EXPECT_FALSE(Shows("b")) << "it is in no round any more";
  EXPECT_FALSE(last_.contributions[1].against_others);
  CloseJudged({"a", "b", "e"}, 1);
  EXPECT_TRUE(Shows("e")) << "judged again";
}

TEST_F(DiagnosticsTest, TheCosineToTheOthersGoesWithItsWorkerAndARollback) {
  for (const char* worker : {"a", "b", "e"}) Hear(worker);
  CloseJudged({"a", "b", "e"}, kDirectionRounds);
  Hear("e", JobId{"other"});
  EXPECT_FALSE(Shows("e")) << "it works for another job";
  EXPECT_TRUE(Shows("a"));
  CloseJudged({"a", "b", "e"}, 1);
  EXPECT_FALSE(Shows("e")) << "a round that it was part of before";
  Hear("e");
  CloseJudged({"a", "b", "e"}, 1);
  EXPECT_TRUE(Shows("e"));
  diagnostics_.Gone({"e"});
  EXPECT_FALSE(Shows("e"));
  EXPECT_TRUE(Shows("b"));
  ++epoch_;
  CloseJudged({"a", "b"}, 1);
  EXPECT_THAT(metrics_.Expose(), Not(HasSubstr("atoll_contribution_others_cosine_ratio{")));
}

TEST_F(DiagnosticsTest, AJobThatHasEndedLeavesNothing) {
  Hear("a");
  Close({"a", "b"});
  EXPECT_THAT(diagnostics_.Participation(kJob), Not(IsEmpty()));
  CloseJudged({"a", "b", "c"}, static_cast<int>(kDirectionRounds));
  diagnostics_.ForgetJob(kJob);
  EXPECT_THAT(diagnostics_.Participation(kJob), IsEmpty());
  CloseJudged({"a", "b", "c"}, 1);
  for (const ContributionMeasures& c : last_.contributions) EXPECT_FALSE(c.others_mean.has_value()) << c.worker.value;
}

}  // namespace
}  // namespace atl
