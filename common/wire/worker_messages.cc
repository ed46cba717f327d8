// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/wire/control_messages.h"
#include "common/wire/field_checks.h"
#include "common/wire/task_scores.h"

namespace atl {
namespace {

// ---- to proto -------------------------------------------------------------------------------------------------------
// The receiver takes every message: longer texts and lists are cut, larger figures lowered. Otherwise
// the stream would end at one, and its sender would send the same after each reconnect.

void Fill(const Hello& in, v1::WorkerMessage& message) {
  v1::Hello& out = *message.mutable_hello();
  out.set_worker(in.worker.value);
  out.set_program_version(Sendable(in.program_version));
  out.set_protocol_revision(in.protocol_revision);
  out.set_arithmetic_revision(in.arithmetic_revision);
  out.set_start_nonce(in.start_nonce);
  out.set_incarnation(in.incarnation.value);
  out.set_last_boot(in.last_boot.value);
  out.set_device(Sendable(in.device));
  out.set_memory_bytes(Countable(in.memory_bytes));
  out.set_evaluate_only(in.evaluate_only);
  out.set_job(in.job.value);
  for (const FragmentVersion& v : First(in.applied, limits::kFragments)) *out.add_applied() = ToProto(v);
  for (const HeldContribution& held : First(in.held, limits::kFragments)) {
    v1::HeldContribution& h = *out.add_held();
    *h.mutable_target() = ToProto(held.target);
    *h.mutable_digest() = DigestToProto(held.digest);
  }
  for (const LeaseCursor& lease : First(in.leases, limits::kLeasesPerWorker)) *out.add_leases() = ToProto(lease);
}

void Fill(const Heartbeat& in, v1::WorkerMessage& message) {
  v1::Heartbeat& out = *message.mutable_heartbeat();
  out.set_sequence(in.sequence);
  out.set_job(in.job.value);
  // The domain's values are the message's minus 1, because the domain has no UNSPECIFIED.
  out.set_activity(static_cast<v1::WorkerActivity>(static_cast<int>(in.activity) + 1));
  out.set_step(in.step);
  out.set_tokens_total(Countable(in.tokens_total));
  out.set_step_ns(std::max<int64_t>(0, in.step_ns));
  out.set_loss_micro(std::clamp<int64_t>(in.loss_micro, 0, limits::kMostLossMicro));
  out.set_period_steps(std::min(in.period_steps, kLongestPeriodSteps));
  out.set_upload_bytes_per_second(Countable(in.upload_bytes_per_second));
  out.set_download_bytes_per_second(Countable(in.download_bytes_per_second));
  out.set_waiting_for(Sendable(in.waiting_for));
  for (const MetricSample& metric : First(in.metrics, limits::kMetricsPerHeartbeat)) {
    v1::MetricSample& sample = *out.add_metrics();
    sample.set_name(Sendable(metric.name, limits::kLabelBytes));
    sample.set_value(metric.value);
  }
}

void Fill(const LeaseRequest& in, v1::WorkerMessage& message) {
  v1::LeaseRequest& out = *message.mutable_lease_request();
  out.set_job(in.job.value);
  out.set_request(in.request);
  out.set_samples(Countable(in.samples));
}

void Fill(const Ready& in, v1::WorkerMessage& message) {
  v1::Ready& out = *message.mutable_ready();
  out.set_job(in.job.value);
  out.set_step(in.step);
  for (const FragmentVersion& v : First(in.applied, limits::kFragments)) *out.add_applied() = ToProto(v);
}

void Fill(const Applied& in, v1::WorkerMessage& message) {
  v1::Applied& out = *message.mutable_applied();
  out.set_job(in.job.value);
  *out.mutable_applied() = ToProto(in.applied);
  out.set_hash_matches(in.hash_matches);
}

void Fill(const EvaluationDone& in, v1::WorkerMessage& message) {
  v1::EvaluationDone& out = *message.mutable_evaluation_done();
  out.set_job(in.job.value);
  out.set_evaluation(in.evaluation);
  out.set_nll_micro_nats(in.nll_micro_nats);
  out.set_tokens(in.tokens);
  out.set_text_bytes(in.text_bytes);
  for (const TaskScore& task : First(in.tasks, limits::kEvalTasks)) *out.add_tasks() = ToProto(task);
  out.set_failure(Sendable(in.failure));
}

void Fill(const LeaseReturn& in, v1::WorkerMessage& message) {
  v1::LeaseReturn& out = *message.mutable_lease_return();
  out.set_job(in.job.value);
  for (const LeaseCursor& lease : First(in.leases, limits::kLeasesPerWorker)) *out.add_leases() = ToProto(lease);
}

void Fill(const Leaving& in, v1::WorkerMessage& message) { message.mutable_leaving()->set_reason(Sendable(in.reason)); }

void Fill(const JobFailure& in, v1::WorkerMessage& message) {
  v1::JobFailure& out = *message.mutable_job_failure();
  out.set_job(in.job.value);
  out.set_reason(Sendable(in.reason));
  out.set_permanent(in.permanent);
}

void Fill(const LogLines& in, v1::WorkerMessage& message) {
  v1::LogLines& out = *message.mutable_log_lines();
  out.set_request(in.request);
  // Sends the newest lines that fit into half a message, because the ring may hold more than a
  // message.
  constexpr size_t kRoomBytes = limits::kMessageBytes / 2;
  size_t first = in.lines.size(), bytes = 0;
  while (first > 0 && in.lines.size() - first < limits::kLogLines) {
    const size_t size = std::min(in.lines[first - 1].size(), limits::kTextBytes) + 4;
    if (bytes + size > kRoomBytes) break;
    bytes += size;
    --first;
  }
  for (size_t i = first; i < in.lines.size(); ++i) out.add_lines(Sendable(in.lines[i]));
}

void Fill(const SyncDropped& in, v1::WorkerMessage& message) {
  v1::SyncDropped& out = *message.mutable_sync_dropped();
  out.set_job(in.job.value);
  *out.mutable_target() = ToProto(in.target);
  out.set_send_step(in.send_step);
}

// ---- from proto -----------------------------------------------------------------------------------------------------

absl::StatusOr<std::vector<FragmentVersion>> Versions(const google::protobuf::RepeatedPtrField<v1::FragmentVersion>& in,
                                                      const std::string& path) {
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.size()), limits::kFragments, path));
  std::vector<FragmentVersion> out;
  for (const v1::FragmentVersion& v : in) {
    ATOLL_ASSIGN_OR_RETURN(out.emplace_back(), FromProto(v, path));
  }
  return out;
}

absl::StatusOr<std::vector<LeaseCursor>> Leases(const google::protobuf::RepeatedPtrField<v1::LeaseCursor>& in,
                                                const std::string& path) {
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.size()), limits::kLeasesPerWorker, path));
  std::vector<LeaseCursor> out;
  for (const v1::LeaseCursor& lease : in) {
    ATOLL_ASSIGN_OR_RETURN(out.emplace_back(), FromProto(lease, path));
  }
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::Hello& in) {
  Hello out;
  ATOLL_ASSIGN_OR_RETURN(out.worker, WorkerField(in.worker(), Emptiness::kRefused, "hello.worker"));
  ATOLL_RETURN_IF_ERROR(CheckText(in.program_version(), "hello.program_version"));
  out.program_version = in.program_version();
  out.protocol_revision = in.protocol_revision();
  out.arithmetic_revision = in.arithmetic_revision();
  out.start_nonce = in.start_nonce();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.incarnation(), "hello.incarnation"));
  out.incarnation.value = in.incarnation();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.last_boot(), "hello.last_boot"));
  out.last_boot.value = in.last_boot();
  ATOLL_RETURN_IF_ERROR(CheckText(in.device(), "hello.device"));
  out.device = in.device();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.memory_bytes(), "hello.memory_bytes"));
  out.memory_bytes = in.memory_bytes();
  out.evaluate_only = in.evaluate_only();
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kAllowed, "hello.job"));
  ATOLL_ASSIGN_OR_RETURN(out.applied, Versions(in.applied(), "hello.applied"));
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.held_size()), limits::kFragments, "hello.held"));
  for (const v1::HeldContribution& held : in.held()) {
    HeldContribution& h = out.held.emplace_back();
    ATOLL_ASSIGN_OR_RETURN(h.target, FromProto(held.target(), "hello.held.target"));
    h.digest = DigestFromProto(held.digest());
  }
  ATOLL_ASSIGN_OR_RETURN(out.leases, Leases(in.leases(), "hello.leases"));
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::Heartbeat& in) {
  Heartbeat out;
  ATOLL_RETURN_IF_ERROR(CheckCount(in.sequence(), "heartbeat.sequence"));
  out.sequence = in.sequence();
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kAllowed, "heartbeat.job"));
  if (in.activity() < v1::WORKER_ACTIVITY_IDLE || in.activity() > v1::WORKER_ACTIVITY_DRAINING) {
    return FieldError("heartbeat.activity", absl::StrCat(static_cast<int>(in.activity()), " is not known"));
  }
  out.activity = static_cast<WorkerActivity>(static_cast<int>(in.activity()) - 1);
  ATOLL_RETURN_IF_ERROR(CheckCount(in.step(), "heartbeat.step"));
  out.step = in.step();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.tokens_total(), "heartbeat.tokens_total"));
  out.tokens_total = in.tokens_total();
  ATOLL_RETURN_IF_ERROR(CheckNotNegative(in.step_ns(), "heartbeat.step_ns"));
  out.step_ns = in.step_ns();
  ATOLL_RETURN_IF_ERROR(CheckLoss(in.loss_micro(), "heartbeat.loss_micro"));
  out.loss_micro = in.loss_micro();
  ATOLL_RETURN_IF_ERROR(CheckSize(in.period_steps(), kLongestPeriodSteps, "heartbeat.period_steps"));
  out.period_steps = in.period_steps();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.upload_bytes_per_second(), "heartbeat.upload_bytes_per_second"));
  out.upload_bytes_per_second = in.upload_bytes_per_second();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.download_bytes_per_second(), "heartbeat.download_bytes_per_second"));
  out.download_bytes_per_second = in.download_bytes_per_second();
  ATOLL_RETURN_IF_ERROR(CheckText(in.waiting_for(), "heartbeat.waiting_for"));
  out.waiting_for = in.waiting_for();
  const int count = std::min(in.metrics_size(), static_cast<int>(limits::kMetricsPerHeartbeat));
  for (int i = 0; i < count; ++i) {
    const v1::MetricSample& sample = in.metrics(i);
    if (sample.name().size() <= limits::kLabelBytes) out.metrics.push_back({sample.name(), sample.value()});
  }
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::LeaseRequest& in) {
  LeaseRequest out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "lease_request.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.request(), "lease_request.request"));
  out.request = in.request();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.samples(), "lease_request.samples"));
  out.samples = in.samples();
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::Ready& in) {
  Ready out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "ready.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.step(), "ready.step"));
  out.step = in.step();
  ATOLL_ASSIGN_OR_RETURN(out.applied, Versions(in.applied(), "ready.applied"));
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::Applied& in) {
  Applied out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "applied.job"));
  ATOLL_ASSIGN_OR_RETURN(out.applied, FromProto(in.applied(), "applied.applied"));
  out.hash_matches = in.hash_matches();
  return out;
}

// Any figures pass: the core judges them (coordinator/core/evaluation.h) and gives the evaluation to another worker. A
// refusal here would end the stream, and the worker would report the same after each reconnect.
absl::StatusOr<WorkerMessage> Read(const v1::EvaluationDone& in) {
  EvaluationDone out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "evaluation_done.job"));
  out.evaluation = in.evaluation();
  out.nll_micro_nats = in.nll_micro_nats();
  out.tokens = in.tokens();
  out.text_bytes = in.text_bytes();
  ATOLL_ASSIGN_OR_RETURN(out.tasks, TaskScoresFromProto(in.tasks(), "evaluation_done.tasks"));
  ATOLL_RETURN_IF_ERROR(CheckText(in.failure(), "evaluation_done.failure"));
  out.failure = in.failure();
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::LeaseReturn& in) {
  LeaseReturn out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "lease_return.job"));
  ATOLL_ASSIGN_OR_RETURN(out.leases, Leases(in.leases(), "lease_return.leases"));
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::Leaving& in) {
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "leaving.reason"));
  return Leaving{in.reason()};
}

absl::StatusOr<WorkerMessage> Read(const v1::JobFailure& in) {
  JobFailure out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "job_failure.job"));
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "job_failure.reason"));
  out.reason = in.reason();
  out.permanent = in.permanent();
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::LogLines& in) {
  LogLines out;
  ATOLL_RETURN_IF_ERROR(CheckCount(in.request(), "log_lines.request"));
  out.request = in.request();
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.lines_size()), limits::kLogLines, "log_lines.lines"));
  for (const std::string& line : in.lines()) {
    ATOLL_RETURN_IF_ERROR(CheckText(line, "log_lines.lines"));
    out.lines.push_back(line);
  }
  return out;
}

absl::StatusOr<WorkerMessage> Read(const v1::SyncDropped& in) {
  SyncDropped out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "sync_dropped.job"));
  ATOLL_ASSIGN_OR_RETURN(out.target, FromProto(in.target(), "sync_dropped.target"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.send_step(), "sync_dropped.send_step"));
  out.send_step = in.send_step();
  return out;
}

}  // namespace

v1::Digest DigestToProto(const Digest& digest) {
  v1::Digest proto;
  proto.set_high(digest.high);
  proto.set_low(digest.low);
  return proto;
}

Digest DigestFromProto(const v1::Digest& proto) { return {proto.high(), proto.low()}; }

v1::WorkerMessage WorkerMessageToProto(const WorkerMessage& message) {
  v1::WorkerMessage proto;
  std::visit([&](const auto& m) { Fill(m, proto); }, message);
  return proto;
}

absl::StatusOr<WorkerMessage> WorkerMessageFromProto(const v1::WorkerMessage& proto) {
  switch (proto.kind_case()) {
    case v1::WorkerMessage::kHello: return Read(proto.hello());
    case v1::WorkerMessage::kHeartbeat: return Read(proto.heartbeat());
    case v1::WorkerMessage::kLeaseRequest: return Read(proto.lease_request());
    case v1::WorkerMessage::kReady: return Read(proto.ready());
    case v1::WorkerMessage::kApplied: return Read(proto.applied());
    case v1::WorkerMessage::kEvaluationDone: return Read(proto.evaluation_done());
    case v1::WorkerMessage::kLeaseReturn: return Read(proto.lease_return());
    case v1::WorkerMessage::kLeaving: return Read(proto.leaving());
    case v1::WorkerMessage::kJobFailure: return Read(proto.job_failure());
    case v1::WorkerMessage::kLogLines: return Read(proto.log_lines());
    case v1::WorkerMessage::kSyncDropped: return Read(proto.sync_dropped());
    case v1::WorkerMessage::KIND_NOT_SET: break;
  }
  return FieldError("worker_message.kind", "has a kind unknown to this program");
}

}  // namespace atl
