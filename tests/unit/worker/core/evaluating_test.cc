// Evaluations that score the job's tasks: pieces in order, and everything else between them.
#include <gtest/gtest.h>

#include "tests/unit/worker/core/fake_coordinator.h"

namespace atl::worker {
namespace {

JobSpec WithTasks() {
  JobSpec spec = SmallSpec();
  spec.evaluation.tasks = {{"a", {}, 40}, {"b", {}, 16}};
  return spec;
}

const EvaluationDone& DoneIn(const World& w) {
  for (const WorkerMessage& message : w.said) {
    if (const auto* done = std::get_if<EvaluationDone>(&message)) return *done;
  }
  static const EvaluationDone none;
  ADD_FAILURE() << "no evaluation was done";
  return none;
}

TEST(WorkerEvaluating, ScoresTasksPieceByPiece) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  w.Boundary();
  ASSERT_TRUE(w.Did("evaluate 1"));
  EXPECT_FALSE(w.Did("evaluation done")) << "the tasks are still to come";
  EXPECT_EQ(w.core().activity(), WorkerActivity::kEvaluating);
  for (const char* piece : {"score 0 0+16", "score 0 16+16", "score 0 32+8", "score 1 0+16"}) {
    EXPECT_FALSE(w.Did(piece));
    w.Boundary();
    EXPECT_TRUE(w.Did(piece));
  }
  const EvaluationDone& done = DoneIn(w);
  EXPECT_EQ(done.nll_micro_nats, 5'000'000);
  ASSERT_EQ(done.tasks.size(), 2u);
  EXPECT_EQ(done.tasks[0], (TaskScore{"a", 40, 20, std::nullopt}));
  EXPECT_EQ(done.tasks[1], (TaskScore{"b", 16, 8, 1}));
  EXPECT_EQ(w.steps_taken, 0u) << "no step between the pieces";
  w.Steps(2);
  EXPECT_EQ(w.steps_taken, 2u);
}

TEST(WorkerEvaluating, ReadsHeldOutSamplesPieceByPiece) {
  World w(SmallSpec());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 40, false});
  for (const char* piece : {"evaluate 1: 0+16", "evaluate 1: 16+16", "evaluate 1: 32+8"}) {
    EXPECT_FALSE(w.Did("evaluation done"));
    EXPECT_FALSE(w.Did(piece));
    w.Boundary();
    EXPECT_TRUE(w.Did(piece));
  }
  const EvaluationDone& done = DoneIn(w);
  EXPECT_EQ(done.nll_micro_nats, 15'000'000);
  EXPECT_EQ(done.tokens, 30u);
  EXPECT_EQ(done.text_bytes, 60u);
  EXPECT_EQ(w.steps_taken, 0u);
}

TEST(WorkerEvaluating, EndsWhereTheHeldOutSplitEnds) {
  for (const uint64_t there : {0u, 16u, 20u}) {
    World w(SmallSpec());
    w.held_out_samples = there;
    w.Start();
    w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 1000, false});
    for (int i = 0; i < 4; ++i) w.Boundary();
    EXPECT_EQ(w.Count("evaluate "), there == 0 ? 1 : 2) << there;
    EXPECT_TRUE(w.Did("evaluation done"));
  }
}

TEST(WorkerEvaluating, LeavesBetweenTwoPiecesOfTheHeldOutSamples) {
  World w(SmallSpec());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 1000, false});
  w.Boundary();
  ASSERT_EQ(w.Count("evaluate "), 1);
  w.Give(LeaveWanted{"SIGTERM"});
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("leaving"));
  EXPECT_EQ(w.Count("evaluate "), 1);
  EXPECT_FALSE(w.Did("evaluation done"));
}

TEST(WorkerEvaluating, ScoresNoTasksUnasked) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, false});
  w.Boundary();
  EXPECT_TRUE(w.Did("evaluation done"));
  EXPECT_TRUE(DoneIn(w).tasks.empty());
  EXPECT_FALSE(w.Did("score "));
}

TEST(WorkerEvaluating, LeavesBetweenTwoPieces) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  w.Boundary();
  w.Boundary();
  ASSERT_EQ(w.Count("score "), 1);
  w.Give(LeaveWanted{"SIGTERM"});
  for (int i = 0; i < 3; ++i) w.Boundary();
  EXPECT_TRUE(w.Did("leaving"));
  EXPECT_EQ(w.Count("score "), 1);
  EXPECT_FALSE(w.Did("evaluation done"));
}

TEST(WorkerEvaluating, ScoresOfABreakAreSaidAfterIt) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  w.Boundary();
  w.Give(StreamDown{});
  for (int i = 0; i < 4; ++i) w.Boundary();
  EXPECT_EQ(w.Count("score "), 4);
  EXPECT_FALSE(w.Did("evaluation done"));
  w.Connect(true);
  w.Assign({Version{0}});
  EXPECT_EQ(DoneIn(w).tasks.size(), 2u);
}

TEST(WorkerEvaluating, OneThatIsAskedForAgainAfterABreakIsSaidAgainAndNotMadeAgain) {
  World w;
  w.Start();
  const EvaluationAssigned asked{JobId{"tiny"}, 1, {Version{0}}, 10};
  w.Hear(asked);
  w.Boundary();
  ASSERT_EQ(w.Count("evaluation done"), 1) << "on a stream that is gone already";
  w.Publish(0, 1, {"w2"}, 4);
  w.Steps(1);
  ASSERT_TRUE(w.Did("applied 0 v1"));
  w.Give(StreamDown{});
  w.Connect(true);
  w.Assign({Version{1}}, 4);
  w.Hear(asked);
  EXPECT_EQ(w.Count("evaluation done"), 2);
  EXPECT_EQ(DoneIn(w).nll_micro_nats, 5'000'000);
  w.Steps(1);
  EXPECT_EQ(w.Count("evaluate 1"), 1);
  EXPECT_FALSE(w.Did("evaluation not possible"));
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{1}}, 10});
  w.Boundary();
  EXPECT_EQ(w.Count("evaluate 1"), 2) << "of other versions it is another one";
}

TEST(WorkerEvaluating, AResultWithoutTheScoresAskedForIsMadeAgain) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, false});
  w.Boundary();
  ASSERT_EQ(w.Count("evaluation done"), 1);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  for (int i = 0; i < 5; ++i) w.Boundary();
  EXPECT_EQ(w.Count("evaluate 1"), 2);
  EXPECT_EQ(w.Count("evaluation done"), 2);
}

TEST(WorkerEvaluating, GivenAgainAtNewerVersionsItBeginsAnew) {
  World w;
  w.Start();
  w.evaluate = false;
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{0}}, 10});
  w.Boundary();
  ASSERT_EQ(w.Count("evaluate 3"), 1);
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{0}}, 10});
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{1}}, 10});
  w.Give(HeldOutEvaluated{3, 10, 100, 10, 30});
  EXPECT_FALSE(w.Did("evaluation done")) << "it is of version 0";
  w.Publish(0, 1, {"w2"}, 4);
  w.evaluate = true;
  for (int i = 0; i < 4 && !w.Did("evaluation done"); ++i) w.Boundary();
  EXPECT_TRUE(w.Did("evaluation done"));
  EXPECT_EQ(w.Count("evaluate 3"), 2);
}

TEST(WorkerEvaluating, VersionsThatDoNotComeAreNamed) {
  World w;
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{2}}, 10});
  w.Boundary();
  w.Wait(World::Options().evaluation_patience);
  w.Boundary();
  EXPECT_TRUE(
      w.Did("note evaluation not possible: evaluation 3 of job tiny: waited 30 s for its versions; fragment 0 is "
            "at 0, of 2"));
}

TEST(WorkerEvaluating, AFailureEndsIt) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  w.Boundary();
  w.Give(EvaluationFailed{1, "task a: came with another SHA-256"});
  EXPECT_TRUE(w.Did("note evaluation failed"));
  const EvaluationDone& done = DoneIn(w);
  EXPECT_EQ(done.evaluation, 1u);
  EXPECT_EQ(done.failure, "task a: came with another SHA-256") << "the coordinator need not wait for its time to pass";
  EXPECT_TRUE(done.tasks.empty());
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 1u);
  EXPECT_FALSE(w.Did("score "));
}

}  // namespace
}  // namespace atl::worker
