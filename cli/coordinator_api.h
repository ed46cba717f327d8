// SPDX-License-Identifier: Apache-2.0
// The command line's interface to a coordinator. Implementations: gRPC (grpc_coordinator_api.h), and a small
// in-memory one for tests. Errors are the coordinator's statuses; if the coordinator cannot be reached, the message
// contains the coordinator's address.
#ifndef ATOLL_CLI_COORDINATOR_API_H_
#define ATOLL_CLI_COORDINATOR_API_H_

#include <functional>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "common/base/status.h"
#include "common/rpc/bulk.h"

namespace atl::cli {

// For one thread, except Interrupt. A call blocks until the answer, its deadline, or (except MissingBlobs) Interrupt.
class CoordinatorApi {
 public:
  virtual ~CoordinatorApi() = default;

  virtual absl::StatusOr<v1::SubmitJobResponse> SubmitJob(const v1::SubmitJobRequest& request) = 0;
  virtual absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request) = 0;
  virtual absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) = 0;
  virtual absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request) = 0;
  virtual absl::StatusOr<v1::PurgeJobResponse> PurgeJob(const v1::PurgeJobRequest& request) = 0;
  virtual absl::StatusOr<v1::PauseJobResponse> PauseJob(const v1::PauseJobRequest& request) = 0;
  virtual absl::StatusOr<v1::ResumeJobResponse> ResumeJob(const v1::ResumeJobRequest& request) = 0;
  virtual absl::StatusOr<v1::UpdateJobResponse> UpdateJob(const v1::UpdateJobRequest& request) = 0;
  virtual absl::StatusOr<v1::RollbackJobResponse> RollbackJob(const v1::RollbackJobRequest& request) = 0;
  virtual absl::StatusOr<v1::GetJobMetricsResponse> GetJobMetrics(const v1::GetJobMetricsRequest& request) = 0;
  virtual absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request) = 0;
  virtual absl::StatusOr<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request) = 0;
  virtual absl::StatusOr<v1::CordonWorkerResponse> CordonWorker(const v1::CordonWorkerRequest& request) = 0;
  virtual absl::StatusOr<v1::EvictWorkerResponse> EvictWorker(const v1::EvictWorkerRequest& request) = 0;
  virtual absl::StatusOr<v1::ReadmitWorkerResponse> ReadmitWorker(const v1::ReadmitWorkerRequest& request) = 0;
  virtual absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) = 0;
  virtual absl::StatusOr<v1::GetCheckpointResponse> GetCheckpoint(const v1::GetCheckpointRequest& request) = 0;
  virtual absl::StatusOr<v1::DeleteCheckpointResponse> DeleteCheckpoint(const v1::DeleteCheckpointRequest& request) = 0;
  virtual absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest& request) = 0;
  virtual absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request) = 0;
  virtual absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request) = 0;
  virtual absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request) = 0;
  virtual absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentity(const v1::RevokeIdentityRequest& request) = 0;
  virtual absl::StatusOr<v1::ListRevocationsResponse> ListRevocations(const v1::ListRevocationsRequest& request) = 0;

  // Streams. `next` is called for each message on the calling thread; if it returns false, the call ends with OK.
  // Also OK when the coordinator ends the stream without an error.
  virtual absl::Status WatchJob(const v1::WatchJobRequest& request,
                                const std::function<bool(const v1::WatchJobResponse&)>& next) = 0;
  virtual absl::Status StreamJobLogs(const v1::StreamJobLogsRequest& request,
                                     const std::function<bool(const v1::StreamJobLogsResponse&)>& next) = 0;

  // Bulk bytes, over a separate connection. Sources and sinks are no longer used after the call
  // returns.
  virtual absl::StatusOr<std::vector<Sha256>> MissingBlobs(const std::vector<Sha256>& blobs) = 0;
  virtual absl::Status UploadBlob(const Sha256& sha256, std::shared_ptr<BulkSource> source) = 0;
  virtual absl::Status Download(const DownloadRequest& request, std::shared_ptr<BulkSink> sink) = 0;

  // Ends the running call and every later one with Cancelled. Returns false when no call but MissingBlobs has been
  // made; the command might then not notice the interrupt. Thread-safe.
  virtual bool Interrupt() = 0;
};

}  // namespace atl::cli

#endif  // ATOLL_CLI_COORDINATOR_API_H_
