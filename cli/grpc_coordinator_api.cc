// SPDX-License-Identifier: Apache-2.0
#include "cli/grpc_coordinator_api.h"

#include <algorithm>

#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/job.grpc.pb.h"
#include "cli/pending_answer.h"
#include "cli/session.h"
#include "common/base/mutex.h"
#include "common/base/wall_time.h"
#include "common/config/quantities.h"
#include "common/plan/limits.h"
#include "common/preflight/coordinator_check.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/tls.h"
#include "common/trust/access.h"

namespace atl::cli {
namespace {

// The running call, which Interrupt cancels.
class Running {
 public:
  // False after an interrupt: the call must not begin.
  bool Begin(grpc::ClientContext* context, BulkCall* call) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    context_ = context;
    call_ = call;
    begun_ = true;
    return !interrupted_;
  }
  void End() ATOLL_EXCLUDES(mutex_) { Begin(nullptr, nullptr); }
  bool Interrupt() ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    interrupted_ = true;
    if (context_ != nullptr) context_->TryCancel();
    if (call_ != nullptr) call_->Cancel();
    return begun_;
  }
  bool interrupted() ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return interrupted_;
  }

 private:
  Mutex mutex_;
  bool interrupted_ ATOLL_GUARDED_BY(mutex_) = false;
  bool begun_ ATOLL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ATOLL_GUARDED_BY(mutex_) = nullptr;
  BulkCall* call_ ATOLL_GUARDED_BY(mutex_) = nullptr;
};

// A rollback is answered only after a whole checkpoint has been read.
constexpr Duration kRollbackDeadline = Seconds(600);

class GrpcCoordinatorApi final : public CoordinatorApi {
 public:
  GrpcCoordinatorApi(std::string endpoint, std::string identity, Passphrases& passphrases,
                     std::optional<Instant> deadline, const Clock& clock)
      : endpoint_(std::move(endpoint)),
        identity_(std::move(identity)),
        passphrases_(passphrases),
        deadline_(deadline),
        clock_(clock) {}

#define ATOLL_UNARY(Service, Method)                                                                                   \
  absl::StatusOr<v1::Method##Response> Method(const v1::Method##Request& request) override {                           \
    return AsQuery("/atoll.v1." #Service "/" #Method,                                                                  \
                   Call<v1::Service, v1::Method##Request, v1::Method##Response>(&v1::Service::Stub::Method, request)); \
  }
  ATOLL_UNARY(JobService, SubmitJob)
  ATOLL_UNARY(JobService, GetJob)
  ATOLL_UNARY(JobService, ListJobs)
  ATOLL_UNARY(JobService, CancelJob)
  ATOLL_UNARY(JobService, PurgeJob)
  ATOLL_UNARY(JobService, PauseJob)
  ATOLL_UNARY(JobService, ResumeJob)
  ATOLL_UNARY(JobService, UpdateJob)
  ATOLL_UNARY(JobService, GetJobMetrics)
  ATOLL_UNARY(AdminService, ListWorkers)
  ATOLL_UNARY(AdminService, DrainWorker)
  ATOLL_UNARY(AdminService, CordonWorker)
  ATOLL_UNARY(AdminService, EvictWorker)
  ATOLL_UNARY(AdminService, ReadmitWorker)
  ATOLL_UNARY(AdminService, ListCheckpoints)
  ATOLL_UNARY(AdminService, GetCheckpoint)
  ATOLL_UNARY(AdminService, DeleteCheckpoint)
  ATOLL_UNARY(AdminService, GetServerInfo)
  ATOLL_UNARY(AdminService, CreateToken)
  ATOLL_UNARY(AdminService, ListTokens)
  ATOLL_UNARY(AdminService, RevokeToken)
  ATOLL_UNARY(AdminService, RevokeIdentity)
  ATOLL_UNARY(AdminService, ListRevocations)
#undef ATOLL_UNARY
  absl::StatusOr<v1::RollbackJobResponse> RollbackJob(const v1::RollbackJobRequest& request) override {
    return Call<v1::JobService, v1::RollbackJobRequest, v1::RollbackJobResponse>(&v1::JobService::Stub::RollbackJob,
                                                                                 request, kRollbackDeadline);
  }

  absl::Status WatchJob(const v1::WatchJobRequest& request,
                        const std::function<bool(const v1::WatchJobResponse&)>& next) override {
    return Stream<v1::JobService, v1::WatchJobResponse>(
        [&](v1::JobService::Stub& stub, grpc::ClientContext& context) { return stub.WatchJob(&context, request); },
        next);
  }
  absl::Status StreamJobLogs(const v1::StreamJobLogsRequest& request,
                             const std::function<bool(const v1::StreamJobLogsResponse&)>& next) override {
    return Stream<v1::JobService, v1::StreamJobLogsResponse>(
        [&](v1::JobService::Stub& stub, grpc::ClientContext& context) { return stub.StreamJobLogs(&context, request); },
        next);
  }

  absl::StatusOr<std::vector<Sha256>> MissingBlobs(const std::vector<Sha256>& blobs) override;
  absl::Status UploadBlob(const Sha256& sha256, std::shared_ptr<BulkSource> source) override;
  absl::Status Download(const DownloadRequest& request, std::shared_ptr<BulkSink> sink) override;
  bool Interrupt() override { return running_.Interrupt(); }

 private:
  absl::Status Connect();
  absl::StatusOr<BulkClient*> Bulk();
  // Sets the remaining time until the deadline; without a deadline `otherwise`, or no limit.
  void Limit(grpc::ClientContext& context, std::optional<Duration> otherwise) const;
  // `limit`: time limit of the call when there is no deadline.
  absl::Status Explain(const absl::Status& status, Duration limit = limits::kControlDeadline);
  absl::Status ExplainUnavailable(const absl::Status& status);
  // Makes a short call to see whether the coordinator answers. Returns its status without Explain.
  absl::Status Ask();
  absl::Status Await(PendingAnswer<absl::Status>& pending, BulkCall& call);

  template <typename Service, typename Request, typename Response, typename Method>
  absl::StatusOr<Response> Call(Method method, const Request& request, Duration limit = limits::kControlDeadline) {
    ATOLL_RETURN_IF_ERROR(Connect());
    absl::StatusOr<Response> answer = Make<Service, Request, Response>(method, request, limit);
    if (deadline_ && absl::IsDeadlineExceeded(answer.status())) return TimeoutHasPassed();
    if (!answer.ok()) return Explain(answer.status(), limit);
    return answer;
  }

  // Makes one call on the channel that Connect has made. Returns errors without Explain.
  template <typename Service, typename Request, typename Response, typename Method>
  absl::StatusOr<Response> Make(Method method, const Request& request, Duration limit) {
    grpc::ClientContext context;
    Limit(context, limit);
    Response response;
    if (!running_.Begin(&context, nullptr)) return absl::CancelledError("interrupted");
    const auto stub = Service::NewStub(channel_);
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    running_.End();
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  template <typename Service, typename Message, typename Open>
  absl::Status Stream(const Open& open, const std::function<bool(const Message&)>& next) {
    ATOLL_RETURN_IF_ERROR(Connect());
    grpc::ClientContext context;
    Limit(context, std::nullopt);
    if (!running_.Begin(&context, nullptr)) return absl::CancelledError("interrupted");
    const auto stub = Service::NewStub(channel_);
    const auto reader = open(*stub, context);
    Message message;
    bool enough = false;
    while (!enough && reader->Read(&message)) enough = !next(message);
    if (enough) context.TryCancel();
    const grpc::Status status = reader->Finish();
    running_.End();
    return enough || status.ok() ? absl::OkStatus() : TellToRepeat(Explain(FromGrpc(status)));
  }

  // Turns RESOURCE_EXHAUSTED of a query, which gRPC has repeated already, into UNAVAILABLE: a retry may succeed.
  static absl::Status TellToRepeat(const absl::Status& status) {
    return absl::IsResourceExhausted(status) ? absl::UnavailableError(status.message()) : status;
  }
  template <typename Response>
  static absl::StatusOr<Response> AsQuery(const char* method, absl::StatusOr<Response> answer) {
    if (answer.ok() || !FindAccessRule(method)->is_query()) return answer;
    return TellToRepeat(answer.status());
  }

  absl::StatusOr<ChannelSecurity> Security() {
    if (identity_.empty()) return ChannelSecurity::PlaintextLoopback();
    ATOLL_ASSIGN_OR_RETURN(passphrase_, passphrases_.Of(identity_));
    return MutualTlsChannel(identity_, WallSeconds(clock_), passphrase_);
  }

  const std::string endpoint_;
  const std::string identity_;
  Passphrases& passphrases_;
  std::string passphrase_;
  const std::optional<Instant> deadline_;
  const Clock& clock_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<BulkClient> bulk_;
  Running running_;
};

absl::Status GrpcCoordinatorApi::Connect() {
  if (channel_ != nullptr) return absl::OkStatus();
  ChannelOptions options;
  options.address = endpoint_;
  for (const AccessRule& rule : AccessTable()) {
    if (rule.is_query()) options.repeated.push_back(rule.method);
  }
  ATOLL_ASSIGN_OR_RETURN(const ChannelSecurity security, Security());
  ATOLL_ASSIGN_OR_RETURN(channel_, MakeControlChannel(options, security));
  return absl::OkStatus();
}

absl::StatusOr<BulkClient*> GrpcCoordinatorApi::Bulk() {
  if (bulk_ == nullptr) {
    ChannelOptions options;
    options.address = endpoint_;
    ATOLL_ASSIGN_OR_RETURN(const ChannelSecurity security, Security());
    ATOLL_ASSIGN_OR_RETURN(auto channel, MakeBulkChannel(options, security));
    bulk_ = MakeGrpcBulkClient(std::move(channel), clock_, {});
  }
  return bulk_.get();
}

void GrpcCoordinatorApi::Limit(grpc::ClientContext& context, std::optional<Duration> otherwise) const {
  if (deadline_) {
    SetDeadline(context, std::max(*deadline_ - clock_.Now(), Milliseconds(1)));
  } else if (otherwise) {
    SetDeadline(context, *otherwise);
  }
}

// Extracts the cause from gRPC's message: "... Failed to connect to remote host: Connection
// refused".
std::string CauseOf(const std::string& message) {
  const std::string marker = "remote host: ", lookup = "DNS resolution failed";
  if (message.rfind(lookup, 0) == 0 && message.rfind(": ") != std::string::npos)  // followed by the resolver's details
    return "DNS cannot resolve its name: " + message.substr(message.rfind(": ") + 2);
  const size_t at = message.rfind(marker);
  return at == std::string::npos ? message : message.substr(at + marker.size());
}

absl::Status GrpcCoordinatorApi::Ask() {
  ATOLL_RETURN_IF_ERROR(Connect());
  return Make<v1::AdminService, v1::GetServerInfoRequest, v1::GetServerInfoResponse>(
             &v1::AdminService::Stub::GetServerInfo, {}, limits::kControlDeadline)
      .status();
}

absl::Status GrpcCoordinatorApi::ExplainUnavailable(const absl::Status& status) {
  // Looks for a fault of TLS first: a server then answers, and advice to start the coordinator would not help.
  if (const absl::Status fault = FindTlsFault(endpoint_, identity_, passphrase_); !fault.ok())
    return absl::UnavailableError(absl::StrCat("cannot talk to the coordinator at ", endpoint_, ": ", fault.message()));
  const std::string cause = CauseOf(std::string(status.message()));
  // The coordinator closes the connections of a revoked identity without an answer to their calls.
  const absl::Status asked = Ask();
  if (running_.interrupted()) return absl::CancelledError("interrupted");
  if (absl::IsUnauthenticated(asked) || absl::IsPermissionDenied(asked)) return asked;
  if (asked.ok()) {
    return absl::UnavailableError(absl::StrCat("the connection to the coordinator at ", endpoint_, " broke (", cause,
                                               "), and a new one works: repeat the command"));
  }
  return absl::UnavailableError(absl::StrCat("cannot reach the coordinator at ", endpoint_, " (", cause,
                                             "): start atoll-coordinator there, or name another address with "
                                             "--endpoint or ATOLL_ENDPOINT",
                                             identity_.empty()
                                                 ? "; if it runs with --trust, name your file with --identity"
                                                 : "; if it runs without --trust, omit --identity"));
}

absl::Status GrpcCoordinatorApi::Explain(const absl::Status& status, Duration limit) {
  if (running_.interrupted()) return absl::CancelledError("interrupted");
  // A status from the coordinator carries an ErrorInfo: the coordinator was reached, and its
  // message is the right one.
  if (!absl::IsCancelled(status) && ErrorInfoOf(status)) return status;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable: return ExplainUnavailable(status);
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError(absl::StrCat("the coordinator at ", endpoint_, " did not answer within ",
                                                      FormatDuration(limit),
                                                      "; it may be overloaded, or it may not be a coordinator"));
    case absl::StatusCode::kCancelled:  // by the server: an interrupt of this side returned above
      return absl::UnavailableError(absl::StrCat("the coordinator at ", endpoint_,
                                                 " closed the call, as it does if no part of its response is read for ",
                                                 FormatDuration(limits::kStreamStall), ": repeat the command"));
    case absl::StatusCode::kUnimplemented:
      return absl::UnimplementedError(absl::StrCat(
          "the server at ", endpoint_, " does not know this call; it is not a coordinator, or has another version"));
    default: return status;
  }
}

// Waits until the call has ended, also after it is cancelled: until its end it uses its source or sink.
absl::Status GrpcCoordinatorApi::Await(PendingAnswer<absl::Status>& pending, BulkCall& call) {
  if (!running_.Begin(nullptr, &call)) call.Cancel();
  const bool in_time = pending.WaitUntil(clock_, deadline_);
  if (!in_time) call.Cancel();
  absl::Status status = pending.Wait();
  running_.End();
  if (status.ok()) return status;
  if (!in_time && !running_.interrupted()) return TimeoutHasPassed();
  // This status already states what was missing, and at which end.
  return absl::IsDeadlineExceeded(status) && !running_.interrupted() ? status : Explain(status);
}

absl::StatusOr<std::vector<Sha256>> GrpcCoordinatorApi::MissingBlobs(const std::vector<Sha256>& blobs) {
  ATOLL_ASSIGN_OR_RETURN(BulkClient * bulk, Bulk());
  using Missing = absl::StatusOr<std::vector<Sha256>>;
  const auto pending = std::make_shared<PendingAnswer<Missing>>();
  bulk->MissingBlobs(blobs, [pending](Missing missing) { pending->Set(std::move(missing)); });
  if (!pending->WaitUntil(clock_, deadline_)) return TimeoutHasPassed();
  Missing result = pending->Wait();
  if (!result.ok()) return Explain(result.status());
  return result;
}

absl::Status GrpcCoordinatorApi::UploadBlob(const Sha256& sha256, std::shared_ptr<BulkSource> source) {
  ATOLL_ASSIGN_OR_RETURN(BulkClient * bulk, Bulk());
  const auto pending = std::make_shared<PendingAnswer<absl::Status>>();
  const BlobUpload header{.sha256 = sha256, .bytes = source->size_bytes()};
  const auto call =
      bulk->Upload(header, std::move(source), [pending](const BulkResult& result) { pending->Set(result.status); });
  return Await(*pending, *call);
}

absl::Status GrpcCoordinatorApi::Download(const DownloadRequest& request, std::shared_ptr<BulkSink> sink) {
  ATOLL_ASSIGN_OR_RETURN(BulkClient * bulk, Bulk());
  const auto pending = std::make_shared<PendingAnswer<absl::Status>>();
  const auto call =
      bulk->Download(request, std::move(sink), [pending](const BulkResult& result) { pending->Set(result.status); });
  return Await(*pending, *call);
}

}  // namespace

std::unique_ptr<CoordinatorApi> MakeGrpcCoordinatorApi(const std::string& endpoint, const std::string& identity,
                                                       Passphrases& passphrases, std::optional<Instant> deadline,
                                                       const Clock& clock) {
  return std::make_unique<GrpcCoordinatorApi>(endpoint, identity, passphrases, deadline, clock);
}

}  // namespace atl::cli
