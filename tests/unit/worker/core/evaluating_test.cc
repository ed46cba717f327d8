// SPDX-License-Identifier: Apache-2.0
// Evaluations that score the job's tasks: pieces in order, interleaved with all other work.
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

// The coordinator would refuse a negative sum at each retry.
TEST(WorkerEvaluating, TheLossOfAModelThatHasDivergedIsLargeAndNotNegative) {
  for (const uint64_t pieces : {uint64_t{12}, uint64_t{20}}) {
    World w(SmallSpec());
    w.piece_micro_nats = 1'000'000'000'000'000'000;
    w.Start();
    w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 16 * pieces, false});
    for (uint64_t i = 0; i < pieces; ++i) w.Boundary();
    EXPECT_EQ(DoneIn(w).nll_micro_nats, 9'000'000'000'000'000'000) << pieces;
  }
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

TEST(WorkerEvaluating, ScoresDuringADisconnectAreSentAfterIt) {
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
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  EXPECT_EQ(DoneIn(w).tasks.size(), 2u);
  EXPECT_EQ(w.Count("score "), 4);
}

TEST(WorkerEvaluating, RepeatedRequestResendsTheResult) {
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

TEST(WorkerEvaluating, NewerVersionsRestartTheEvaluation) {
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
            "at 0, of 2; training is not stalled for longer"));
}

TEST(WorkerEvaluating, AnEvaluatorWaitsForVersionsAsLongAsTheirBytesMayTake) {
  CoreOptions options = World::Options();
  options.evaluate_only = true;
  World w(SmallSpec(), 1, options);
  w.whole_bytes = 10'000'000;
  w.update_bytes = 5'000'000;
  w.Start();
  w.Boundary();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 3, {Version{1}}, 10});
  w.Boundary();
  w.Wait(Seconds(37));
  w.Boundary();
  EXPECT_FALSE(w.Did("evaluation not possible"));
  w.Wait(Seconds(1));
  w.Boundary();
  EXPECT_TRUE(
      w.Did("waited 38 s for its versions; fragment 0 is at 0, of 1; the limit is 30 s and twice the time of 5000000 "
            "bytes at 10 Mbit/s"));
}

// Three pieces of 16, 16 and 8 samples.
EvaluationAssigned ThreePieces(uint64_t version) { return {JobId{"tiny"}, 1, {Version{version}}, 40, false}; }

size_t PlaceOf(const World& w, const std::string& line) {
  for (size_t i = 0; i < w.lines.size(); ++i) {
    if (w.lines[i].find(line) != std::string::npos) return i;
  }
  ADD_FAILURE() << line << " was not done";
  return w.lines.size();
}

TEST(WorkerEvaluating, NoVersionIsLeaptToWhileOneIsEvaluated) {
  World w;
  w.update_bytes = 64;  // two updates are fetched already, two more are needed: the whole fragment is fewer bytes
  w.Start();
  w.Steps(3);
  w.Hear(ThreePieces(0));
  w.Boundary();
  ASSERT_TRUE(w.Did("evaluate 1: 0+16"));
  w.snapshot = Version{4};
  for (uint64_t v = 1; v <= 4; ++v) w.Publish(0, v, {"w2"}, 4 * v);
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("evaluate 1: 32+8"));
  EXPECT_LT(PlaceOf(w, "evaluation done"), PlaceOf(w, "fetch fragment 0 from v4"));
  EXPECT_LT(PlaceOf(w, "evaluation done"), PlaceOf(w, "leap 0 v4")) << "it would be of two versions";
  EXPECT_GE(w.core().fragments()[0].steps_behind, 3u);
}

TEST(WorkerEvaluating, NoVersionIsLeaptToAfterABreakWhileOneIsEvaluated) {
  World w;
  w.Start();
  w.Hear(ThreePieces(0));
  w.Boundary();
  w.Give(StreamDown{});
  w.Connect(true);
  w.lines.clear();
  w.Assign({Version{6}}, 24);
  w.Hear(ThreePieces(0));
  w.Boundary();
  w.Boundary();
  EXPECT_EQ(w.Count("evaluate 1"), 2);
  EXPECT_LT(PlaceOf(w, "evaluation done"), PlaceOf(w, "leap 0 v6"));
}

// If an update is no longer kept the worker fetches the whole fragment, with or without its drift; but not during an
// evaluation.
TEST(WorkerEvaluating, TheFragmentIsFetchedWholeWhenTheEvaluationIsOver) {
  enum class End { kDone, kFailed, kGivenAnew, kSaidAgain };
  for (const bool held : {false, true}) {
    for (const End end : {End::kDone, End::kFailed, End::kGivenAnew, End::kSaidAgain}) {
      World w;
      w.Start();
      if (end == End::kSaidAgain) {
        w.Hear(ThreePieces(0));
        for (int i = 0; i < 3; ++i) w.Boundary();
      }
      w.Steps(held ? 4 : 3);
      w.Boundary();
      ASSERT_EQ(w.core().fragments()[0].contribution_held, held);
      w.evaluate = end == End::kDone;
      w.Hear(end == End::kSaidAgain ? EvaluationAssigned{JobId{"tiny"}, 2, {Version{0}}, 40} : ThreePieces(0));
      w.Boundary();
      w.fetch_updates = false;
      w.snapshot = Version{2};
      w.Publish(0, 1, {"w2"}, 4);
      w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
      w.Publish(0, 2, {"w2"}, 8);
      w.Boundary();
      EXPECT_FALSE(w.Did("fetch fragment 0 from v1") || w.Did("drop fetches")) << "the evaluation is at it";
      EXPECT_FALSE(w.Did("fetch update 0 v2")) << "it would come to nothing";
      if (end == End::kDone) w.Boundary();
      if (end == End::kFailed) w.Give(EvaluationFailed{1, "no"});
      if (end == End::kGivenAnew) w.Hear(ThreePieces(2));
      if (end == End::kSaidAgain) w.Hear(ThreePieces(0));
      EXPECT_EQ(w.Did("leap 0 v2"), !held);
      EXPECT_EQ(w.Count("install 0 v2"), held ? 1 : 0);
      EXPECT_EQ(w.core().fragments()[0].applied.value, 2u);
    }
  }
}

TEST(WorkerEvaluating, AWorkerThatLeavesAnEvaluationCatchesUpAndSendsWhatItHas) {
  World w;
  w.update_bytes = 64;
  w.Start();
  w.Steps(3);
  w.Hear(ThreePieces(0));
  w.Boundary();
  w.snapshot = Version{4};
  for (uint64_t v = 1; v <= 4; ++v) w.Publish(0, v, {"w2"}, 4 * v);
  EXPECT_FALSE(w.Did("leap 0 v4"));
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  w.Boundary();
  EXPECT_TRUE(w.Did("leap 0 v4"));
  EXPECT_TRUE(w.Did("upload 0 v4 steps 3"));
  EXPECT_FALSE(w.Did("evaluation done"));
}

TEST(WorkerEvaluating, AFragmentThatIsBeingFetchedWholeIsWaitedFor) {
  for (const bool comes : {true, false}) {
    World w;
    w.Start();
    w.Steps(3);
    w.Give(StreamDown{});
    w.Connect(true);
    w.finish_fetches = w.fetch_updates = false;
    w.Assign({Version{6}}, 24);
    ASSERT_TRUE(w.Did("fetch fragment 0 from v4"));
    w.Hear(ThreePieces(0));
    w.Boundary();
    EXPECT_FALSE(w.Did("evaluate 1")) << "its parameters may change at any time";
    if (comes) {
      w.Give(FragmentFetched{FragmentIndex{0}, Version{6}});
    } else {
      w.Give(FragmentFetchFailed{FragmentIndex{0}, "an older snapshot"});
    }
    for (int i = 0; i < 3; ++i) w.Boundary();
    EXPECT_EQ(w.Did("leap 0 v6"), comes);
    EXPECT_EQ(w.Did("evaluation done: this worker's outer copies are already newer"), comes);
    EXPECT_EQ(w.Count("evaluate 1"), comes ? 0 : 3);
  }
}

TEST(WorkerEvaluating, AFragmentThatDoesNotComeIsNamed) {
  World w;
  w.Start();
  w.Give(StreamDown{});
  w.Connect(true);
  w.finish_fetches = false;
  w.Assign({Version{6}}, 24);
  w.Hear(ThreePieces(0));
  w.Boundary();
  w.Wait(World::Options().evaluation_patience);
  w.Boundary();
  EXPECT_TRUE(w.Did("waited 30 s for its versions; fragment 0 is being fetched whole"));
  EXPECT_TRUE(w.Did("evaluation done: waited 30 s"));
}

// Neither the update nor a newer snapshot exists. The worker finishes the evaluation before it discards the drift,
// and then a newer snapshot may exist.
TEST(WorkerEvaluating, AFragmentThatDidNotComeWholeIsAskedForAgainAfterIt) {
  World w;
  w.Start();
  w.Steps(3);
  w.finish_fetches = w.fetch_updates = false;
  w.Publish(0, 1, {"w2"}, 4);
  w.Give(UpdateFetchFailed{{FragmentIndex{0}, Version{1}}, "not kept"});
  ASSERT_TRUE(w.Did("fetch fragment 0 from v1"));
  w.Hear(ThreePieces(0));
  w.Publish(0, 3, {"w2"}, 12);
  w.Give(FragmentFetchFailed{FragmentIndex{0}, "an older snapshot"});
  for (int i = 0; i < 2; ++i) w.Boundary();
  EXPECT_EQ(w.Count("evaluate 1"), 2);
  EXPECT_EQ(w.Count("fetch fragment 0"), 2) << "at the start, and the leap";
  w.finish_fetches = true;
  w.snapshot = Version{3};
  w.Boundary();
  EXPECT_LT(PlaceOf(w, "evaluation done"), PlaceOf(w, "leap 0 v3"));
}

// An unavailable coordinator does not cost the pieces scored so far.
TEST(WorkerEvaluating, APieceWhoseDataIsNotReachedIsAskedForAgain) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 40, true});
  w.Boundary();
  w.evaluate = false;
  for (int i = 0; i < 5; ++i) {
    w.Boundary();
    ASSERT_EQ(w.Count("evaluate 1: 16+16"), i + 1);
    w.Give(EvaluationDelayed{1, "block 3: Socket closed"});
    w.Boundary();
    ASSERT_EQ(w.Count("evaluate 1: 16+16"), i + 1) << "after a pause";
    EXPECT_EQ(w.core().NextWake(), w.now() + kFetchRepeat);
    EXPECT_NE(w.core().waiting_for(w.now()).find("block 3: Socket closed"), std::string::npos);
    EXPECT_EQ(w.core().activity(), WorkerActivity::kEvaluating);
    w.Wait(kFetchRepeat);
  }
  w.evaluate = true;
  for (int i = 0; i < 2; ++i) w.Boundary();
  EXPECT_EQ(w.core().waiting_for(w.now()), "");
  w.evaluate = false;
  w.Boundary();
  ASSERT_EQ(w.Count("score 0 0+16"), 1);
  w.Give(EvaluationDelayed{1, "late, and of no piece that is asked for"});
  for (int i = 0; i < 10; ++i) w.Boundary();
  EXPECT_EQ(w.Count("note evaluation delayed"), 1);
  EXPECT_EQ(DoneIn(w).nll_micro_nats, 15'000'000);
  EXPECT_EQ(DoneIn(w).tasks.size(), 2u);
}

TEST(WorkerEvaluating, APieceWaitsForItsDataNoLongerThanForItsVersions) {
  World w;
  w.evaluate = false;
  w.Start();
  w.Hear(ThreePieces(0));
  for (int i = 0; i < 20 && !w.Did("evaluation done"); ++i) {
    w.Boundary();
    w.Give(EvaluationDelayed{1, "block 3: Socket closed"});
    w.Wait(kFetchRepeat);
  }
  EXPECT_EQ(w.Count("evaluate 1: 0+16"), 16);
  EXPECT_TRUE(w.Did("evaluation done: waited 30 s; block 3: Socket closed"));
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 1u);
}

TEST(WorkerEvaluating, LeavesWhileAPieceWaitsForItsData) {
  World w;
  w.evaluate = false;
  w.Start();
  w.Hear(ThreePieces(0));
  w.Boundary();
  w.Give(EvaluationDelayed{1, "the worker is leaving"});
  w.Give(LeaveWanted{"SIGTERM"});
  w.Boundary();
  EXPECT_TRUE(w.Did("leaving"));
  EXPECT_FALSE(w.Did("evaluation done"));
}

TEST(WorkerEvaluating, AFailureEndsIt) {
  World w(WithTasks());
  w.Start();
  w.Hear(EvaluationAssigned{JobId{"tiny"}, 1, {Version{0}}, 10, true});
  w.Boundary();
  w.Give(EvaluationFailed{1, "task a: has another SHA-256"});
  EXPECT_TRUE(w.Did("note evaluation failed"));
  const EvaluationDone& done = DoneIn(w);
  EXPECT_EQ(done.evaluation, 1u);
  EXPECT_EQ(done.failure, "task a: has another SHA-256") << "the coordinator need not wait for its time to pass";
  EXPECT_TRUE(done.tasks.empty());
  w.Steps(1);
  EXPECT_EQ(w.steps_taken, 1u);
  EXPECT_FALSE(w.Did("score "));
}

}  // namespace
}  // namespace atl::worker
