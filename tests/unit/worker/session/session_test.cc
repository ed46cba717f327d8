// SPDX-License-Identifier: Apache-2.0
// A whole worker without network and LibTorch: control messages in, parameters changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

// Samples of one shard that this process may not read.
class ShardSamples final : public SampleSource, BlockSource {
 public:
  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) override {
    return reader_->AddLease(lease, range, cursor);
  }
  void RemoveLease(LeaseId lease) override { reader_->RemoveLease(lease); }
  // Waits for the reader's thread, however short the session's patience is.
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration) override { return reader_->Next(samples, Seconds(60)); }

 private:
  absl::StatusOr<std::string> FetchBlock(const BlockId&) override {
    return absl::FailedPreconditionError("open /data/text/train-00000.bin: Permission denied");
  }
  static std::unique_ptr<SampleReader> Reader(BlockSource& source, const Clock& clock) {
    CorpusManifest text;
    text.name = "text";
    text.files = {CorpusFile{.name = "train-00000.bin", .tokens = 5000, .blocks = {Sha256{}}}};
    DataSpec data;
    data.corpora = {CorpusSpec{.name = "text", .weight = 1}};
    data.sequence_length = 8;
    return *SampleReader::Create(data, std::make_shared<const std::vector<CorpusManifest>>(1, text), source, clock);
  }
  const SystemClock clock_{};
  std::unique_ptr<SampleReader> reader_ = Reader(*this, clock_);
};

TEST_F(SessionTest, JoinsTrainsContributesAndMerges) {
  Join();
  EXPECT_EQ(Count<Ready>(), 1);
  Train(4);
  // x <- x - 0.25 (x - 1) from 0, four times.
  const float trained = session_->local_parameters()[0];
  EXPECT_NEAR(trained, 1.0 - 0.75 * 0.75 * 0.75 * 0.75, 1e-6);
  ASSERT_EQ(link_.uploads.size(), 1u);
  const ContributionHeader& header = link_.uploads.at(0).header;
  EXPECT_EQ(header.steps, 4u);
  EXPECT_EQ(header.tokens, 4u * 2 * 8);
  EXPECT_EQ(header.digest, DigestOf(Bytes(*link_.uploads.at(0).bytes)));
  EXPECT_EQ(header.encoded_bytes, layout_.elements * 4);
  Commit(0, 1, {WorkerId{"w1"}});
  EXPECT_EQ(session_->outer_parameters()[0], trained) << "one worker, outer SGD with rate 1: plain training";
  Train(8);
  EXPECT_NEAR(session_->local_parameters()[0], 1.0 - std::pow(0.75, 8), 1e-6);
}

TEST_F(SessionTest, AWorkerThatIsNotInTheUpdateKeepsItsDrift) {
  Join();
  Train(4);
  const float trained = session_->local_parameters()[0];
  Commit(0, 1, {WorkerId{"w2"}});
  // Its own four steps are added to the others' movement.
  EXPECT_NEAR(session_->local_parameters()[0], trained + global_[0], 1e-6);
  EXPECT_EQ(session_->core().fragments()[0].missed, 1u);
  EXPECT_EQ(link_.uploads.at(0).header.target.version.value, 1u) << "sent again against the new version";
}

// fp32 updates are as many bytes as the fragment: two of them are more.
TEST_F(SessionTest, MissedVersionsFetchTheWholeFragmentAndKeepTheDrift) {
  Join();
  Train(3);
  session_->Post(worker::Event(worker::StreamDown{"gone"}));
  session_->Post(worker::Event(worker::StreamUp{}));
  Post(Welcome{BootNumber{1}, Incarnation{3}, true, Seconds(2), Seconds(20), {}});
  link_.fragments.clear();
  Post(Assignment{kJob, 1, spec_, 8, VersionVector(layout_.fragments.size(), Version{2})});
  Turn(2);
  ASSERT_EQ(link_.fragments.size(), layout_.fragments.size());
  EXPECT_TRUE(link_.updates.empty());
  EXPECT_EQ(link_.least.value, 2u);
  for (float& value : global_) value += 0.5f;
  float expected = session_->local_parameters()[0] + 0.5f;
  const size_t steps = steps_.size();
  for (uint32_t p = 0; p < layout_.fragments.size(); ++p) ServeFragment(p, 2);
  Turn();
  EXPECT_EQ(session_->outer_parameters()[0], 0.5f);
  for (size_t i = steps; i < steps_.size(); ++i) expected += 0.25f * (1 - expected);
  EXPECT_NEAR(session_->local_parameters()[0], expected, 1e-6);
  EXPECT_EQ(session_->core().fragments()[0].applied.value, 2u);
  EXPECT_GE(session_->core().fragments()[0].steps_behind, 3u);
}

// A step that an update allows is not part of a wait, although both fall into one turn.
TEST_F(SessionTest, StepReportsTheTimeSinceThePreviousStep) {
  Instant begin = kNever, end{};
  factory_.during_step = [&] {
    begin = std::min(begin, clock_.Now());
    clock_.Advance(Milliseconds(100));
    end = clock_.Now();
  };
  Join();
  Train(4);
  clock_.Advance(Seconds(3));
  Commit(0, 1, {WorkerId{"w1"}});
  Train(6);
  ASSERT_GE(steps_.size(), 6u);
  Duration whole{};
  for (const StepTaken& step : steps_) {
    EXPECT_EQ(step.took, Milliseconds(100));
    EXPECT_GE(step.sync_work, Duration{}) << "no moment counts twice";
    whole = whole + step.took + step.data_wait + step.sync_wait + step.sync_work;
  }
  EXPECT_EQ(whole, end - begin);
  EXPECT_GE(steps_[4].sync_wait, Seconds(3));
  EXPECT_EQ(steps_[5].sync_wait, Duration{});
}

TEST_F(SessionTest, WatcherSeesBeginAndEndOfAStep) {
  std::vector<std::string> during;
  factory_.during_step = [&] { during.push_back(stepping_); };
  Join();
  Train(2);
  EXPECT_EQ(during, (std::vector<std::string>(steps_.size(), kJob.value)));
  EXPECT_EQ(stepping_, "");
}

TEST_F(SessionTest, ADeviantIsHealed) {
  Join();
  Train(4);
  const TestLink::Sent sent = link_.uploads.at(0);
  session_->Post(worker::Event(worker::UploadEnded{sent.header.target, sent.header.digest, {}, ""}));
  const FragmentVersion reached{FragmentIndex{0}, Version{1}};
  Post(UpdatePublished{kJob, reached, Digest{1, 2}, sent.bytes->size(), {WorkerId{"w1"}}, 4});
  session_->Post(FetchedBytes{kJob, reached, false, Digest{1, 2}, sent.bytes});
  Turn(2);
  const auto* applied = std::get_if<Applied>(&link_.said.back());
  ASSERT_NE(applied, nullptr);
  EXPECT_FALSE(applied->hash_matches);
  std::fill(global_.begin(), global_.end(), 0.5f);
  ServeFragment(0, 1);
  Turn(2);
  EXPECT_EQ(session_->outer_parameters()[0], 0.5f);
  EXPECT_EQ(session_->core().fragments()[0].applied.value, 1u);
}

TEST_F(SessionTest, ADamagedFragmentIsAskedForAgain) {
  session_->Post(worker::Event(worker::StreamUp{}));
  Post(Welcome{BootNumber{1}, Incarnation{3}, false, Seconds(2), Seconds(20), {}});
  Post(Assignment{kJob, 1, spec_, 0, {Version{0}}});
  Turn(2);
  ASSERT_EQ(link_.fragments.size(), 1u);
  session_->Post(FetchedBytes{kJob, {FragmentIndex{0}, Version{0}}, true, Digest{9, 9}, BytesOf(Global(0))});
  Turn();
  EXPECT_EQ(Count<Ready>(), 0);
  link_.fragments.clear();
  clock_.Advance(worker::kFetchRepeat);
  Turn();
  EXPECT_EQ(link_.fragments.size(), 1u);
}

TEST_F(SessionTest, JobTooLargeIsRefusedWithTheReason) {
  factory_.failure = absl::ResourceExhaustedError("the model does not fit: 9 GiB are needed and 1 GiB are free");
  session_->Post(worker::Event(worker::StreamUp{}));
  Post(Welcome{BootNumber{1}, Incarnation{3}, false, Seconds(2), Seconds(20), {}});
  Post(Assignment{kJob, 1, spec_, 0, {Version{0}}});
  Turn(2);
  ASSERT_EQ(Count<JobFailure>(), 1);
  const auto& failure = std::get<JobFailure>(link_.said[1]);
  EXPECT_NE(failure.reason.find("9 GiB"), std::string::npos);
  EXPECT_FALSE(failure.permanent);
  EXPECT_EQ(session_->core().activity(), WorkerActivity::kIdle);
}

TEST_F(SessionTest, AnotherLayoutOfTheCoordinatorIsAFailureOfTheJob) {
  session_->Post(worker::Event(worker::StreamUp{}));
  Post(Welcome{BootNumber{1}, Incarnation{3}, false, Seconds(2), Seconds(20), {}});
  Post(Assignment{kJob, 1, spec_, 0, {Version{0}}, {}, 0, Digest{5, 6}});
  Turn(2);
  ASSERT_EQ(Count<JobFailure>(), 1);
  EXPECT_NE(std::get<JobFailure>(link_.said[1]).reason.find(Digest{5, 6}.Hex() + " at the"), std::string::npos);
  Post(Unassign{kJob, ""});
  Post(Assignment{kJob, 1, spec_, 0, {Version{0}}, {}, 0, layout_.digest}), Turn(2);
  EXPECT_EQ(link_.fragments.size(), 1u);
}

TEST_F(SessionTest, APreparationThatIsEndedForLeavingLeaves) {
  factory_.failure = absl::CancelledError("the transfer was cancelled");
  session_->Post(worker::Event(worker::StreamUp{}));
  Post(Welcome{BootNumber{1}, Incarnation{3}, false, Seconds(2), Seconds(20), {}});
  Post(Assignment{kJob, 1, spec_, 0, {Version{0}}});
  session_->RequestLeave("SIGTERM");
  Turn(2);
  ASSERT_TRUE(session_->exit().has_value());
  EXPECT_EQ(session_->exit()->text, "SIGTERM");
  EXPECT_EQ(Count<JobFailure>(), 0);
  EXPECT_TRUE(std::holds_alternative<Leaving>(link_.said.back()));
}

TEST_F(SessionTest, EvaluatesTheOuterCopy) {
  Join();
  Train(2);
  Post(EvaluationAssigned{kJob, 7, {Version{0}}, 10});
  Turn();
  ASSERT_EQ(Count<EvaluationDone>(), 1);
  const auto& done = std::get<EvaluationDone>(link_.said.back());
  EXPECT_EQ(done.evaluation, 7u);
  EXPECT_EQ(done.nll_micro_nats, static_cast<int64_t>(layout_.elements) * 500'000)
      << "at zero, not at the trained values";
}

TEST_F(SessionTest, APieceOfAnEvaluationThatIsNotReachedIsTriedAgain) {
  JobSpec spec = ToySpec();
  spec.evaluation.tasks = {{"a", {}, 4}};
  Make(spec);
  Join();
  factory_.unread = absl::UnavailableError("block 0: Socket closed");
  Post(EvaluationAssigned{kJob, 7, {Version{0}}, 10, true});
  Turn(3);
  factory_.unread = absl::OkStatus();
  clock_.Advance(worker::kFetchRepeat);
  session_->Turn();  // the held-out samples
  factory_.unread = absl::DeadlineExceededError("blob: nothing came");
  Turn(3);
  EXPECT_EQ(Count<EvaluationDone>(), 0);
  factory_.unread = absl::OkStatus();
  clock_.Advance(worker::kFetchRepeat);
  Turn();
  ASSERT_EQ(Count<EvaluationDone>(), 1);
  EXPECT_EQ(std::get<EvaluationDone>(link_.said.back()).failure, "");
}

TEST_F(SessionTest, MissingPieceFailsTheEvaluation) {
  Join();
  factory_.unread = absl::NotFoundError("shard held-out-00000.bin is not there");
  Post(EvaluationAssigned{kJob, 7, {Version{0}}, 10});
  Turn();
  ASSERT_EQ(Count<EvaluationDone>(), 1);
}

// Not even if other pieces of the sum have finite losses.
TEST_F(SessionTest, ALossThatIsNotFiniteIsNoEvaluation) {
  factory_.held_out_nll = [](const HeldOutPiece& piece) { return piece.first == 0 ? 5.0 : std::nan(""); };
  Make(ToySpec());
  Join();
  Post(EvaluationAssigned{kJob, 7, {Version{0}}, 40});
  Turn(3);
  ASSERT_EQ(Count<EvaluationDone>(), 1);
  const auto done = std::find_if(link_.said.begin(), link_.said.end(),
                                 [](const WorkerMessage& m) { return std::holds_alternative<EvaluationDone>(m); });
  EXPECT_EQ(std::get<EvaluationDone>(*done).failure, "the loss on the held-out samples is not finite");
  EXPECT_NE(session_->core().activity(), WorkerActivity::kEvaluating);
}

TEST_F(SessionTest, TheLinkKeepsTheCapsOfTheJobAndOfItsUpdates) {
  JobSpec spec = ToySpec();
  spec.sync.upload_bytes_per_second = 5000;
  Make(spec);
  Join();
  EXPECT_EQ(link_.caps, std::pair(uint64_t{5000}, uint64_t{0}));
  spec.sync.download_bytes_per_second = 7000;
  Post(Assignment{kJob, 2, std::make_shared<const JobSpec>(spec), 0,
                  VersionVector(layout_.fragments.size(), Version{0})});
  Turn();
  EXPECT_EQ(link_.caps, std::pair(uint64_t{5000}, uint64_t{7000}));
  session_->RequestLeave("SIGTERM");
  Turn(2);
  EXPECT_EQ(link_.caps, std::pair(uint64_t{0}, uint64_t{0})) << "the job is released";
}

TEST_F(SessionTest, LeavesWithAGoodbye) {
  Join();
  Train(2);
  session_->RequestLeave("SIGTERM");
  Turn();
  ASSERT_FALSE(session_->exit().has_value());
  const ContributionHeader& last = link_.uploads.at(0).header;
  EXPECT_GE(last.steps, 2u);
  session_->Post(worker::Event(worker::UploadEnded{last.target, last.digest, worker::UploadResult::kAccepted, ""}));
  Turn();
  ASSERT_TRUE(session_->exit().has_value());
  EXPECT_EQ(session_->exit()->reason, worker::ExitReason::kLeft);
  EXPECT_EQ(Count<LeaseReturn>(), 1);
  EXPECT_TRUE(std::holds_alternative<Leaving>(link_.said.back()));
}

TEST_F(SessionTest, ALostDeviceIsALeaveWithItsCause) {
  Join();
  Train(2);
  const uint64_t taken = session_->core().clock_step();
  factory_.broken = absl::UnavailableError("rank 1 of the island ended");
  Turn(2);
  // The remaining work is sent, as with any leave.
  const ContributionHeader& last = link_.uploads.at(0).header;
  EXPECT_EQ(last.steps, taken);
  session_->Post(worker::Event(worker::UploadEnded{last.target, last.digest, worker::UploadResult::kAccepted, ""}));
  Turn();
  ASSERT_TRUE(session_->exit().has_value());
  EXPECT_EQ(session_->exit()->reason, worker::ExitReason::kLeft);
  EXPECT_EQ(session_->exit()->text, "rank 1 of the island ended");
  EXPECT_TRUE(session_->exit()->device_lost);
  EXPECT_EQ(Count<LeaseReturn>(), 1);
}

TEST_F(SessionTest, AShardThatMayNotBeReadIsAFailureThatNamesIt) {
  factory_.samples = [] { return std::make_unique<ShardSamples>(); };
  Make(ToySpec());
  Join();
  Lease();
  Turn(3);
  ASSERT_EQ(Count<JobFailure>(), 1);
  const auto failure = std::find_if(link_.said.begin(), link_.said.end(),
                                    [](const WorkerMessage& m) { return std::holds_alternative<JobFailure>(m); });
  EXPECT_EQ(std::get<JobFailure>(*failure).reason, "open /data/text/train-00000.bin: Permission denied");
  EXPECT_EQ(session_->core().activity(), WorkerActivity::kIdle);
}

TEST_F(SessionTest, ModelIsNotifiedOfEachChangedFragment) {
  Join();
  const auto once = [this](uint32_t p) {
    return std::count(factory_.changed.begin(), factory_.changed.end(), FragmentIndex{p});
  };
  for (uint32_t p = 0; p < layout_.fragments.size(); ++p) EXPECT_EQ(once(p), 1) << p;
  Train(4);
  const auto before = once(0);
  Commit(0, 1, {WorkerId{"w1"}});
  EXPECT_EQ(once(0), before + 1);
}

TEST_F(SessionTest, HeartbeatsSayWhatItDoes) {
  Join();
  EXPECT_EQ(link_.heartbeat.job, kJob);
  Train(4);
  Turn();
  EXPECT_EQ(link_.heartbeat.activity, WorkerActivity::kWaiting);
  EXPECT_NE(link_.heartbeat.waiting_for.find("version 1 of fragment 0"), std::string::npos);
  EXPECT_EQ(link_.heartbeat.step, 4u);
}

TEST_F(SessionTest, EachHeartbeatReportsTheWait) {
  Join();
  Train(4);
  Turn();
  const Instant began = clock_.Now();
  for (TurnResult turn = session_->Turn(); clock_.Now() - began < Seconds(9); turn = session_->Turn()) {
    ASSERT_FALSE(turn.progressed);
    ASSERT_LE(turn.next, clock_.Now() + session_->core().heartbeat_interval());
    clock_.Set(turn.next);
  }
  EXPECT_NE(link_.heartbeat.waiting_for.find("for 10 s"), std::string::npos) << link_.heartbeat.waiting_for;
}

// A transfer must not wait for the seconds that a step takes.
TEST_F(SessionTest, AContributionThatIsFormedInAStepIsOnItsWayInThatStep) {
  JobSpec spec = ToySpec();
  spec.sync.overlap_steps = 1;
  Make(std::move(spec));
  std::vector<size_t> begun;
  factory_.during_step = [&] {
    executor_.RunAll();
    session_->ListenInStep();
    begun.push_back(link_.uploads.size());
  };
  Join();
  busy_ = true;
  Train(4);  // formed after the third step
  EXPECT_EQ(begun, (std::vector<size_t>{0, 0, 0, 1}));
  EXPECT_EQ(DigestOf(Bytes(*link_.uploads.at(0).bytes)), link_.uploads.at(0).header.digest);
  EXPECT_EQ(link_.uploads.at(0).header.steps, 3u);
}

TEST_F(SessionTest, UpdateDuringAStepIsFetchedAtOnceAndMergedAfterIt) {
  JobSpec spec = ToySpec();
  spec.sync.overlap_steps = 2;
  Make(std::move(spec));
  std::function<void()> in_step;
  factory_.during_step = [&] {
    if (in_step) in_step();
  };
  Join();
  busy_ = true;
  Train(2);  // and a third step, while the contribution is formed
  executor_.RunAll();
  ASSERT_EQ(session_->core().clock_step(), 3u);
  const FragmentVersion reached{FragmentIndex{0}, Version{1}};
  size_t asked = 0;
  const float before = session_->local_parameters()[0];
  float during = 0;
  in_step = [&] {
    const TestLink::Sent& sent = link_.uploads.at(0);
    session_->Post(worker::Event(worker::UploadEnded{sent.header.target, sent.header.digest, {}, ""}));
    Post(UpdatePublished{kJob, reached, Digest{1, 2}, sent.bytes->size(), {WorkerId{"w1"}}, 2});
    session_->ListenInStep();
    asked = link_.updates.size();
    session_->Post(FetchedBytes{kJob, reached, false, Digest{1, 2}, sent.bytes});
    session_->ListenInStep();
    during = session_->local_parameters()[0];
  };
  Lease();
  session_->Turn();
  EXPECT_EQ(session_->core().clock_step(), 4u);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(during, before) << "no parameter moves under a step";
  EXPECT_EQ(Count<Applied>(), 0);
  session_->Turn();
  EXPECT_EQ(Count<Applied>(), 1) << "the update was there already";
}

TEST_F(SessionTest, AnotherThreadListensWhileThisOneStandsInAStep) {
  std::binary_semaphore begun(0), heard(0);
  factory_.during_step = [&] {
    begun.release();
    heard.acquire();
  };
  Join();
  constexpr uint64_t kSteps = 3;
  std::jthread listener([&] {
    for (uint64_t v = 1; v <= kSteps; ++v) {
      begun.acquire();
      Post(UpdatePublished{kJob, {FragmentIndex{0}, Version{v}}, Digest{1, 2}, 8, {}, v});
      session_->ListenInStep();
      heard.release();
    }
  });
  while (session_->core().clock_step() < kSteps) {
    Lease();
    session_->Turn();
  }
  listener.join();
  ASSERT_EQ(link_.updates.size(), 2u) << "so many are fetched at a time";
  EXPECT_EQ(link_.updates[1].version.value, 2u);
}

// A message that discards drift or samples waits for the end of the step, and so do later messages.
TEST_F(SessionTest, RevokedLeaseDuringAStepIsHandledAfterIt) {
  std::function<void()> in_step;
  factory_.during_step = [&] {
    if (in_step) in_step();
  };
  Join();
  Train(1);
  const uint64_t steps = session_->core().clock_step();
  const size_t asked = link_.updates.size();
  int listened = 0;
  in_step = [&] {
    if (listened++ > 0) return;
    Post(LeaseRevoked{kJob, {LeaseId{1}}, "a test"});
    Post(UpdatePublished{kJob, {FragmentIndex{0}, Version{1}}, Digest{1, 2}, 8, {}, 1});
    session_->ListenInStep();
    EXPECT_EQ(session_->core().fragments()[0].steps_behind, steps);
    EXPECT_EQ(link_.updates.size(), asked);
  };
  Lease();
  session_->Turn();
  ASSERT_EQ(listened, 1);
  EXPECT_EQ(session_->core().fragments()[0].steps_behind, steps + 1);
  session_->Turn();
  EXPECT_LE(session_->core().fragments()[0].steps_behind, 1u) << "the drift was given up once the step was taken";
  EXPECT_EQ(link_.updates.size(), asked + 1);
}

TEST_F(SessionTest, OutsideOfAStepNothingIsListenedTo) {
  Join();
  Train(1);
  const size_t asked = link_.updates.size();
  Post(UpdatePublished{kJob, {FragmentIndex{0}, Version{1}}, Digest{1, 2}, 8, {}, 1});
  session_->ListenInStep();
  EXPECT_EQ(link_.updates.size(), asked);
  Turn();
  EXPECT_EQ(link_.updates.size(), asked + 1);
}

TEST_F(SessionTest, SeveralFragmentsWithOverlapAndMix) {
  JobSpec spec = ToySpec();
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 1;
  spec.sync.overlap_steps = 1;
  spec.sync.mix = 0.5;
  Make(spec);
  ASSERT_EQ(layout_.fragments.size(), 3u);
  lease_samples_ = 2;  // one step
  Join();
  Train(1);  // t_0 = floor(4 / 3) - 1 = 0 -> step 4; t_1 = 2 - 1 = 1
  ASSERT_EQ(link_.uploads.count(1), 1u);
  Commit(1, 1, {WorkerId{"w1"}});
  Train(2);
  EXPECT_EQ(session_->core().fragments()[1].applied.value, 1u);
  // Global: its parameters after one step, 0.25. Local after two: 0.4375. Half of each.
  const size_t first = layout_.fragments[1].offset;
  EXPECT_NEAR(session_->local_parameters()[first], 0.5 * 0.4375 + 0.5 * 0.25, 1e-6);
}

}  // namespace
}  // namespace atl
