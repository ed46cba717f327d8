// SPDX-License-Identifier: Apache-2.0
// JobService and AdminService without gRPC: requests in, answers through callbacks. Validates, refuses jobs that do
// not fit (job_admission.cc), translates; the engine decides everything else. The gRPC reactors (api_service.h) and
// the harness call the same methods. Thread-safe.
#ifndef ATOLL_COORDINATOR_SERVICE_JOB_API_H_
#define ATOLL_COORDINATOR_SERVICE_JOB_API_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "common/base/executor.h"
#include "common/base/status.h"
#include "common/format/corpus_copy.h"
#include "common/plan/coordinator_needs.h"
#include "coordinator/engine/engine.h"
#include "coordinator/engine/intake.h"
#include "coordinator/service/answer_size.h"

namespace atl {

template <typename Response>
using Answer = std::function<void(absl::Status, Response)>;

struct JobApiOptions {
  std::string version;  // of the program
  int64_t start_wall_nanos = 0;
  // The coordinator's capacity, read at each submit and update; may block. Unset: no job is refused for its size.
  std::function<CoordinatorCapacity()> capacity = [] { return CoordinatorCapacity{}; };
  // The copy of a corpus that workers can stream, read at each submit; may block. Null: there is no data root.
  std::function<CorpusCopy(const CorpusManifest&, const Sha256& manifest)> corpus_copy = nullptr;
};

class JobApi {
 public:
  // `blobs` reads stored files and may block; it runs on `executor`. All outlive the object.
  JobApi(JobApiOptions options, Engine& engine, Clock& clock, Log& log, Executor& executor, BlobReader blobs);

  void SubmitJob(const v1::SubmitJobRequest& request, Answer<v1::SubmitJobResponse> answer);
  void GetJob(const v1::GetJobRequest& request, Answer<v1::GetJobResponse> answer);
  void ListJobs(const v1::ListJobsRequest& request, Answer<v1::ListJobsResponse> answer);
  void CancelJob(const v1::CancelJobRequest& request, Answer<v1::CancelJobResponse> answer);
  void PurgeJob(const v1::PurgeJobRequest& request, Answer<v1::PurgeJobResponse> answer);
  void PauseJob(const v1::PauseJobRequest& request, Answer<v1::PauseJobResponse> answer);
  void ResumeJob(const v1::ResumeJobRequest& request, Answer<v1::ResumeJobResponse> answer);
  void UpdateJob(const v1::UpdateJobRequest& request, Answer<v1::UpdateJobResponse> answer);
  void RollbackJob(const v1::RollbackJobRequest& request, Answer<v1::RollbackJobResponse> answer);
  void GetJobMetrics(const v1::GetJobMetricsRequest& request, Answer<v1::GetJobMetricsResponse> answer);
  void ListOffers(const v1::ListOffersRequest& request, Answer<v1::ListOffersResponse> answer);
  // The newest lines, none older than `since_wall_nanos` (Unix time); 0: of any age.
  void GetJobLogs(const v1::StreamJobLogsRequest& request, int64_t since_wall_nanos,
                  Answer<v1::StreamJobLogsResponse> answer);
  // Streams new lines until the job has ended; `end` is called once, last. The worker or the log is asked for new
  // lines only, at most once a second until the job's end, and never before its previous answer. Returns the watcher
  // for StopWatching.
  struct LogsSink {
    std::function<void(v1::StreamJobLogsResponse)> lines;
    std::function<void(const absl::Status&)> end;
    std::function<bool()> takes = [] { return true; };  // as GlanceSink
  };
  absl::StatusOr<uint64_t> FollowJobLogs(const v1::StreamJobLogsRequest& request, LogsSink sink);

  void ListWorkers(const v1::ListWorkersRequest& request, Answer<v1::ListWorkersResponse> answer);
  void DrainWorker(const v1::DrainWorkerRequest& request, Answer<v1::DrainWorkerResponse> answer);
  void CordonWorker(const v1::CordonWorkerRequest& request, Answer<v1::CordonWorkerResponse> answer);
  void EvictWorker(const v1::EvictWorkerRequest& request, Answer<v1::EvictWorkerResponse> answer);
  void ReadmitWorker(const v1::ReadmitWorkerRequest& request, Answer<v1::ReadmitWorkerResponse> answer);
  void ListCheckpoints(const v1::ListCheckpointsRequest& request, Answer<v1::ListCheckpointsResponse> answer);
  void GetCheckpoint(const v1::GetCheckpointRequest& request, Answer<v1::GetCheckpointResponse> answer);
  void DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Answer<v1::DeleteCheckpointResponse> answer);
  void GetServerInfo(const v1::GetServerInfoRequest& request, Answer<v1::GetServerInfoResponse> answer);

  // Starts watching. If a glance is too large for one message, the sink gets messages with events alone
  // before the one with the job. For an unknown job the sink gets NotFound only, and beyond
  // limits::kWatchers ResourceExhausted only. Returns the watcher for StopWatching.
  struct WatchSink {
    std::function<void(const absl::StatusOr<v1::WatchJobResponse>&)> show;
    std::function<bool()> takes = [] { return true; };  // as GlanceSink
  };
  absl::StatusOr<uint64_t> WatchJob(const v1::WatchJobRequest& request, WatchSink sink);
  void StopWatching(uint64_t watcher);

 private:
  // Engine thread only: sizes by job, computed once.
  struct Sizes {
    JobSizes job;
    std::vector<uint64_t> fragment_elements;
  };
  const Sizes& SizesOf(const JobRecord& record);
  // job_admission.cc. Adds to `planned` a violation for each broken corpus copy, a note for a missing one. May block.
  void LookAtCopies(IntakeResult& planned) const;
  // job_admission.cc; engine thread. Whether a job of this spec fits with all other unfinished
  // ones. A job of the same name does not count. A request with the id of an earlier one is accepted, or
  // AlreadyExists if the job of that one has another name or spec.
  absl::Status CheckFits(const Core& core, const v1::SubmitJobRequest& request, const JobSpec& spec,
                         const JobSizes& sizes, const CoordinatorCapacity& capacity, Instant now);
  // As CheckFits, for a new spec of an existing job. Checks only resources of which the job needs
  // more than before.
  absl::Status CheckUpdateFits(const Core& core, const JobRecord& record, const JobSpec& spec,
                               CoordinatorCapacity capacity, Instant now);
  v1::Job JobMessage(const JobId& job, Instant now, bool with_spec);
  // job_workers.cc; engine thread. The measured values of a worker and its planned utilization. `job`
  // null: the worker has no job.
  v1::WorkerStatus WorkerMessage(const WorkerView& worker, const JobHistory* totals, const JobRecord* job);
  using Workers = google::protobuf::RepeatedPtrField<v1::WorkerStatus>;
  void AddWorkers(const JobGlance& glance, Room& room, Workers& out);
  // job_logs.cc. The coordinator's newest lines about the job that fit into an answer.
  v1::StreamJobLogsResponse LinesAbout(const JobId& job, uint32_t count, int64_t since_wall_nanos) const;
  template <typename Response>
  void AskAndShow(Event event, Answer<Response> answer);
  void UpdateWithin(const CoordinatorCapacity& capacity, const JobId& job, const v1::UpdateJobRequest& request,
                    Answer<v1::UpdateJobResponse> answer);
  void PlanAndSubmit(const v1::SubmitJobRequest& request, JobSpec spec, Answer<v1::SubmitJobResponse> answer);
  void SubmitPlanned(const v1::SubmitJobRequest& request, const JobPlan& plan, const JobSizes& sizes,
                     Answer<v1::SubmitJobResponse> answer);

  const JobApiOptions options_;
  Engine& engine_;
  Clock& clock_;
  Log& log_;
  Executor& executor_;
  BlobReader blobs_;
  std::map<JobId, Sizes> sizes_;
  std::map<JobId, CoordinatorNeeds> promised_;  // engine thread: jobs being submitted to the core
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_JOB_API_H_
