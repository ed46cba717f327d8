// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/api_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "atoll/v1/admin.grpc.pb.h"
#include "atoll/v1/job.grpc.pb.h"
#include "common/rpc/fed_stream.h"
#include "common/rpc/peer.h"
#include "common/rpc/read_message.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/unary_answer.h"
#include "coordinator/service/caller_places.h"

namespace atl {
namespace {

// The object of a call, as its caller named it.
template <typename Request>
std::string AboutOf(const Request& request) {
  if constexpr (requires { request.job_id(); }) {
    return absl::StrCat("jobs/", request.job_id(), request.validate_only() ? " (to be checked only)" : "");
  } else if constexpr (requires { request.role(); }) {
    return absl::StrCat(request.role(), "/", request.name().empty() ? "any" : request.name());
  } else if constexpr (requires { request.name(); }) {
    return request.name();
  } else if constexpr (requires { request.id(); }) {
    return absl::StrCat("token ", request.id());
  } else {
    return "";
  }
}

std::string WhoIs(const std::optional<Identity>& caller) { return caller ? Who(*caller) : ""; }

// The callback that answers a unary call, once and from any thread, and reports the outcome to the guard. The
// response is kept as bytes until the caller has taken it. `place`: held until the answer.
template <typename Response, typename Request>
Answer<Response> AnswerTo(UnaryAnswer* reactor, const char* method, CallGuard& guard,
                          const grpc::CallbackServerContext& context, const Request& request, grpc::ByteBuffer* out,
                          CallerPlaces::Place place = nullptr) {
  return [reactor, method, &guard, caller = IdentityOf(context), about = AboutOf(request), out,
          place = std::move(place)](const absl::Status& status, const Response& response) {
    if (caller) guard.TellOutcome(method, *caller, about, status);
    if (!status.ok()) return reactor->Give(ToGrpc(status));
    reactor->Give(response, out, guard.answers(), WhoIs(caller));
  };
}

// The service `Base` with the methods that are implemented.
template <typename Base, template <typename> class... Methods>
struct WithMethods {
  using Service = Base;
};
template <typename Base, template <typename> class First, template <typename> class... Others>
struct WithMethods<Base, First, Others...> {
  using Service = First<typename WithMethods<Base, Others...>::Service>;
};
using JobMethods =
    WithMethods<v1::JobService::Service, v1::JobService::WithRawCallbackMethod_SubmitJob,
                v1::JobService::WithRawCallbackMethod_GetJob, v1::JobService::WithRawCallbackMethod_ListJobs,
                v1::JobService::WithRawCallbackMethod_CancelJob, v1::JobService::WithRawCallbackMethod_PurgeJob,
                v1::JobService::WithRawCallbackMethod_PauseJob, v1::JobService::WithRawCallbackMethod_ResumeJob,
                v1::JobService::WithRawCallbackMethod_UpdateJob, v1::JobService::WithRawCallbackMethod_RollbackJob,
                v1::JobService::WithRawCallbackMethod_GetJobMetrics, v1::JobService::WithRawCallbackMethod_ListOffers,
                v1::JobService::WithRawCallbackMethod_WatchJob,
                v1::JobService::WithRawCallbackMethod_StreamJobLogs>::Service;
using AdminMethods = WithMethods<
    v1::AdminService::Service, v1::AdminService::WithRawCallbackMethod_ListWorkers,
    v1::AdminService::WithRawCallbackMethod_DrainWorker, v1::AdminService::WithRawCallbackMethod_CordonWorker,
    v1::AdminService::WithRawCallbackMethod_EvictWorker, v1::AdminService::WithRawCallbackMethod_ReadmitWorker,
    v1::AdminService::WithRawCallbackMethod_ListCheckpoints, v1::AdminService::WithRawCallbackMethod_GetCheckpoint,
    v1::AdminService::WithRawCallbackMethod_DeleteCheckpoint, v1::AdminService::WithRawCallbackMethod_GetServerInfo,
    v1::AdminService::WithRawCallbackMethod_CreateToken, v1::AdminService::WithRawCallbackMethod_ListTokens,
    v1::AdminService::WithRawCallbackMethod_RevokeToken, v1::AdminService::WithRawCallbackMethod_RevokeIdentity,
    v1::AdminService::WithRawCallbackMethod_ListRevocations>::Service;

// A stream of responses as bytes. The service method reads its request as bytes too.
using Stream = FedStream<grpc::ByteBuffer>;

bool HasEndedState(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

class JobServiceImpl final : public JobMethods {
 public:
  JobServiceImpl(JobApi& api, CallGuard& guard) : api_(api), guard_(guard) {}

#define ATOLL_LIMITED(Service, Method, Taken)                                                                  \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,        \
                                   grpc::ByteBuffer* response) override {                                      \
    UnaryAnswer* reactor = UnaryAnswer::Open(context);                                                         \
    const absl::StatusOr<v1::Method##Request> request = ReadMessage<v1::Method##Request>(*bytes);              \
    const absl::StatusOr<CallerPlaces::Place> place = Taken;                                                   \
    if (!request.ok() || !place.ok()) {                                                                        \
      reactor->Give(ToGrpc(request.ok() ? place.status() : request.status()));                                 \
    } else {                                                                                                   \
      api_.Method(*request, AnswerTo<v1::Method##Response>(reactor, "/atoll.v1." #Service "/" #Method, guard_, \
                                                           *context, *request, response, *place));             \
    }                                                                                                          \
    return reactor;                                                                                            \
  }
#define ATOLL_UNARY(Service, Method) ATOLL_LIMITED(Service, Method, CallerPlaces::Place())
// A call that reads the files of a job, on the executor that all such calls share: kJobsOfOne limits them.
#define ATOLL_READING_JOB(Method) ATOLL_LIMITED(JobService, Method, reading_.Take(IdentityOf(*context)))
  ATOLL_READING_JOB(SubmitJob)
  ATOLL_UNARY(JobService, GetJob)
  ATOLL_UNARY(JobService, ListJobs)
  ATOLL_UNARY(JobService, CancelJob)
  ATOLL_UNARY(JobService, PurgeJob)
  ATOLL_UNARY(JobService, PauseJob)
  ATOLL_UNARY(JobService, ResumeJob)
  ATOLL_READING_JOB(UpdateJob)
  ATOLL_UNARY(JobService, RollbackJob)
  ATOLL_UNARY(JobService, GetJobMetrics)
  ATOLL_UNARY(JobService, ListOffers)

  grpc::ServerWriteReactor<grpc::ByteBuffer>* WatchJob(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* bytes) override {
    Stream* stream = Stream::Open(context);
    const absl::StatusOr<v1::WatchJobRequest> request = ReadMessage<v1::WatchJobRequest>(*bytes);
    if (!request.ok()) {
      stream->feeder()->End(request.status());
      return stream;
    }
    const absl::StatusOr<CallerPlaces::Place> place = places_.Take(IdentityOf(*context));
    if (!place.ok()) {
      stream->feeder()->End(place.status());
      return stream;
    }
    const absl::StatusOr<uint64_t> watcher =
        api_.WatchJob(*request, {.show =
                                     [this, who = WhoIs(IdentityOf(*context)),
                                      feeder = stream->feeder()](const absl::StatusOr<v1::WatchJobResponse>& look) {
                                       if (!look.ok()) return feeder->End(look.status());
                                       FeedHeld(*feeder, who, *look);  // a message with events alone has no state
                                       if (HasEndedState(look->job().state())) feeder->End(absl::OkStatus());
                                     },
                                 .takes = [feeder = stream->feeder()] { return feeder->Takes(); }});
    if (watcher.ok()) {
      stream->on_done = [this, id = *watcher, place = *place] { api_.StopWatching(id); };
    } else {
      stream->feeder()->End(watcher.status());
    }
    return stream;
  }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamJobLogs(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* bytes) override {
    Stream* stream = Stream::Open(context);
    const absl::StatusOr<v1::StreamJobLogsRequest> request = ReadMessage<v1::StreamJobLogsRequest>(*bytes);
    if (!request.ok()) {
      stream->feeder()->End(request.status());
      return stream;
    }
    if (request->follow()) {
      FollowLogs(*request, IdentityOf(*context), stream);
      return stream;
    }
    api_.GetJobLogs(*request, 0,
                    [this, who = WhoIs(IdentityOf(*context)), feeder = stream->feeder()](
                        const absl::Status& status, const v1::StreamJobLogsResponse& lines) {
                      if (!status.ok()) return feeder->End(status);
                      FeedHeld(*feeder, who, lines);
                      feeder->End(absl::OkStatus());
                    });
    return stream;
  }

 private:
  // Feeds `response`; ends the stream if the budget of answers not read yet has no room for it.
  template <typename Response>
  void FeedHeld(Stream::Feeder& feeder, const std::string& who, const Response& response) {
    absl::StatusOr<AnswerBudget::Held> held = guard_.answers().Take(who, response.ByteSizeLong());
    if (!held.ok()) return feeder.End(held.status());
    grpc::ByteBuffer bytes;
    bool own_buffer = false;
    const grpc::Status written = grpc::SerializationTraits<Response>::Serialize(response, &bytes, &own_buffer);
    if (!written.ok()) return feeder.End(FromGrpc(written));
    feeder.Feed(std::move(bytes), *std::move(held));
  }
  // Streams until the job has ended.
  void FollowLogs(const v1::StreamJobLogsRequest& request, const std::optional<Identity>& caller, Stream* stream) {
    const absl::StatusOr<CallerPlaces::Place> place = places_.Take(caller);
    if (!place.ok()) return stream->feeder()->End(place.status());
    const absl::StatusOr<uint64_t> watcher = api_.FollowJobLogs(
        request, {.lines = [this, who = WhoIs(caller), feeder = stream->feeder()](
                               const v1::StreamJobLogsResponse& fresh) { FeedHeld(*feeder, who, fresh); },
                  .end = [feeder = stream->feeder()](const absl::Status& status) { feeder->End(status); },
                  .takes = [feeder = stream->feeder()] { return feeder->Takes(); }});
    if (watcher.ok()) {
      stream->on_done = [this, id = *watcher, place = *place] { api_.StopWatching(id); };
    } else {
      stream->feeder()->End(watcher.status());
    }
  }

  JobApi& api_;
  CallGuard& guard_;
  CallerPlaces places_{CallerPlaces::kWatchesOfOne, "watches jobs and follows logs",
                       "end one of them, or use 'atoll job get'"};
  CallerPlaces reading_{CallerPlaces::kJobsOfOne, "submits or updates jobs", "wait for an answer to one of them"};
};

class AdminServiceImpl final : public AdminMethods {
 public:
  AdminServiceImpl(JobApi& api, Enrollment* enrollment, CallGuard& guard)
      : api_(api), enrollment_(enrollment), guard_(guard) {}
  ATOLL_UNARY(AdminService, ListWorkers)
  ATOLL_UNARY(AdminService, DrainWorker)
  ATOLL_UNARY(AdminService, CordonWorker)
  ATOLL_UNARY(AdminService, EvictWorker)
  ATOLL_UNARY(AdminService, ReadmitWorker)
  ATOLL_UNARY(AdminService, ListCheckpoints)
  ATOLL_UNARY(AdminService, GetCheckpoint)
  ATOLL_UNARY(AdminService, DeleteCheckpoint)
  ATOLL_UNARY(AdminService, GetServerInfo)
#undef ATOLL_UNARY

  // Calls about people and machines, not about jobs. Not available without certificates.
#define ATOLL_OF_TRUST(Method, ...)                                                                                    \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,                \
                                   grpc::ByteBuffer* response) override {                                              \
    UnaryAnswer* reactor = UnaryAnswer::Open(context);                                                                 \
    const absl::StatusOr<v1::Method##Request> request = ReadMessage<v1::Method##Request>(*bytes);                      \
    if (enrollment_ == nullptr || !request.ok()) {                                                                     \
      reactor->Give(ToGrpc(request.ok() ? NoTrust() : request.status()));                                              \
    } else {                                                                                                           \
      enrollment_->Method(*request __VA_OPT__(, ) __VA_ARGS__,                                                         \
                          AnswerTo<v1::Method##Response>(reactor, "/atoll.v1.AdminService/" #Method, guard_, *context, \
                                                         *request, response));                                         \
    }                                                                                                                  \
    return reactor;                                                                                                    \
  }
  ATOLL_OF_TRUST(CreateToken)
  ATOLL_OF_TRUST(ListTokens)
  ATOLL_OF_TRUST(RevokeToken, IdentityOf(*context))
  ATOLL_OF_TRUST(RevokeIdentity, IdentityOf(*context))
  ATOLL_OF_TRUST(ListRevocations)
#undef ATOLL_OF_TRUST

 private:
  static absl::Status NoTrust() {
    return absl::FailedPreconditionError(
        "this coordinator runs without certificates, so it has no join tokens and nothing to revoke: start it with "
        "--trust");
  }

  JobApi& api_;
  Enrollment* const enrollment_;
  CallGuard& guard_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(JobApi& api, CallGuard& guard) {
  return std::make_unique<JobServiceImpl>(api, guard);
}
std::unique_ptr<grpc::Service> MakeAdminService(JobApi& api, Enrollment* enrollment, CallGuard& guard) {
  return std::make_unique<AdminServiceImpl>(api, enrollment, guard);
}

}  // namespace atl
