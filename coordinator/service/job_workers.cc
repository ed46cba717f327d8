// SPDX-License-Identifier: Apache-2.0
// Workers as people see them: measured values, and the utilization that the planner's model gives for them.
#include <optional>
#include <utility>
#include <vector>

#include "common/base/upper_median.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/resource_names.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/translate.h"

namespace atl {
namespace {

constexpr int kOffers = 64;

std::optional<double> MedianStepSeconds(const std::vector<WorkerView>& workers, const JobId& job) {
  std::vector<int64_t> steps_ns;
  for (const WorkerView& worker : workers) {
    if (worker.job == job && worker.connected && worker.last.step_ns > 0) steps_ns.push_back(worker.last.step_ns);
  }
  if (steps_ns.empty()) return std::nullopt;
  return static_cast<double>(UpperMedian(std::move(steps_ns))) * 1e-9;
}

// Steers a worker through the engine, and answers with its state afterwards.
template <typename Response>
void SteerWorker(Engine& engine, const std::string& name, WorkerAction action, Answer<Response> answer) {
  const absl::StatusOr<WorkerId> worker = ParseWorkerName(name);
  if (!worker.ok()) return answer(worker.status(), {});
  engine.Ask(WorkerSteered{.worker = *worker, .action = action},
             [&engine, worker = *worker, answer = std::move(answer)](const RequestAnswered& answered) {
               if (!answered.status.ok()) return answer(answered.status, {});
               engine.Query([worker, answer](const Core& core, const History&, Instant now) {
                 Response response;
                 for (const WorkerView& view : core.ViewWorkers(now)) {
                   if (view.worker == worker) *response.mutable_worker() = ToProto(view, nullptr, nullptr);
                 }
                 answer(absl::OkStatus(), std::move(response));
               });
             });
}

}  // namespace

void JobApi::ListOffers(const v1::ListOffersRequest&, Answer<v1::ListOffersResponse> answer) {
  engine_.Query([answer = std::move(answer)](const Core& core, const History&, Instant now) {
    v1::ListOffersResponse response;
    const std::vector<WorkerView> workers = core.ViewWorkers(now);
    for (const JobId& job : core.Jobs()) {
      const std::optional<JobView> view = core.ViewJob(job, now);
      if (!view.has_value() || HasEnded(view->record.state)) continue;
      if (response.offers_size() == kOffers) break;
      v1::Offer& offer = *response.add_offers();
      offer.set_job(JobName(job));
      *offer.mutable_spec() = JobSpecToProto(view->record.spec);
      offer.set_state(ToProto(view->record.state));
      if (const auto seconds = MedianStepSeconds(workers, job)) offer.set_step_seconds(*seconds);
    }
    answer(absl::OkStatus(), std::move(response));
  });
}

v1::WorkerStatus JobApi::WorkerMessage(const WorkerView& worker, const JobHistory* totals, const JobRecord* job) {
  if (job == nullptr) return ToProto(worker, totals, nullptr);
  v1::WorkerStatus message = ToProto(worker, totals, &job->spec);
  const auto planned = PlannedUtilization(worker, job->spec, SizesOf(*job).fragment_elements);
  if (planned) message.set_planned_utilization_ratio(*planned);
  return message;
}

// Takes at most half of the room, because events need some too; leaves out workers that do not fit.
void JobApi::AddWorkers(const JobGlance& glance, Room& room, Workers& out) {
  Room half(room.left() / 2);
  for (const WorkerView& worker : glance.workers) {
    v1::WorkerStatus message = WorkerMessage(worker, &glance.totals, &glance.view.record);
    if (!half.Take(message.ByteSizeLong())) continue;
    (void)room.Take(message.ByteSizeLong());
    *out.Add() = std::move(message);
  }
}

void JobApi::ListWorkers(const v1::ListWorkersRequest& request, Answer<v1::ListWorkersResponse> answer) {
  JobId only;
  if (!request.job().empty()) {
    const absl::StatusOr<JobId> job = ParseJobName(request.job());
    if (!job.ok()) return answer(job.status(), {});
    only = *job;
  }
  engine_.Query(
      [this, request, only, answer = std::move(answer)](const Core& core, const History& history, Instant now) {
        v1::ListWorkersResponse response;
        for (const WorkerView& worker : only.value.empty() ? core.ViewWorkers(now) : core.ViewWorkersOf(only, now)) {
          const bool gone = worker.state == WorkerState::kLost || worker.state == WorkerState::kLeft;
          if (gone && !request.include_lost()) continue;
          const std::optional<JobView> view = core.ViewJob(worker.job, now);
          *response.add_workers() =
              WorkerMessage(worker, history.Find(worker.job), view.has_value() ? &view->record : nullptr);
        }
        answer(absl::OkStatus(), std::move(response));
      });
}

void JobApi::DrainWorker(const v1::DrainWorkerRequest& request, Answer<v1::DrainWorkerResponse> answer) {
  SteerWorker(engine_, request.name(), WorkerAction::kDrain, std::move(answer));
}

void JobApi::CordonWorker(const v1::CordonWorkerRequest& request, Answer<v1::CordonWorkerResponse> answer) {
  SteerWorker(engine_, request.name(), WorkerAction::kCordon, std::move(answer));
}

void JobApi::EvictWorker(const v1::EvictWorkerRequest& request, Answer<v1::EvictWorkerResponse> answer) {
  SteerWorker(engine_, request.name(), WorkerAction::kEvict, std::move(answer));
}

void JobApi::ReadmitWorker(const v1::ReadmitWorkerRequest& request, Answer<v1::ReadmitWorkerResponse> answer) {
  SteerWorker(engine_, request.name(), WorkerAction::kReadmit, std::move(answer));
}

}  // namespace atl
