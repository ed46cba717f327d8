// SPDX-License-Identifier: Apache-2.0
// A minimal coordinator: the test sets the answers, and requests are recorded.
#ifndef ATOLL_TESTS_UNIT_CLI_COMMANDS_FAKE_COORDINATOR_H_
#define ATOLL_TESTS_UNIT_CLI_COMMANDS_FAKE_COORDINATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/app.h"

namespace atl::cli {

class FakeCoordinator : public CoordinatorApi {
 public:
  absl::Status error;  // of every unary call
  std::vector<v1::SubmitJobRequest> submitted;
  std::deque<absl::Status> submit_errors;  // each answers one submit
  std::vector<std::string> notes;
  v1::GetJobResponse job;
  std::vector<v1::ListJobsResponse> pages;
  std::vector<std::string> page_tokens;
  v1::UpdateJobRequest updated;
  v1::RollbackJobRequest rolled_back;
  v1::CancelJobRequest cancelled;
  v1::PurgeJobRequest purged;
  v1::GetJobMetricsResponse metrics;
  v1::ListWorkersResponse workers;
  v1::ReadmitWorkerRequest readmitted;
  v1::CordonWorkerRequest cordoned;
  v1::EvictWorkerRequest evicted;
  v1::CreateTokenRequest token_wanted;
  v1::CreateTokenResponse token_made;
  v1::ListTokensResponse tokens, more_tokens;
  v1::ListRevocationsResponse revocations, more_revocations;
  v1::ListCheckpointsResponse checkpoints;
  v1::GetCheckpointResponse checkpoint;
  v1::DeleteCheckpointRequest deleted;
  // One entry per stream: its messages, then its status.
  std::deque<std::pair<std::vector<v1::WatchJobResponse>, absl::Status>> watches;
  std::vector<v1::WatchJobRequest> watch_requests;
  std::function<void()> before_message = [] {};  // of a stream
  v1::StreamJobLogsRequest logs_request;
  v1::StreamJobLogsResponse logs;
  std::map<Sha256, std::string> blobs, parts;
  std::function<void()> before_transfer = [] {};  // of a blob or a fragment
  int broken_uploads = 0;                         // number of uploads that still fail
  size_t cut_uploads_every_bytes = 0;             // uploads break after this number of bytes and resume there; 0: never
  std::map<uint32_t, std::string> fragments;      // bytes of the checkpoint's fragments
  int cut_every_bytes = 0;                        // downloads break after this number of bytes; 0: never
  absl::Status cut = absl::UnavailableError("cut");                     // the error of broken transfers
  bool wrong_digest = false, no_digest = false, written_again = false;  // the last: in the middle of a download
  int damaged_downloads = 0;  // number of fragment downloads that still get a flipped bit

  absl::StatusOr<v1::SubmitJobResponse> SubmitJob(const v1::SubmitJobRequest& request) override {
    submitted.push_back(request);
    if (!submit_errors.empty()) {
      const absl::Status status = submit_errors.front();
      submit_errors.pop_front();
      if (!status.ok()) return status;
    }
    if (!error.ok()) return error;
    v1::SubmitJobResponse response;
    response.mutable_job()->set_name("jobs/" + (request.job_id().empty() ? "made-up" : request.job_id()));
    for (const std::string& note : notes) response.add_notes(note);
    if (request.validate_only()) {
      response.mutable_job()->set_coordinator_memory_bytes(3'200'000'000);
      response.mutable_job()->set_coordinator_disk_bytes(41'000'000'000);
    }
    return response;
  }
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request) override {
    return Answer(job, request.name() == job.job().name()
                           ? absl::OkStatus()
                           : absl::NotFoundError("there is no job '" + request.name() + "'"));
  }
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) override {
    page_tokens.push_back(request.page_token());
    if (!error.ok()) return error;
    return page_tokens.size() <= pages.size() ? pages[page_tokens.size() - 1] : v1::ListJobsResponse();
  }
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request) override {
    cancelled = request;
    return WithJob<v1::CancelJobResponse>();
  }
  absl::StatusOr<v1::PurgeJobResponse> PurgeJob(const v1::PurgeJobRequest& request) override {
    purged = request;
    return WithJob<v1::PurgeJobResponse>();
  }
  absl::StatusOr<v1::PauseJobResponse> PauseJob(const v1::PauseJobRequest&) override {
    return WithJob<v1::PauseJobResponse>();
  }
  absl::StatusOr<v1::ResumeJobResponse> ResumeJob(const v1::ResumeJobRequest&) override {
    return WithJob<v1::ResumeJobResponse>();
  }
  absl::StatusOr<v1::UpdateJobResponse> UpdateJob(const v1::UpdateJobRequest& request) override {
    updated = request;
    return WithJob<v1::UpdateJobResponse>();
  }
  absl::StatusOr<v1::RollbackJobResponse> RollbackJob(const v1::RollbackJobRequest& request) override {
    rolled_back = request;
    return WithJob<v1::RollbackJobResponse>();
  }
  absl::StatusOr<v1::GetJobMetricsResponse> GetJobMetrics(const v1::GetJobMetricsRequest&) override {
    return Answer(metrics);
  }
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest&) override {
    return Answer(workers);
  }
  absl::StatusOr<v1::CordonWorkerResponse> CordonWorker(const v1::CordonWorkerRequest& request) override {
    cordoned = request;
    return Answer(v1::CordonWorkerResponse());
  }
  absl::StatusOr<v1::EvictWorkerResponse> EvictWorker(const v1::EvictWorkerRequest& request) override {
    evicted = request;
    return Answer(v1::EvictWorkerResponse());
  }
  absl::StatusOr<v1::ReadmitWorkerResponse> ReadmitWorker(const v1::ReadmitWorkerRequest& request) override {
    readmitted = request;
    return Answer(v1::ReadmitWorkerResponse());
  }
  absl::StatusOr<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest&) override {
    return Answer(v1::DrainWorkerResponse());
  }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest&) override {
    return Answer(checkpoints);
  }
  absl::StatusOr<v1::GetCheckpointResponse> GetCheckpoint(const v1::GetCheckpointRequest&) override {
    return Answer(checkpoint);
  }
  absl::StatusOr<v1::DeleteCheckpointResponse> DeleteCheckpoint(const v1::DeleteCheckpointRequest& request) override {
    deleted = request;
    return Answer(v1::DeleteCheckpointResponse());
  }
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest&) override {
    return Answer(v1::GetServerInfoResponse());
  }
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request) override {
    token_wanted = request;
    return Answer(token_made);
  }
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request) override {
    return Answer(request.page_token().empty() ? tokens : more_tokens);
  }
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request) override {
    v1::RevokeTokenResponse response;
    response.mutable_token()->set_id(request.id());
    return Answer(response);
  }
  absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentity(const v1::RevokeIdentityRequest& request) override {
    v1::RevokeIdentityResponse response;
    response.mutable_revocation()->set_name(request.name());
    response.mutable_revocation()->mutable_revoke_time()->set_seconds(1'800'000'000);
    return Answer(response);
  }
  absl::StatusOr<v1::ListRevocationsResponse> ListRevocations(const v1::ListRevocationsRequest& request) override {
    return Answer(request.page_token().empty() ? revocations : more_revocations);
  }

  absl::Status WatchJob(const v1::WatchJobRequest& request,
                        const std::function<bool(const v1::WatchJobResponse&)>& next) override {
    watch_requests.push_back(request);
    if (watches.empty()) return error.ok() ? absl::NotFoundError("no such job") : error;
    const auto [messages, status] = watches.front();
    watches.pop_front();
    for (const auto& message : messages) {
      before_message();
      if (!next(message)) return absl::OkStatus();
    }
    return status;
  }
  absl::Status StreamJobLogs(const v1::StreamJobLogsRequest& request,
                             const std::function<bool(const v1::StreamJobLogsResponse&)>& next) override {
    logs_request = request;
    if (error.ok()) next(logs);
    return error;
  }

  absl::StatusOr<std::vector<Sha256>> MissingBlobs(const std::vector<Sha256>& wanted) override {
    if (!error.ok()) return error;
    std::vector<Sha256> missing;
    for (const Sha256& sha256 : wanted)
      if (blobs.count(sha256) == 0) missing.push_back(sha256);
    return missing;
  }
  absl::Status UploadBlob(const Sha256& sha256, std::shared_ptr<BulkSource> source) override {
    before_transfer();
    if (broken_uploads-- > 0) return cut;
    std::string& all = parts[sha256];
    const size_t cut_at = cut_uploads_every_bytes == 0 ? SIZE_MAX : all.size() + cut_uploads_every_bytes;
    const uint64_t frame = std::min<uint64_t>(1000, cut_uploads_every_bytes == 0 ? 1000 : cut_uploads_every_bytes);
    for (uint64_t at = all.size(); at < source->size_bytes(); at += frame) {
      const auto part = source->Read(at, static_cast<size_t>(std::min(frame, source->size_bytes() - at)));
      if (!part.ok()) return part.status();
      for (const Bytes piece : part->pieces) all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (all.size() >= cut_at) return cut;
    }
    if (Sha256Of(AsBytes(all)) != sha256) return absl::DataLossError("another hash");
    blobs[sha256] = std::exchange(all, {});
    return absl::OkStatus();
  }
  absl::Status Download(const DownloadRequest& request, std::shared_ptr<BulkSink> sink) override {
    before_transfer();
    std::string bytes;
    DownloadHeader header;
    if (const auto* blob = std::get_if<BlobKey>(&request.key)) {
      if (blobs.count(blob->sha256) == 0) return absl::NotFoundError("no such file");
      bytes = blobs[blob->sha256];
    } else if (const auto* key = std::get_if<CheckpointFragmentKey>(&request.key)) {
      bytes = fragments[key->fragment.value];
      if (damaged_downloads-- > 0) bytes[100] ^= 1;
      (void)Digest::FromHex(checkpoint.checkpoint().content_hashes(static_cast<int>(key->fragment.value)), header.hash);
      if (request.offset_bytes > 0 && written_again) header.hash = {1, 2};
    }
    header.total_bytes = bytes.size();
    if (!no_digest) header.digest = wrong_digest ? Digest{1, 2} : DigestOf(AsBytes(bytes));
    if (absl::Status status = sink->OnHeader(header); !status.ok()) return status;
    uint64_t end = bytes.size();
    if (cut_every_bytes > 0)
      end = std::min<uint64_t>(end, request.offset_bytes + static_cast<uint64_t>(cut_every_bytes));
    const std::string part = bytes.substr(request.offset_bytes, end - request.offset_bytes);
    if (!part.empty()) {
      if (absl::Status status = sink->OnBytes(request.offset_bytes, AsBytes(part)); !status.ok()) return status;
    }
    return end == bytes.size() ? absl::OkStatus() : cut;
  }
  bool Interrupt() override { return true; }

 private:
  template <typename T>
  absl::StatusOr<T> Answer(const T& answer, absl::Status status = absl::OkStatus()) const {
    if (!error.ok()) return error;
    if (!status.ok()) return status;
    return answer;
  }
  template <typename T>
  absl::StatusOr<T> WithJob() const {
    if (!error.ok()) return error;
    T response;
    *response.mutable_job() = job.job();
    return response;
  }
};

}  // namespace atl::cli

#endif  // ATOLL_TESTS_UNIT_CLI_COMMANDS_FAKE_COORDINATOR_H_
