#include "coordinator/service/translate.h"

#include <algorithm>
#include <cmath>

#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

constexpr double kMicro = 1e-6;

void SetTime(int64_t wall_nanos, google::protobuf::Timestamp* out) {
  out->set_seconds(wall_nanos / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(wall_nanos % 1'000'000'000));
}

void SetDuration(Duration d, google::protobuf::Duration* out) {
  out->set_seconds(d.ns / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(d.ns % 1'000'000'000));
}

const char* Name(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle: return "idle";
    case WorkerState::kJoining: return "joining";
    case WorkerState::kTraining: return "training";
    case WorkerState::kDraining: return "draining";
    case WorkerState::kLost: return "lost";
  }
  return "lost";
}

const char* Name(WorkerActivity activity) {
  switch (activity) {
    case WorkerActivity::kIdle: return "idle";
    case WorkerActivity::kFetching: return "fetching";
    case WorkerActivity::kTraining: return "training";
    case WorkerActivity::kWaiting: return "waiting";
    case WorkerActivity::kEvaluating: return "evaluating";
    case WorkerActivity::kDraining: return "draining";
  }
  return "idle";
}

v1::LedgerBalance ToProto(const BalanceView& balance) {
  v1::LedgerBalance out;
  out.set_dataset(balance.dataset);
  out.set_unleased(balance.unleased);
  out.set_leased(balance.leased);
  out.set_consumed(balance.consumed);
  out.set_abandoned(balance.abandoned);
  return out;
}

}  // namespace

v1::JobState ToProto(JobState state) { return static_cast<v1::JobState>(state); }

v1::EvaluationResult ToProto(const EvaluationRecord& record) {
  v1::EvaluationResult out;
  out.set_evaluation(record.evaluation);
  out.set_step(record.clock_step);
  const double tokens = static_cast<double>(std::max<uint64_t>(1, record.tokens));
  const double loss = static_cast<double>(record.nll_micro_nats) * kMicro / tokens;
  out.set_loss(loss);
  out.set_perplexity(std::exp(loss));
  if (record.text_bytes > 0) {
    out.set_bits_per_byte(static_cast<double>(record.nll_micro_nats) * kMicro / std::log(2.0) /
                          static_cast<double>(record.text_bytes));
  }
  out.set_tokens(record.tokens);
  out.set_trained_tokens(record.trained_tokens);
  SetTime(record.wall_nanos, out.mutable_time());
  return out;
}

v1::JobEvent ToProto(const EventLine& line) {
  v1::JobEvent out;
  out.set_revision(line.revision);
  SetTime(line.wall_nanos, out.mutable_time());
  out.set_kind(line.kind);
  out.set_text(line.text);
  for (const auto& [key, value] : line.fields) (*out.mutable_fields())[key] = value;
  return out;
}

v1::Checkpoint ToProto(const CheckpointRecord& record, const JobView& job,
                       const std::vector<uint64_t>& fragment_elements) {
  v1::Checkpoint out;
  out.set_name(absl::StrCat("jobs/", record.job.value, "/checkpoints/", record.step));
  out.set_step(record.step);
  for (const Version& version : record.versions) out.add_versions(version.value);
  for (const Digest& hash : record.hashes) out.add_content_hashes(hash.Hex());
  uint64_t elements = 0;
  for (const uint64_t n : fragment_elements) elements += n;
  out.set_bytes(elements * sizeof(float));
  SetTime(record.wall_nanos, out.mutable_create_time());
  for (const EvaluationRecord& evaluation : job.evaluations) {
    if (evaluation.versions == record.versions) out.set_evaluation_loss(ToProto(evaluation).loss());
  }
  return out;
}

double TokensPerSecond(const WorkerView& worker, const JobSpec& spec) {
  const bool works =
      worker.last.activity == WorkerActivity::kTraining || worker.last.activity == WorkerActivity::kWaiting;
  if (!worker.connected || !works || worker.last.step_ns <= 0) return 0;
  const double tokens = static_cast<double>(spec.batch.sequences_per_step) * spec.data.sequence_length;
  return tokens * 1e9 / static_cast<double>(worker.last.step_ns);
}

v1::WorkerStatus ToProto(const WorkerView& worker, const JobHistory* totals, const JobSpec* spec) {
  v1::WorkerStatus out;
  out.set_name(absl::StrCat("workers/", worker.worker.value));
  out.set_state(Name(worker.state));
  if (worker.connected) out.set_activity(Name(worker.last.activity));
  out.set_step(worker.last.step);
  out.set_tokens(worker.last.tokens_total);
  out.set_loss(static_cast<double>(worker.last.loss_micro) * kMicro);
  if (spec != nullptr) out.set_tokens_per_second(TokensPerSecond(worker, *spec));
  SetDuration(worker.heartbeat_age, out.mutable_heartbeat_age());
  out.set_waiting_for(worker.last.waiting_for);
  out.set_incarnation(worker.incarnation.value);
  out.set_device(worker.device);
  if (!worker.job.value.empty()) out.set_job(absl::StrCat("jobs/", worker.job.value));
  out.set_participating(worker.participating);
  if (totals != nullptr) {
    const auto up = totals->uploaded_bytes.find(worker.worker);
    const auto down = totals->downloaded_bytes.find(worker.worker);
    if (up != totals->uploaded_bytes.end()) out.set_uploaded_bytes(up->second);
    if (down != totals->downloaded_bytes.end()) out.set_downloaded_bytes(down->second);
  }
  return out;
}

std::string EtagOf(const JobView& view) {
  return absl::StrCat(view.record.spec_revision, "-", view.record.epoch, "-", static_cast<uint32_t>(view.record.state));
}

v1::Job ToProto(const JobGlance& glance, uint64_t parameters, const std::vector<uint64_t>& fragment_elements,
                bool with_spec) {
  const JobView& view = glance.view;
  const JobRecord& record = view.record;
  v1::Job out;
  out.set_name(absl::StrCat("jobs/", record.job.value));
  if (with_spec) *out.mutable_spec() = JobSpecToProto(record.spec);
  out.set_spec_revision(record.spec_revision);
  out.set_state(ToProto(record.state));
  const bool waiting = !HasEnded(record.state) && (record.reason.empty() || view.no_room);
  out.set_reason(waiting ? view.waiting_line : record.reason);
  for (const auto& [key, value] : record.spec.labels) (*out.mutable_labels())[key] = value;
  out.set_step(view.clock_step);
  out.set_stop_step(record.stop_step);
  out.set_tokens(view.tokens_committed);
  uint64_t round = view.fragments.empty() ? 0 : UINT64_MAX;
  for (size_t i = 0; i < view.fragments.size(); ++i) {
    const FragmentView& fragment = view.fragments[i];
    round = std::min(round, fragment.version.value);
    v1::FragmentStatus* status = out.add_fragments();
    status->set_fragment(static_cast<uint32_t>(i));
    status->set_version(fragment.version.value);
    status->set_accepted(fragment.accepted);
    status->set_expected(fragment.expected);
    status->set_content_hash(fragment.hash.Hex());
    if (i < fragment_elements.size()) status->set_elements(fragment_elements[i]);
  }
  out.set_round(round);
  out.set_rounds_committed(view.rounds_committed);
  out.set_loss(glance.totals.last_loss);
  out.set_tokens_per_second(glance.tokens_per_second);
  out.set_workers_alive(view.alive);
  out.set_workers_training(view.training);
  out.set_workers_participating(view.participating);
  if (!view.evaluations.empty()) {
    *out.mutable_first_evaluation() = ToProto(view.evaluations.front());
    *out.mutable_last_evaluation() = ToProto(view.evaluations.back());
  }
  if (record.create_wall_nanos > 0) SetTime(record.create_wall_nanos, out.mutable_create_time());
  if (record.start_wall_nanos > 0) SetTime(record.start_wall_nanos, out.mutable_start_time());
  if (record.end_wall_nanos > 0) SetTime(record.end_wall_nanos, out.mutable_end_time());
  out.set_parameters(parameters);
  out.set_etag(EtagOf(view));
  out.set_uploaded_bytes(glance.totals.uploaded_total);
  out.set_downloaded_bytes(glance.totals.downloaded_total);
  *out.mutable_ledger() = ToProto(view.balance);
  if (glance.seconds_left >= 0) {
    SetDuration(Nanoseconds(static_cast<int64_t>(glance.seconds_left * 1e9)), out.mutable_remaining());
  }
  return out;
}

}  // namespace atl
