// SPDX-License-Identifier: Apache-2.0
// Breaks laws of laws.h, each by records with no other fault.
#include "tests/sim/laws.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

const JobId kJob{"j"};
constexpr uint64_t kSequence = 8;

ContributionHeader Contribution(const std::string& worker, uint64_t version, uint64_t cursor, uint64_t tokens) {
  ContributionHeader header;
  header.job = kJob;
  header.worker = WorkerId{worker};
  header.target = {FragmentIndex{0}, Version{version}};
  header.digest = Digest{version + 1, 1};
  header.tokens = tokens;
  header.steps = 1;
  header.cursors = {{LeaseId{worker == "a" ? 1u : 2u}, cursor}};
  return header;
}

RoundRecord Round(uint64_t reached, std::vector<ContributionHeader> headers) {
  RoundRecord round;
  round.job = kJob;
  round.reached = {FragmentIndex{0}, Version{reached}};
  round.boot = BootNumber{1};
  round.clock_step = reached;
  round.hash = Digest{reached, 2};
  for (ContributionHeader& header : headers) {
    CommittedContribution contribution;
    contribution.header = std::move(header);
    contribution.weight = 1.0 / static_cast<double>(headers.size());
    round.contributions.push_back(std::move(contribution));
  }
  return round;
}

// A job of one fragment; worker a has samples 0 to 9, worker b 10 to 19.
class LawsTest : public testing::Test {
 protected:
  LawsTest() {
    JobRecord job;
    job.job = kJob;
    job.state = JobState::kRunning;
    job.fragments = 1;
    job.spec.data.sequence_length = kSequence;
    job.spec.workers.min = 1;
    LeaseRecord first, second;
    first.lease = LeaseId{1};
    first.job = second.job = kJob;
    first.worker = WorkerId{"a"};
    first.range = {0, 10};
    second.lease = LeaseId{2};
    second.worker = WorkerId{"b"};
    second.range = {10, 20};
    laws_.Committed({job, first, second});
  }
  Laws laws_;
};

TEST_F(LawsTest, HoldWhereEverythingIsTakenIn) {
  laws_.Acknowledged(Contribution("a", 0, 4, 4 * kSequence));
  laws_.Committed({Round(1, {Contribution("a", 0, 4, 4 * kSequence), Contribution("b", 0, 13, 3 * kSequence)})});
  laws_.Acknowledged(Contribution("b", 0, 13, 3 * kSequence));
  laws_.Committed({Round(2, {Contribution("a", 1, 5, kSequence)})});
  EXPECT_EQ(laws_.broken(), "");
}

TEST_F(LawsTest, ARoundThatIsMadeWithoutWhatWasAcceptedBreaksOne) {
  laws_.Acknowledged(Contribution("b", 0, 13, kSequence));
  laws_.Committed({Round(1, {Contribution("a", 0, 4, kSequence)})});
  EXPECT_NE(laws_.broken().find("I2: the contribution of worker b to version 0"), std::string::npos) << laws_.broken();
}

TEST_F(LawsTest, SoDoesAnAcceptanceThatIsToldAfterwards) {
  laws_.Committed({Round(1, {Contribution("a", 0, 4, kSequence)})});
  laws_.Acknowledged(Contribution("b", 0, 13, kSequence));
  EXPECT_NE(laws_.broken().find("I2: the contribution of worker b to version 0"), std::string::npos) << laws_.broken();
}

TEST_F(LawsTest, WhatTheScreensRefusedMayBeLeftOut) {
  laws_.Acknowledged(Contribution("b", 0, 13, kSequence));
  const Digest digest = Contribution("b", 0, 13, kSequence).digest;
  laws_.Committed({ScreenedRecord{kJob, 0, {FragmentIndex{0}, Version{0}}, WorkerId{"b"}, digest}});
  laws_.Committed({Round(1, {Contribution("a", 0, 4, kSequence)})});
  EXPECT_EQ(laws_.broken(), "");
}

TEST_F(LawsTest, TokensWithoutNewSamplesBreakOne) {
  laws_.Committed({Round(1, {Contribution("a", 0, 4, 4 * kSequence)})});
  EXPECT_EQ(laws_.broken(), "");
  laws_.Committed({Round(2, {Contribution("a", 1, 5, 2 * kSequence)})});
  EXPECT_NE(laws_.broken().find("I9: worker a counts 16 tokens and 1 steps"), std::string::npos) << laws_.broken();
}

// 4 samples a period and 2 periods: at most 12. Samples committed in the same transaction do not
// count.
TEST_F(LawsTest, ALeaseBeyondWhatAWorkerMayHoldBreaksOne) {
  JobRecord job;
  job.job = JobId{"k"};
  job.spec.sync.inner_steps = 2;
  job.spec.sync.max_unsynced_periods = 2;
  job.spec.batch.sequences_per_step = 2;
  LeaseRecord first, second, third;
  first.job = second.job = third.job = job.job;
  first.worker = second.worker = third.worker = WorkerId{"a"};
  first.lease = LeaseId{3}, second.lease = LeaseId{4}, third.lease = LeaseId{5};
  first.range = {0, 8}, second.range = {8, 12}, third.range = {12, 16};
  first.request = 1, second.request = 2, third.request = 3;
  laws_.Committed({job, first});
  laws_.Committed({second});
  first.consumed_to = 4;
  laws_.Committed({third, first});
  EXPECT_EQ(laws_.broken(), "");
  LeaseRecord fourth = third;
  fourth.lease = LeaseId{6};
  fourth.range = {16, 17};
  fourth.request = 4;
  laws_.Committed({fourth});
  EXPECT_EQ(laws_.broken(), "worker a is given lease 6 of job k and holds 13 samples then, more than 12");
}

TEST_F(LawsTest, AWorkerThatLeavesItsJobWithAnErrorBreaksOne) {
  laws_.Failed(WorkerId{"a"}, JobFailure{kJob, "a replica that is ready", false});
  EXPECT_EQ(laws_.broken(), "worker a leaves job j with an error: a replica that is ready");
}

}  // namespace
}  // namespace atl
