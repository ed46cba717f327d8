// SPDX-License-Identifier: Apache-2.0
// User requests against a real engine: size limits and displayed data.
#include "coordinator/service/job_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "common/wire/job_spec_proto.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string ManifestText() {
  CorpusManifest manifest;
  manifest.name = "toy";
  manifest.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 64, .eot_id = 63};
  manifest.files.push_back({.name = "train-00000.bin",
                            .split = CorpusSplit::kTrain,
                            .bytes = kShardHeaderBytes + 2 * 10'000,
                            .sha256 = {},
                            .tokens = 10'000,
                            .documents = 1,
                            .blocks = std::vector<Sha256>(1)});
  manifest.train = {.documents = 1, .tokens = 10'000, .text_bytes = 10'000};
  return SerializeManifest(manifest);
}

class JobApiTest : public testing::Test {
 protected:
  // A job for `workers_max` workers; its state is about 16,000 parameters.
  v1::SubmitJobRequest Request(const std::string& name, uint32_t workers_max) {
    JobSpec spec = TinySpec(name);
    spec.data.corpora[0].manifest = Sha256Of(AsBytes(manifest_));
    spec.workers.max = workers_max;
    spec.workers.planned = std::min(2u, workers_max);
    v1::SubmitJobRequest request;
    request.set_job_id(name);
    *request.mutable_spec() = JobSpecToProto(spec);
    return request;
  }
  absl::StatusOr<v1::SubmitJobResponse> Submit(const v1::SubmitJobRequest& request) {
    absl::StatusOr<v1::SubmitJobResponse> out = absl::DeadlineExceededError("no answer");
    api_.SubmitJob(request, [&out](absl::Status status, v1::SubmitJobResponse response) {
      if (status.ok()) {
        out = std::move(response);
      } else {
        out = status;
      }
    });
    SettleAll();
    return out;
  }
  absl::StatusOr<v1::Job> Update(const v1::UpdateJobRequest& request) {
    absl::StatusOr<v1::Job> out = absl::DeadlineExceededError("no answer");
    api_.UpdateJob(request, [&out](absl::Status status, v1::UpdateJobResponse response) {
      if (status.ok()) {
        out = response.job();
      } else {
        out = status;
      }
    });
    SettleAll();
    return out;
  }
  void SettleAll() {
    for (int i = 0; i < 5; ++i) {
      (void)calls_.RunAll();
      coordinator_.Settle();
    }
  }

  const std::string manifest_ = ManifestText();
  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator coordinator_{disk_, clock_};
  ManualExecutor calls_;
  CoordinatorCapacity capacity_;
  CorpusCopy copy_{.state = CorpusCopyState::kWhole, .problem = ""};
  JobApi api_{JobApiOptions{"test", 0, [this] { return capacity_; }, [this](auto&, auto&) { return copy_; }},
              coordinator_.engine,
              clock_,
              coordinator_.log,
              calls_,
              [this](const Sha256&) -> absl::StatusOr<std::string> { return manifest_; }};
};

TEST_F(JobApiTest, ABrokenCopyOfACorpusIsRefusedAndOneElsewhereIsNoted) {
  copy_ = {.state = CorpusCopyState::kBroken, .problem = "shard train-00000.bin is missing"};
  for (const bool dry : {true, false}) {
    v1::SubmitJobRequest request = Request("one", 2);
    request.set_validate_only(dry);
    const absl::Status refused = Submit(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("data.corpora[0].manifest: is of corpus toy, which is incomplete below the coordinator's "
                          "data root: shard train-00000.bin is missing; copy the corpus again"));
  }
  copy_ = {.state = CorpusCopyState::kAbsent, .problem = "shard train-00000.bin is missing"};
  const auto taken = Submit(Request("one", 2));
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->notes(),
              testing::Contains(HasSubstr("corpus toy: the coordinator has none of its shards below its "
                                          "data root; each worker must have them")));
}

TEST_F(JobApiTest, ShowsWhatAJobMayTake) {
  const auto job = Submit(Request("one", 2));
  ASSERT_TRUE(job.ok()) << job.status();
  const uint64_t parameters = job->job().parameters();
  // fp32 both ways, one fragment.
  EXPECT_EQ(job->job().coordinator_memory_bytes(),
            parameters * (24 + 4 + 2 * 4 + 2 * 4) + 2 * kTransportBytesPerWorker);
  EXPECT_EQ(job->job().coordinator_disk_bytes(), parameters * (36 + 16 + 3 * (2 * 4 + 4) + 12));
}

TEST_F(JobApiTest, RefusesAJobWithoutEnoughFreeMemory) {
  capacity_.memory_bytes = kCoordinatorBaseBytes + 4 * 10 * kMiB;
  ASSERT_TRUE(Submit(Request("one", 5)).ok());
  const auto second = Submit(Request("two", 5));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("of the coordinator's memory with 5 workers"));
  v1::SubmitJobRequest dry = Request("two", 5);
  dry.set_validate_only(true);
  EXPECT_EQ(Submit(dry).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Submit(Request("small", 1)).ok());
  // After the first has ended there is space.
  ASSERT_TRUE(coordinator_.Ask(JobControlled{.job = JobId{"one"}, .action = JobAction::kCancel}).ok());
  EXPECT_TRUE(Submit(Request("two", 5)).ok());
}

TEST_F(JobApiTest, OffersAreTheJobsThatHaveNotEnded) {
  const auto offers = [this] {
    v1::ListOffersResponse out;
    api_.ListOffers({}, [&out](const absl::Status& status, const v1::ListOffersResponse& response) {
      EXPECT_TRUE(status.ok()) << status;
      out = response;
    });
    SettleAll();
    return out;
  };
  EXPECT_EQ(offers().offers_size(), 0);
  ASSERT_TRUE(Submit(Request("one", 2)).ok());
  ASSERT_TRUE(Submit(Request("two", 2)).ok());
  const v1::ListOffersResponse both = offers();
  ASSERT_EQ(both.offers_size(), 2);
  EXPECT_EQ(both.offers(0).job(), "jobs/one");
  EXPECT_FALSE(both.offers(0).has_step_seconds());
  JobSpec spec;
  EXPECT_TRUE(JobSpecFromProto(both.offers(1).spec(), /*before_submit=*/false, spec).empty());
  EXPECT_EQ(spec.workers.max, 2u);
  ASSERT_TRUE(coordinator_.Ask(JobControlled{.job = JobId{"one"}, .action = JobAction::kCancel}).ok());
  const v1::ListOffersResponse left = offers();
  ASSERT_EQ(left.offers_size(), 1);
  EXPECT_EQ(left.offers(0).job(), "jobs/two");
}

TEST_F(JobApiTest, ReportsItsTime) {
  v1::GetServerInfoResponse info;
  api_.GetServerInfo({}, [&info](const absl::Status&, const v1::GetServerInfoResponse& response) { info = response; });
  SettleAll();
  EXPECT_EQ(info.current_time().seconds(), clock_.WallNanos() / 1'000'000'000);
}

TEST_F(JobApiTest, TwoSubmitsAtOnceDoNotBothGetTheSameRoom) {
  capacity_.memory_bytes = kCoordinatorBaseBytes + 4 * 10 * kMiB;
  std::vector<absl::Status> answers;
  for (const char* name : {"one", "two"}) {
    api_.SubmitJob(Request(name, 5),
                   [&answers](const absl::Status& status, const v1::SubmitJobResponse&) { answers.push_back(status); });
  }
  SettleAll();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(static_cast<int>(answers[0].ok()) + static_cast<int>(answers[1].ok()), 1);
}

TEST_F(JobApiTest, ARepeatedSubmitIsNotRefusedForItsOwnSize) {
  capacity_.memory_bytes = kCoordinatorBaseBytes + 4 * 10 * kMiB;
  v1::SubmitJobRequest request = Request("one", 5);
  request.set_request_id("again");
  ASSERT_TRUE(Submit(request).ok());
  const auto again = Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job().name(), "jobs/one");
}

TEST_F(JobApiTest, ARequestIdStandsForOneRequest) {
  v1::SubmitJobRequest request = Request("one", 5);
  request.set_request_id("again");
  ASSERT_TRUE(Submit(request).ok());
  v1::SubmitJobRequest other_name = Request("two", 5), other_spec = Request("one", 4);
  for (v1::SubmitJobRequest* other : {&other_name, &other_spec}) {
    other->set_request_id("again");
    const absl::Status refused = Submit(*other).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_NE(refused.message().find("request id again has created jobs/one"), absl::string_view::npos) << refused;
  }
  v1::UpdateJobRequest update;
  update.set_name("jobs/one");
  (*update.mutable_set_labels())["key"] = "x";
  ASSERT_TRUE(Update(update).ok());
  EXPECT_TRUE(Submit(request).ok()) << "an update is no other request";

  // Two at once: neither sees the other's job before.
  std::vector<absl::Status> answers;
  for (const char* name : {"three", "four"}) {
    v1::SubmitJobRequest at_once = Request(name, 5);
    at_once.set_request_id("at once");
    api_.SubmitJob(at_once,
                   [&answers](const absl::Status& status, const v1::SubmitJobResponse&) { answers.push_back(status); });
  }
  SettleAll();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(static_cast<int>(answers[0].ok()) + static_cast<int>(answers[1].ok()), 1);
}

TEST_F(JobApiTest, ARepeatedSubmitWithoutANameIsTheSameRequest) {
  v1::SubmitJobRequest request = Request("", 5);
  request.set_request_id("again");
  const auto first = Submit(request);
  ASSERT_TRUE(first.ok()) << first.status();
  clock_.Advance(Seconds(1));
  const auto again = Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job().name(), first->job().name());
}

// Both were merged with the same revision; the second must not undo the first.
TEST_F(JobApiTest, TwoUpdatesAtOnceBothCount) {
  ASSERT_TRUE(Submit(Request("one", 5)).ok());
  std::vector<absl::Status> answers;
  for (const char* key : {"first", "second"}) {
    v1::UpdateJobRequest request;
    request.set_name("jobs/one");
    (*request.mutable_set_labels())[key] = "x";
    api_.UpdateJob(request,
                   [&answers](const absl::Status& status, const v1::UpdateJobResponse&) { answers.push_back(status); });
  }
  SettleAll();
  ASSERT_EQ(answers.size(), 2u);
  for (const absl::Status& status : answers) EXPECT_TRUE(status.ok()) << status;
  v1::UpdateJobRequest third;
  third.set_name("jobs/one");
  (*third.mutable_set_labels())["third"] = "x";
  const auto job = Update(third);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->labels().size(), 3);
}

TEST_F(JobApiTest, AnUpdateBeyondTheScheduleIsNoted) {
  ASSERT_TRUE(Submit(Request("one", 5)).ok());
  v1::UpdateJobRequest request;
  request.set_name("jobs/one");
  request.add_update_mask("stop.inner_steps");
  request.mutable_spec()->mutable_stop()->set_inner_steps(1'000'000);
  std::vector<std::string> notes;
  api_.UpdateJob(request, [&notes](const absl::Status&, const v1::UpdateJobResponse& response) {
    notes.assign(response.notes().begin(), response.notes().end());
  });
  SettleAll();
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("the learning rate stays at its final value")));
}

TEST_F(JobApiTest, RefusesWhatDoesNotFitOnTheDisk) {
  capacity_.disk_free_bytes = 3 * kMiB;
  capacity_.disk_total_bytes = 10 * kMiB;
  const auto refused = Submit(Request("one", 64));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("of the coordinator's disk with 64 workers"));
  EXPECT_TRUE(Submit(Request("one", 2)).ok());
}

TEST_F(JobApiTest, RefusesAJobWithoutEnoughFreeFiles) {
  capacity_.open_files = kCoordinatorOpenFiles + 1;
  ASSERT_TRUE(Submit(Request("one", 2)).ok());
  const auto refused = Submit(Request("two", 2));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("one for each fragment or file"));
  ASSERT_TRUE(coordinator_.Ask(JobControlled{.job = JobId{"one"}, .action = JobAction::kCancel}).ok());
  EXPECT_TRUE(Submit(Request("two", 2)).ok());
}

TEST_F(JobApiTest, AnUpdateThatRaisesTheWorkersIsCheckedToo) {
  capacity_.memory_bytes = kCoordinatorBaseBytes + 4 * 10 * kMiB;
  ASSERT_TRUE(Submit(Request("one", 5)).ok());
  v1::UpdateJobRequest update;
  update.set_name("jobs/one");
  update.add_update_mask("workers.max");
  update.mutable_spec()->mutable_workers()->set_max(500);
  EXPECT_EQ(Update(update).status().code(), absl::StatusCode::kResourceExhausted);
  update.mutable_spec()->mutable_workers()->set_max(6);
  EXPECT_TRUE(Update(update).ok()) << Update(update).status();
}

v1::UpdateJobRequest UpdateOf(const std::string& field) {
  v1::UpdateJobRequest update;
  update.set_name("jobs/one");
  update.add_update_mask(field);
  return update;
}

TEST_F(JobApiTest, AnUpdateIsCheckedForWhateverMakesTheJobNeedMore) {
  v1::SubmitJobRequest request = Request("one", 2);
  request.mutable_spec()->mutable_checkpoint()->set_every_rounds(1);
  request.mutable_spec()->mutable_checkpoint()->set_keep_last(1);
  request.mutable_spec()->mutable_checkpoint()->set_keep_contributions(true);
  request.mutable_spec()->mutable_stop()->set_inner_steps(10'000);
  const auto job = Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  const uint64_t needed = job->job().coordinator_disk_bytes();
  capacity_.disk_total_bytes = needed;
  capacity_.disk_free_bytes = needed + needed / 10;  // a tenth of the disk must stay free
  v1::UpdateJobRequest last = UpdateOf("checkpoint.keep_last"), forever = UpdateOf("checkpoint.keep_every"),
                       longer = UpdateOf("stop.inner_steps");
  last.mutable_spec()->mutable_checkpoint()->set_keep_last(500);
  forever.mutable_spec()->mutable_checkpoint()->set_keep_every(1);
  longer.mutable_spec()->mutable_stop()->set_inner_steps(20'000);
  for (const v1::UpdateJobRequest& update : {last, forever, longer}) {
    const absl::Status refused = Update(update).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << update.update_mask(0) << ": " << refused;
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(
                    HasSubstr("of the coordinator's disk with 2 workers"),
                    HasSubstr(absl::StrCat("of ", BinarySize(capacity_.disk_free_bytes), " free are not reserved"))));
  }
  v1::UpdateJobRequest shorter = longer;
  shorter.mutable_spec()->mutable_stop()->set_inner_steps(5'000);
  EXPECT_TRUE(Update(shorter).ok()) << Update(shorter).status();
  EXPECT_TRUE(Update(last).ok()) << "the rounds that it does without make room: " << Update(last).status();
}

TEST_F(JobApiTest, AnUpdateIsNotRefusedForWhatItDoesNotRaise) {
  ASSERT_TRUE(Submit(Request("one", 5)).ok());
  // Less than at the job's admission, as after a move to a smaller machine.
  capacity_ = {.memory_bytes = kMiB, .disk_free_bytes = 0, .disk_total_bytes = 10 * kMiB};
  v1::UpdateJobRequest priority = UpdateOf("priority"), fewer = UpdateOf("workers.max");
  priority.mutable_spec()->set_priority(3);
  fewer.mutable_spec()->mutable_workers()->set_max(4);
  EXPECT_TRUE(Update(priority).ok()) << Update(priority).status();
  EXPECT_TRUE(Update(fewer).ok()) << Update(fewer).status();
  // Checkpoints need only disk.
  capacity_.disk_free_bytes = capacity_.disk_total_bytes;
  v1::UpdateJobRequest often = UpdateOf("checkpoint.every_rounds");
  often.mutable_spec()->mutable_checkpoint()->set_every_rounds(1);
  EXPECT_TRUE(Update(often).ok()) << Update(often).status();
  // An ended job needs nothing.
  ASSERT_TRUE(coordinator_.Ask(JobControlled{.job = JobId{"one"}, .action = JobAction::kCancel}).ok());
  v1::UpdateJobRequest more = UpdateOf("workers.max");
  more.mutable_spec()->mutable_workers()->set_max(500);
  EXPECT_EQ(Update(more).status().code(), absl::StatusCode::kFailedPrecondition) << Update(more).status();
}

// A round of `members` members; its event grows with their number.
EventLine RoundOf(int members) {
  EventLine line{.kind = "round committed", .text = "version 1 of fragment 0: workers"};
  for (int i = 0; i < members; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    absl::StrAppend(&line.text, " ", name);
    for (const char* field : {"members", "contributions", "directions", "participation"})
      absl::StrAppend(&line.fields[field], name, "=0.123456,");
  }
  line.fields["loss"] = "3.14";
  return line;
}

class LargeAnswers : public JobApiTest {
 protected:
  void SetUp() override { ASSERT_TRUE(Submit(Request("one", 2)).ok()); }
  void ChangeHistory(const std::function<void(History&)>& change) {
    coordinator_.engine.Query(
        [&](const Core&, const History& history, Instant) { change(const_cast<History&>(history)); });
    SettleAll();
  }
  void AddRounds(int rounds, int members) {
    ChangeHistory([&](History& history) {
      for (int i = 0; i < rounds; ++i) history.AddEvent(JobId{"one"}, RoundOf(members));
    });
  }
  std::vector<v1::WatchJobResponse> Watch(uint64_t after_revision) {
    std::vector<v1::WatchJobResponse> shown;
    v1::WatchJobRequest request;
    request.set_name("jobs/one");
    request.set_after_revision(after_revision);
    const auto watcher = api_.WatchJob(request, {[&shown](const auto& message) {
                                         EXPECT_TRUE(message.ok()) << message.status();
                                         shown.push_back(*message);
                                       }});
    SettleAll();
    EXPECT_TRUE(watcher.ok());
    api_.StopWatching(*watcher);
    SettleAll();
    return shown;
  }
};

TEST_F(LargeAnswers, AJobOfAThousandWorkersIsShownWithItsNewestEvents) {
  AddRounds(60, 1000);
  v1::GetJobRequest request;
  request.set_name("jobs/one");
  v1::GetJobResponse shown;
  api_.GetJob(request, [&shown](const absl::Status& status, const v1::GetJobResponse& response) {
    EXPECT_TRUE(status.ok()) << status;
    shown = response;
  });
  SettleAll();
  EXPECT_LT(shown.ByteSizeLong(), limits::kMessageBytes);
  ASSERT_EQ(shown.events_size(), 50);
  const v1::JobEvent &newest = shown.events(49), &oldest = shown.events(0);
  EXPECT_EQ(newest.revision() - oldest.revision(), 49u);
  EXPECT_EQ(newest.fields().at("members"), RoundOf(1000).fields.at("members")) << "the newest one is whole";
  EXPECT_FALSE(oldest.fields().contains("members"));
  EXPECT_EQ(oldest.fields().at("loss"), "3.14");
  EXPECT_THAT(oldest.text(), testing::AllOf(testing::StartsWith("version 1 of fragment 0"), testing::EndsWith("...")));
}

TEST_F(LargeAnswers, AWatcherMissesNoEventThatOneMessageDoesNotHold) {
  const uint64_t before = Watch(1).back().events().rbegin()->revision();
  AddRounds(900, 1000);
  const std::vector<v1::WatchJobResponse> shown = Watch(before);
  ASSERT_GT(shown.size(), 1u);
  uint64_t revision = before;
  for (const v1::WatchJobResponse& message : shown) {
    EXPECT_LT(message.ByteSizeLong(), limits::kMessageBytes);
    EXPECT_EQ(message.has_job(), &message == &shown.back()) << "the last one has the job";
    for (const v1::JobEvent& event : message.events()) EXPECT_EQ(event.revision(), ++revision);
  }
  EXPECT_EQ(revision, before + 900);
}

TEST_F(LargeAnswers, CurvesAreThinnedTogetherUntilTheyFit) {
  ChangeHistory([](History& history) {
    for (int curve = 0; curve < 20; ++curve) {
      for (uint64_t step = 1; step < limits::kCurvePoints; ++step)
        history.AddPoint(JobId{"one"}, absl::StrCat("curve-", curve), {step, 1'700'000'000'987'654'321, 0.5});
    }
  });
  v1::GetJobMetricsRequest request;
  request.set_name("jobs/one");
  const auto curves = [&] {
    v1::GetJobMetricsResponse out;
    api_.GetJobMetrics(request,
                       [&out](const absl::Status&, const v1::GetJobMetricsResponse& response) { out = response; });
    SettleAll();
    EXPECT_LT(out.ByteSizeLong(), limits::kMessageBytes);
    return out;
  };
  const v1::GetJobMetricsResponse all = curves();
  ASSERT_EQ(all.curves_size(), 20);
  for (const v1::MetricCurve& curve : all.curves()) {
    ASSERT_EQ(curve.points_size(), 1024);
    EXPECT_EQ(curve.points(1023).step(), limits::kCurvePoints - 1) << "the newest stays";
    EXPECT_EQ(curve.points(1023).step() - curve.points(1022).step(), 4u);
  }
  request.add_metrics("curve-3");
  EXPECT_EQ(curves().curves(0).points_size(), static_cast<int>(limits::kCurvePoints) - 1);
}

TEST_F(LargeAnswers, LongLinesOfTheLogAreCutAndTheNewestShown) {
  Log log({.to_stderr = false});
  JobApi api(JobApiOptions{}, coordinator_.engine, clock_, log, calls_, {});
  for (int i = 0; i < 400; ++i)
    log.Error("round committed", {{"job", "one"}, {"number", absl::StrCat(i)}, {"text", RoundOf(1000).text}});
  v1::StreamJobLogsRequest request;
  request.set_name("jobs/one");
  request.set_tail(2000);
  v1::StreamJobLogsResponse lines;
  api.GetJobLogs(request, 0, [&lines](const absl::Status& status, const v1::StreamJobLogsResponse& response) {
    EXPECT_TRUE(status.ok()) << status;
    lines = response;
  });
  SettleAll();
  EXPECT_LT(lines.ByteSizeLong(), limits::kMessageBytes);
  ASSERT_GT(lines.lines_size(), 200);
  EXPECT_THAT(*lines.lines().rbegin(), HasSubstr("number=399"));
}

TEST_F(JobApiTest, LabelsChangeWhileAJobRuns) {
  v1::SubmitJobRequest request = Request("one", 2);
  (*request.mutable_labels())["team"] = "a";
  ASSERT_TRUE(Submit(request).ok());
  v1::UpdateJobRequest update;
  update.set_name("jobs/one");
  (*update.mutable_set_labels())["user"] = "b";
  update.add_remove_labels("team");
  const auto job = Update(update);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->labels().size(), 1u);
  EXPECT_EQ(job->labels().at("user"), "b");
  EXPECT_EQ(job->spec_revision(), 2u);
}

}  // namespace
}  // namespace atl
