// SPDX-License-Identifier: Apache-2.0
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/wire/control_messages.h"
#include "common/wire/field_copier.h"

namespace atl {

static_assert(IsLast(v1::WorkerActivity_MAX, WorkerActivity::kDraining));

static void Fields(FieldCopier& copy, HeldContribution& m) { copy("target", m.target)("digest", m.digest); }

static void Fields(FieldCopier& copy, Hello& m) {
  copy("worker", m.worker);
  copy("program_version", m.program_version);
  copy("protocol_revision", m.protocol_revision);
  copy("arithmetic_revision", m.arithmetic_revision);
  copy.Any("start_nonce", m.start_nonce);
  copy("incarnation", m.incarnation);
  copy("last_boot", m.last_boot);
  copy("device", m.device);
  copy("memory_bytes", m.memory_bytes);
  copy("evaluate_only", m.evaluate_only);
  copy.Optional("job", m.job);
  copy("applied", m.applied, limits::kFragments);
  copy("held", m.held, limits::kFragments);
  copy("leases", m.leases, limits::kLeasesPerWorker);
}

static void Fields(FieldCopier& copy, MetricSample& m) { copy("name", m.name, limits::kLabelBytes)("value", m.value); }

static void Fields(FieldCopier& copy, Heartbeat& m) {
  copy("sequence", m.sequence);
  copy.Optional("job", m.job);
  copy.Enum("activity", m.activity);
  copy("step", m.step);
  copy("tokens_total", m.tokens_total);
  copy.Within("step_ns", m.step_ns, int64_t{0}, INT64_MAX, "$0 is negative");
  copy.Within("loss_micro", m.loss_micro, int64_t{0}, limits::kMostLossMicro, "$0 is not a loss: $1 to $2 is allowed");
  copy.Within("period_steps", m.period_steps, 0u, kLongestPeriodSteps, "has $0 entries, at most $2 are allowed");
  copy("upload_bytes_per_second", m.upload_bytes_per_second);
  copy("download_bytes_per_second", m.download_bytes_per_second);
  copy("waiting_for", m.waiting_for);
  copy.Lenient("metrics", m.metrics, limits::kMetricsPerHeartbeat);
}

static void Fields(FieldCopier& copy, LeaseRequest& m) {
  copy("job", m.job)("request", m.request)("samples", m.samples);
}

static void Fields(FieldCopier& copy, Ready& m) {
  copy("job", m.job)("step", m.step)("applied", m.applied, limits::kFragments);
}

static void Fields(FieldCopier& copy, Applied& m) {
  copy("job", m.job)("applied", m.applied)("hash_matches", m.hash_matches);
}

// Any figures pass: the core judges them (coordinator/core/evaluation.h) and gives the evaluation to another worker. A
// refusal here would end the stream, and the worker would report the same after each reconnect.
static void Fields(FieldCopier& copy, EvaluationDone& m) {
  copy("job", m.job).Any("evaluation", m.evaluation).Any("nll_micro_nats", m.nll_micro_nats);
  copy.Any("tokens", m.tokens).Any("text_bytes", m.text_bytes);
  copy("tasks", m.tasks, limits::kEvalTasks, /*indexed=*/true)("failure", m.failure);
}

static void Fields(FieldCopier& copy, LeaseReturn& m) {
  copy("job", m.job)("leases", m.leases, limits::kLeasesPerWorker);
}

static void Fields(FieldCopier& copy, Leaving& m) { copy("reason", m.reason); }

static void Fields(FieldCopier& copy, JobFailure& m) {
  copy("job", m.job)("reason", m.reason)("permanent", m.permanent);
}

// Number of the newest lines that fit into half a message, because a worker's log ring may hold more than a message.
static int64_t LinesThatFit(const std::vector<std::string>& lines) {
  size_t count = 0, bytes = 0;
  for (; count < std::min(lines.size(), limits::kLogLines); ++count) {
    bytes += std::min(lines[lines.size() - 1 - count].size(), limits::kTextBytes) + 4;
    if (bytes > limits::kMessageBytes / 2) break;
  }
  return static_cast<int64_t>(count);
}

static void Fields(FieldCopier& copy, LogLines& m) {
  if (!copy.reads()) m.lines.erase(m.lines.begin(), m.lines.end() - LinesThatFit(m.lines));
  copy("request", m.request)("lines", m.lines, limits::kLogLines);
}

static void Fields(FieldCopier& copy, SyncDropped& m) {
  copy("job", m.job)("target", m.target)("send_step", m.send_step);
}

static void Fields(FieldCopier& copy, WorkerMessage& m) {
  copy.OneOf("worker_message.kind", m,
             {"hello", "heartbeat", "lease_request", "ready", "applied", "evaluation_done", "lease_return", "leaving",
              "job_failure", "log_lines", "sync_dropped"});
}

v1::WorkerMessage WorkerMessageToProto(const WorkerMessage& message) { return ToProto<v1::WorkerMessage>(message); }

absl::StatusOr<WorkerMessage> WorkerMessageFromProto(const v1::WorkerMessage& proto) {
  return FromProto<WorkerMessage>(proto, "");
}

}  // namespace atl
