// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/job_api.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/plan/job_validation.h"
#include "common/plan/learning_rate.h"
#include "common/plan/limits.h"
#include "common/plan/model_layout.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/resource_names.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/service/spec_update.h"
#include "coordinator/service/translate.h"

namespace atl {
namespace {

constexpr size_t kEventsShown = 50;
constexpr uint32_t kDefaultPage = 100, kLargestPage = 1000;

// NotFound for a wanted metric without points, if the job has points of any metric.
absl::Status KnownMetrics(const std::map<std::string, Curve>& curves, const std::set<std::string>& wanted) {
  if (curves.empty()) return absl::OkStatus();
  std::string names;
  for (const auto& [name, curve] : curves) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  for (const std::string& name : wanted) {
    if (curves.count(name) == 0) {
      return absl::NotFoundError(
          absl::StrCat("the job has no points of '", name.substr(0, limits::kLabelBytes), "'; it has ", names));
    }
  }
  return absl::OkStatus();
}

// The requested job name, or without one a valid name, [a-z0-9-], made from the clock.
std::string JobNameFor(const std::string& wish, int64_t wall_nanos) {
  return wish.empty() ? absl::StrCat("job-", absl::Hex(wall_nanos / 1'000'000)) : wish;
}

bool HasLabels(const JobSpec& spec, const google::protobuf::Map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&spec](const auto& pair) {
    const auto it = spec.labels.find(pair.first);
    return it != spec.labels.end() && it->second == pair.second;
  });
}

// The newest finished checkpoint, or the finished one of the given step; null if there is none.
const CheckpointRecord* FinishedCheckpoint(const JobView& view, const CheckpointName& name) {
  const CheckpointRecord* found = nullptr;
  for (const CheckpointRecord& record : view.checkpoints) {
    if (record.complete && (name.latest || record.step == name.step)) found = &record;
  }
  return found;
}

// Whether this request has already made a job.
bool IsKnown(const Core& core, const v1::SubmitJobRequest& request, Instant now) {
  const std::vector<JobId> jobs = core.Jobs();
  return !request.request_id().empty() && std::any_of(jobs.begin(), jobs.end(), [&](const JobId& job) {
    return core.ViewJob(job, now)->record.request_id == request.request_id();
  });
}

// A checkpoint used as version 0 must exist and be of the same model.
std::vector<Violation> SourceViolations(const Core& core, const JobPlan& plan, Instant now) {
  const std::string& wanted = plan.spec.init.checkpoint;
  if (wanted.empty()) return {};
  const auto refuse = [](std::string problem) {
    return std::vector<Violation>{{"model.init.checkpoint", std::move(problem)}};
  };
  const absl::StatusOr<CheckpointName> name = ParseCheckpointName(wanted);
  if (!name.ok() || name->latest)
    return refuse(absl::StrCat("is '", wanted, "'; it must be jobs/JOB/checkpoints/STEP"));
  const std::optional<JobView> source = core.ViewJob(name->job, now);
  if (!source.has_value() || FinishedCheckpoint(*source, *name) == nullptr)
    return refuse(absl::StrCat("is ", wanted, ", which does not exist; 'atoll checkpoint list ", name->job.value,
                               "' shows the existing ones"));
  const JobSpec& spec = source->record.spec;
  if (MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest == plan.layout.digest)
    return {};
  return refuse(absl::StrCat(
      "is ", wanted,
      ", with another model or other fragments than this job; give both the same sizes and sync.fragments"));
}

}  // namespace

JobApi::JobApi(JobApiOptions options, Engine& engine, Clock& clock, Log& log, Executor& executor, BlobReader blobs)
    : options_(std::move(options)),
      engine_(engine),
      clock_(clock),
      log_(log),
      executor_(executor),
      blobs_(std::move(blobs)) {}

v1::Job JobApi::JobMessage(const JobId& job, Instant now, bool with_spec) {
  const JobGlance glance = engine_.GlanceAt(job, UINT64_MAX, now);
  const Sizes& sizes = SizesOf(glance.view.record);
  v1::Job message = ToProto(glance, sizes.job.parameters, sizes.fragment_elements, with_spec);
  const CoordinatorNeeds needs = NeedsOf(glance.view.record.spec, sizes.job);
  message.set_coordinator_memory_bytes(needs.memory_bytes);
  message.set_coordinator_disk_bytes(needs.disk_bytes);
  BoundContributions(kAnswerBytes / 4, message);
  return message;
}

template <typename Response>
void JobApi::AskAndShow(Event event, Answer<Response> answer) {
  engine_.Ask(std::move(event), [this, answer = std::move(answer)](const RequestAnswered& answered) {
    if (!answered.status.ok()) return answer(answered.status, {});
    engine_.Query([this, job = answered.job, answer](const Core&, const History&, Instant now) {
      Response response;
      *response.mutable_job() = JobMessage(job, now, true);
      answer(absl::OkStatus(), std::move(response));
    });
  });
}

void JobApi::SubmitJob(const v1::SubmitJobRequest& request, Answer<v1::SubmitJobResponse> answer) {
  JobSpec spec;
  const std::vector<Violation> violations = JobSpecFromProto(request.spec(), /*before_submit=*/false, spec);
  if (!violations.empty()) return answer(ViolationsError(violations), {});
  if (!request.spec().model().init().directory().empty()) {
    return answer(absl::InvalidArgumentError("model.init.directory: a directory is read by the command line only; "
                                             "upload its safetensors and name them by SHA-256"),
                  {});
  }
  spec.name = JobNameFor(request.job_id(), clock_.WallNanos());
  for (const auto& [key, value] : request.labels()) spec.labels[key] = value;
  executor_.Post([this, request, spec = std::move(spec), answer = std::move(answer)]() mutable {
    PlanAndSubmit(request, std::move(spec), std::move(answer));
  });
}

void JobApi::PlanAndSubmit(const v1::SubmitJobRequest& request, JobSpec spec, Answer<v1::SubmitJobResponse> answer) {
  absl::StatusOr<IntakeResult> planned = PlanJob(std::move(spec), blobs_);
  if (!planned.ok()) return answer(planned.status(), {});
  if (planned->violations.empty()) LookAtCopies(*planned);
  if (!planned->violations.empty()) return answer(ViolationsError(planned->violations), {});
  const auto plan = std::make_shared<const JobPlan>(std::move(planned->plan));
  engine_.Query([this, request, plan, sizes = atl::SizesOf(plan->spec, plan->layout), capacity = options_.capacity(),
                 answer = std::move(answer)](const Core& core, const History&, Instant now) {
    const std::vector<Violation> violations = SourceViolations(core, *plan, now);
    // The source may be deleted once the job has begun; a repeated request is answered nevertheless.
    if (!violations.empty() && !IsKnown(core, request, now)) return answer(ViolationsError(violations), {});
    const absl::Status fits = CheckFits(core, request, plan->spec, sizes, capacity, now);
    if (!fits.ok()) return answer(fits, {});
    SubmitPlanned(request, *plan, sizes, answer);
  });
}

void JobApi::GetJob(const v1::GetJobRequest& request, Answer<v1::GetJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  const auto look = [this, job = *job, answer = std::move(answer)](const Core& core, const History& history,
                                                                   Instant now) {
    const std::optional<JobView> view = core.ViewJob(job, now);
    if (!view.has_value()) return answer(NoSuchJob(job), {});
    const JobGlance glance = engine_.GlanceAt(job, UINT64_MAX, now);
    v1::GetJobResponse response;
    *response.mutable_job() = JobMessage(job, now, true);
    Room room(kAnswerBytes);
    room.Spend(response.ByteSizeLong());
    AddWorkers(glance, room, *response.mutable_workers());
    AddEvaluations(view->evaluations, room.left() / 2, response);
    for (const v1::EvaluationResult& evaluation : response.evaluations()) (void)room.Take(evaluation.ByteSizeLong());
    for (v1::JobEvent& event : NewestThatFit(history.EventsAfter(job, 0, kEventsShown), room.left()))
      *response.add_events() = std::move(event);
    answer(absl::OkStatus(), std::move(response));
  };
  engine_.QueryPast(*job, look);
}

void JobApi::ListJobs(const v1::ListJobsRequest& request, Answer<v1::ListJobsResponse> answer) {
  if (request.page_size() > kLargestPage) {
    return answer(absl::InvalidArgumentError(absl::StrCat("page_size is ", request.page_size(), "; at most ",
                                                          kLargestPage, " are listed at once")),
                  {});
  }
  engine_.Query([this, request, answer = std::move(answer)](const Core& core, const History&, Instant now) {
    const size_t page = request.page_size() == 0 ? kDefaultPage : request.page_size();
    std::vector<JobId> jobs = core.Jobs();
    std::reverse(jobs.begin(), jobs.end());  // newest first
    size_t at = 0;
    if (!request.page_token().empty()) {  // the token names the last job of the previous page
      const auto last = std::find(jobs.begin(), jobs.end(), JobId{request.page_token()});
      if (last == jobs.end())
        return answer(absl::InvalidArgumentError("page_token does not belong to this list; start again without it"),
                      {});
      at = static_cast<size_t>(last - jobs.begin()) + 1;
    }
    v1::ListJobsResponse response;
    Room room(kAnswerBytes);
    for (; at < jobs.size() && static_cast<size_t>(response.jobs_size()) < page; ++at) {
      const std::optional<JobView> view = core.ViewJob(jobs[at], now);
      if (!view.has_value() || !HasLabels(view->record.spec, request.labels())) continue;
      if (request.state() != v1::JOB_STATE_UNSPECIFIED && request.state() != ToProto(view->record.state)) continue;
      v1::Job message = JobMessage(jobs[at], now, false);
      if (!room.Take(message.ByteSizeLong()) && response.jobs_size() > 0) break;
      *response.add_jobs() = std::move(message);
    }
    if (at < jobs.size()) response.set_next_page_token(jobs[at - 1].value);
    answer(absl::OkStatus(), std::move(response));
  });
}

void JobApi::CancelJob(const v1::CancelJobRequest& request, Answer<v1::CancelJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  const JobAction action = request.drain() ? JobAction::kCancelWithDrain : JobAction::kCancel;
  AskAndShow(JobControlled{.job = *job, .action = action, .wall_nanos = clock_.WallNanos()}, std::move(answer));
}

void JobApi::PurgeJob(const v1::PurgeJobRequest& request, Answer<v1::PurgeJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  AskAndShow(JobUnwanted{.job = *job}, std::move(answer));
}

void JobApi::PauseJob(const v1::PauseJobRequest& request, Answer<v1::PauseJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  AskAndShow(JobControlled{.job = *job, .action = JobAction::kPause, .wall_nanos = clock_.WallNanos()},
             std::move(answer));
}

void JobApi::ResumeJob(const v1::ResumeJobRequest& request, Answer<v1::ResumeJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  AskAndShow(JobControlled{.job = *job, .action = JobAction::kResume, .wall_nanos = clock_.WallNanos()},
             std::move(answer));
}

void JobApi::UpdateJob(const v1::UpdateJobRequest& request, Answer<v1::UpdateJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  executor_.Post([this, job = *job, request, answer = std::move(answer)]() mutable {
    UpdateWithin(options_.capacity(), job, request, std::move(answer));
  });
}

void JobApi::UpdateWithin(const CoordinatorCapacity& capacity, const JobId& job, const v1::UpdateJobRequest& request,
                          Answer<v1::UpdateJobResponse> answer) {
  engine_.Query(
      [this, capacity, job, request, answer = std::move(answer)](const Core& core, const History&, Instant now) {
        const std::optional<JobView> view = core.ViewJob(job, now);
        if (!view.has_value()) return answer(NoSuchJob(job), {});
        if (!request.etag().empty() && request.etag() != EtagOf(*view)) {
          return answer(absl::AbortedError(absl::StrCat(
                            "jobs/", job.value, " has changed since it was read; read it again and repeat the update")),
                        {});
        }
        absl::StatusOr<JobSpec> spec = MergeSpecUpdate(view->record.spec, request);
        if (!spec.ok()) return answer(spec.status(), {});
        const absl::Status fits = CheckUpdateFits(core, view->record, *spec, capacity, now);
        if (!fits.ok()) return answer(fits, {});
        const uint64_t stop_step = PlannedInnerSteps(*spec);
        // `shown`: a request without an etag applies to the newest spec, so it merges again after a concurrent update.
        const std::string mismatch = ScheduleMismatch(*spec);
        Answer<v1::UpdateJobResponse> shown = [this, capacity, job, request, mismatch, answer](
                                                  const absl::Status& status, v1::UpdateJobResponse response) {
          if (absl::IsAborted(status) && request.etag().empty()) return UpdateWithin(capacity, job, request, answer);
          if (status.ok() && !mismatch.empty()) response.add_notes(mismatch);
          answer(status, std::move(response));
        };
        AskAndShow(JobUpdated{.job = job,
                              .spec = *std::move(spec),
                              .stop_step = stop_step,
                              .expected_revision = view->record.spec_revision},
                   std::move(shown));
      });
}

void JobApi::RollbackJob(const v1::RollbackJobRequest& request, Answer<v1::RollbackJobResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  const absl::StatusOr<CheckpointName> checkpoint = ParseCheckpointName(request.checkpoint());
  if (!checkpoint.ok()) return answer(checkpoint.status(), {});
  if (checkpoint->job != *job) {
    return answer(
        absl::InvalidArgumentError(absl::StrCat(request.checkpoint(), " is not a checkpoint of ", request.name(),
                                                "; a new job can start from it with model.init.checkpoint")),
        {});
  }
  engine_.Query([this, job = *job, name = *checkpoint, answer = std::move(answer)](const Core& core, const History&,
                                                                                   Instant now) {
    const std::optional<JobView> view = core.ViewJob(job, now);
    if (!view.has_value()) return answer(NoSuchJob(job), {});
    const CheckpointRecord* const newest = name.latest ? FinishedCheckpoint(*view, name) : nullptr;
    if (name.latest && newest == nullptr)
      return answer(absl::NotFoundError(absl::StrCat("jobs/", job.value, " has no finished checkpoint yet")), {});
    const uint64_t step = name.latest ? newest->step : name.step;
    AskAndShow(JobRolledBack{.job = job, .checkpoint_step = step, .wall_nanos = clock_.WallNanos()}, answer);
  });
}

void JobApi::GetJobMetrics(const v1::GetJobMetricsRequest& request, Answer<v1::GetJobMetricsResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  const auto look = [job = *job, request, answer = std::move(answer)](const Core& core, const History& history,
                                                                      Instant) {
    if (!core.HasJob(job)) return answer(NoSuchJob(job), {});
    const std::set<std::string> wanted(request.metrics().begin(), request.metrics().end());
    v1::GetJobMetricsResponse response;
    const JobHistory* of_job = history.Find(job);
    static const std::map<std::string, Curve> kNone;
    if (of_job != nullptr) {
      if (const absl::Status known = KnownMetrics(of_job->curves, wanted); !known.ok()) return answer(known, {});
    }
    std::map<std::string, std::vector<CurvePoint>> curves;
    std::vector<size_t> points;
    Room room(kAnswerBytes);
    for (const auto& [metric, curve] : of_job ? of_job->curves : kNone) {
      if (!wanted.empty() && wanted.count(metric) == 0) continue;
      std::vector<CurvePoint>& of_metric = curves[metric];
      std::copy_if(curve.points().begin(), curve.points().end(), std::back_inserter(of_metric),
                   [&request](const CurvePoint& point) { return point.step >= request.after_step(); });
      points.push_back(of_metric.size());
      (void)room.Take(metric.size() + kEntryBytes);
    }
    const size_t most = PointsThatFit(points, room.left());
    for (const auto& [metric, of_metric] : curves) AddCurve(metric, of_metric, most, response);
    answer(absl::OkStatus(), std::move(response));
  };
  engine_.QueryPast(*job, look);
}

void JobApi::ListCheckpoints(const v1::ListCheckpointsRequest& request, Answer<v1::ListCheckpointsResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.job());
  if (!job.ok()) return answer(job.status(), {});
  engine_.Query([this, job = *job, answer = std::move(answer)](const Core& core, const History&, Instant now) {
    const std::optional<JobView> view = core.ViewJob(job, now);
    if (!view.has_value()) return answer(NoSuchJob(job), {});
    v1::ListCheckpointsResponse response;
    Room room(kAnswerBytes);
    for (auto record = view->checkpoints.rbegin(); record != view->checkpoints.rend(); ++record) {
      if (!record->complete) continue;
      v1::Checkpoint message = ToProto(*record, *view, SizesOf(view->record).fragment_elements);
      if (!room.Take(message.ByteSizeLong())) break;
      *response.add_checkpoints() = std::move(message);
    }
    std::reverse(response.mutable_checkpoints()->begin(), response.mutable_checkpoints()->end());
    answer(absl::OkStatus(), std::move(response));
  });
}

void JobApi::GetCheckpoint(const v1::GetCheckpointRequest& request, Answer<v1::GetCheckpointResponse> answer) {
  const absl::StatusOr<CheckpointName> name = ParseCheckpointName(request.name());
  if (!name.ok()) return answer(name.status(), {});
  engine_.Query([this, name = *name, answer = std::move(answer)](const Core& core, const History&, Instant now) {
    const std::optional<JobView> view = core.ViewJob(name.job, now);
    if (!view.has_value()) return answer(NoSuchJob(name.job), {});
    const CheckpointRecord* const found = FinishedCheckpoint(*view, name);
    if (found == nullptr) {
      return answer(
          absl::NotFoundError(absl::StrCat("jobs/", name.job.value, " has no checkpoint ",
                                           name.latest ? "yet" : absl::StrCat("at step ", name.step),
                                           "; 'atoll checkpoint list ", name.job.value, "' shows the existing ones")),
          {});
    }
    v1::GetCheckpointResponse response;
    *response.mutable_checkpoint() = ToProto(*found, *view, SizesOf(view->record).fragment_elements);
    *response.mutable_spec() = JobSpecToProto(view->record.spec);
    const JobSpec& spec = view->record.spec;
    const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    for (const TensorInfo& tensor : layout.tensors) {
      v1::TensorPlace* place = response.add_tensors();
      place->set_name(tensor.name);
      for (const uint64_t n : tensor.shape) place->add_shape(n);
      place->set_fragment(tensor.fragment);
      place->set_offset_elements(tensor.offset - layout.fragments[tensor.fragment].offset);
    }
    for (const FragmentInfo& fragment : layout.fragments) response.add_fragment_elements(fragment.elements);
    answer(absl::OkStatus(), std::move(response));
  });
}

void JobApi::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Answer<v1::DeleteCheckpointResponse> answer) {
  const absl::StatusOr<CheckpointName> name = ParseCheckpointName(request.name());
  if (!name.ok()) return answer(name.status(), {});
  if (name->latest) {
    return answer(absl::InvalidArgumentError(
                      absl::StrCat(request.name(), ": name the step; the newest checkpoint cannot be deleted")),
                  {});
  }
  engine_.Ask(CheckpointUnwanted{.job = name->job, .step = name->step},
              [answer = std::move(answer)](const RequestAnswered& answered) { answer(answered.status, {}); });
}

void JobApi::GetServerInfo(const v1::GetServerInfoRequest&, Answer<v1::GetServerInfoResponse> answer) {
  engine_.Query([this, answer = std::move(answer)](const Core& core, const History&, Instant) {
    v1::GetServerInfoResponse response;
    response.set_version(options_.version);
    response.set_boot_number(core.boot().value);
    response.set_protocol_revision(kProtocolRevision);
    response.mutable_start_time()->set_seconds(options_.start_wall_nanos / 1'000'000'000);
    const int64_t now_nanos = clock_.WallNanos();
    response.mutable_current_time()->set_seconds(now_nanos / 1'000'000'000);
    response.mutable_current_time()->set_nanos(static_cast<int32_t>(now_nanos % 1'000'000'000));
    answer(absl::OkStatus(), std::move(response));
  });
}

absl::StatusOr<uint64_t> JobApi::WatchJob(const v1::WatchJobRequest& request, WatchSink sink) {
  ATOLL_ASSIGN_OR_RETURN(const JobId job, ParseJobName(request.name()));
  const auto look_at = [this, show = std::move(sink.show)](const absl::StatusOr<const JobGlance*>& shown) {
    if (!shown.ok()) return show(shown.status());
    const JobGlance* glance = *shown;
    const Sizes& sizes = SizesOf(glance->view.record);
    v1::WatchJobResponse look;
    *look.mutable_job() = ToProto(*glance, sizes.job.parameters, sizes.fragment_elements, false);
    look.set_waiting_line(glance->view.waiting_line);
    for (const double loss : glance->recent_losses) look.add_recent_losses(loss);
    Room room(kAnswerBytes);
    room.Spend(look.ByteSizeLong());
    AddWorkers(*glance, room, *look.mutable_workers());
    std::vector<std::vector<v1::JobEvent>> messages = InMessages(glance->events, room.left());
    for (size_t i = 0; i < messages.size(); ++i) {
      v1::WatchJobResponse events_alone;
      v1::WatchJobResponse& message = i + 1 < messages.size() ? events_alone : look;
      for (v1::JobEvent& event : messages[i]) *message.add_events() = std::move(event);
      show(message);
    }
  };
  return engine_.Watch(job, request.after_revision(), {look_at, std::move(sink.takes)});
}

void JobApi::StopWatching(uint64_t watcher) { engine_.Unwatch(watcher); }

}  // namespace atl
