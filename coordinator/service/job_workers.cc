// Workers as people see them: what they measure, and the plan beside it.
#include <utility>

#include "common/wire/resource_names.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/translate.h"

namespace atl {

v1::WorkerStatus JobApi::WorkerMessage(const WorkerView& worker, const JobHistory* totals, const JobRecord* job) {
  if (job == nullptr) return ToProto(worker, totals, nullptr);
  v1::WorkerStatus message = ToProto(worker, totals, &job->spec);
  const auto planned = PlannedUtilization(worker, job->spec, SizesOf(*job).fragment_elements);
  if (planned) message.set_planned_utilization_ratio(*planned);
  return message;
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
        for (const WorkerView& worker : core.ViewWorkers(now)) {
          if (!only.value.empty() && worker.job != only) continue;
          if (worker.state == WorkerState::kLost && !request.include_lost()) continue;
          const std::optional<JobView> view = core.ViewJob(worker.job, now);
          *response.add_workers() =
              WorkerMessage(worker, history.Find(worker.job), view.has_value() ? &view->record : nullptr);
        }
        answer(absl::OkStatus(), std::move(response));
      });
}

}  // namespace atl
