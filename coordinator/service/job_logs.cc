// SPDX-License-Identifier: Apache-2.0
// Log lines about a job: the coordinator's own, and those that a worker sends on request.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/plan/limits.h"
#include "common/wire/resource_names.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/new_lines.h"

namespace atl {
namespace {

constexpr uint32_t kDefaultLogLines = 100;
constexpr uint32_t kLargestLogLines = limits::kLogLines;
constexpr Duration kFollowInterval = Seconds(1);  // between two requests of a follower: they share a worker's uplink

// NotFound unless the worker is connected, because only the worker has its log lines.
absl::Status Connected(const Core& core, const WorkerId& worker, Instant now) {
  for (const WorkerView& view : core.ViewWorkers(now)) {
    if (view.worker == worker && view.connected) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      "worker ", worker.value,
      " is not connected, but only the worker has its log lines; 'atoll worker list' shows the connected workers"));
}

// Asks for new lines during the job and once after its end, one request at a time. Engine thread only.
class Follower : public std::enable_shared_from_this<Follower> {
 public:
  Follower(JobApi& api, Clock& clock, v1::StreamJobLogsRequest request, JobApi::LogsSink sink)
      : api_(api), clock_(clock), request_(std::move(request)), sink_(std::move(sink)) {}

  void End(const absl::Status& status) {
    over_ = true;
    sink_.end(status);
  }

  void Look(bool job_ended) {
    job_ended_ = job_ended_ || job_ended;
    if (!over_ && !asked_ && (job_ended_ || clock_.Now() >= due_)) Ask();
  }

 private:
  void Ask() {
    asked_ = true;
    last_ = job_ended_;
    due_ = clock_.Now() + kFollowInterval;
    if (new_lines_.since_wall_nanos() > 0) request_.set_tail(kLargestLogLines);  // later answers must not skip lines
    api_.GetJobLogs(request_, new_lines_.since_wall_nanos(),
                    [self = shared_from_this()](const absl::Status& status, const v1::StreamJobLogsResponse& lines) {
                      self->Answered(status, lines);
                    });
  }

  void Answered(const absl::Status& status, const v1::StreamJobLogsResponse& lines) {
    asked_ = false;
    if (absl::IsResourceExhausted(status) && !job_ended_) return;  // retries in a second
    if (!status.ok()) return End(status);
    v1::StreamJobLogsResponse fresh;
    for (std::string& line : new_lines_.Of({lines.lines().begin(), lines.lines().end()}))
      fresh.add_lines(std::move(line));
    if (fresh.lines_size() > 0) sink_.lines(std::move(fresh));
    if (last_) return End(absl::OkStatus());
    if (job_ended_) Ask();  // lines written between that request and the end
  }

  JobApi& api_;
  Clock& clock_;
  v1::StreamJobLogsRequest request_;
  const JobApi::LogsSink sink_;
  NewLines new_lines_;
  Instant due_{};
  bool asked_ = false, last_ = false, job_ended_ = false, over_ = false;
};

}  // namespace

void JobApi::GetJobLogs(const v1::StreamJobLogsRequest& request, int64_t since_wall_nanos,
                        Answer<v1::StreamJobLogsResponse> answer) {
  const absl::StatusOr<JobId> job = ParseJobName(request.name());
  if (!job.ok()) return answer(job.status(), {});
  std::optional<WorkerId> worker;
  if (!request.worker().empty()) {
    const absl::StatusOr<WorkerId> named = ParseWorkerName(request.worker());
    if (!named.ok()) return answer(named.status(), {});
    worker = *named;
  }
  const uint32_t count = std::min(request.tail() == 0 ? kDefaultLogLines : request.tail(), kLargestLogLines);
  engine_.Query([this, job = *job, worker, count, since_wall_nanos, answer = std::move(answer)](
                    const Core& core, const History&, Instant now) {
    if (!core.HasJob(job)) return answer(NoSuchJob(job), {});
    if (!worker) return answer(absl::OkStatus(), LinesAbout(job, count, since_wall_nanos));
    if (const absl::Status there = Connected(core, *worker, now); !there.ok()) return answer(there, {});
    engine_.WantLogs(*worker, count, since_wall_nanos, [answer](const absl::StatusOr<std::vector<std::string>>& lines) {
      v1::StreamJobLogsResponse response;
      if (!lines.ok()) return answer(lines.status(), {});
      for (const std::string& line : *lines) response.add_lines(line);
      answer(absl::OkStatus(), std::move(response));
    });
  });
}

v1::StreamJobLogsResponse JobApi::LinesAbout(const JobId& job, uint32_t count, int64_t since_wall_nanos) const {
  v1::StreamJobLogsResponse response;
  Room room(kAnswerBytes);
  const std::vector<LogLine> recent = log_.Recent(kLargestLogLines, since_wall_nanos);
  for (auto line = recent.rbegin(); line != recent.rend(); ++line) {
    const bool about_job = std::any_of(line->fields.begin(), line->fields.end(), [&job](const LogField& field) {
      return field.key == "job" && field.value == job.value;
    });
    if (!about_job) continue;
    std::string text = Beginning(line->ToText(), limits::kTextBytes);
    if (static_cast<uint32_t>(response.lines_size()) == count || !room.Take(text.size())) break;
    response.add_lines(std::move(text));
  }
  std::reverse(response.mutable_lines()->begin(), response.mutable_lines()->end());
  return response;
}

absl::StatusOr<uint64_t> JobApi::FollowJobLogs(const v1::StreamJobLogsRequest& request, LogsSink sink) {
  ATOLL_ASSIGN_OR_RETURN(const JobId job, ParseJobName(request.name()));
  const std::function<bool()> takes = sink.takes;
  const auto follower = std::make_shared<Follower>(*this, clock_, request, std::move(sink));
  const auto look = [follower](const absl::StatusOr<const JobGlance*>& shown) {
    if (!shown.ok()) return follower->End(shown.status());
    follower->Look(HasEnded((*shown)->view.record.state));
  };
  return engine_.Watch(job, UINT64_MAX, {look, takes});
}

}  // namespace atl
