// SPDX-License-Identifier: Apache-2.0
#include "common/wire/record_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "atoll/v1/record.pb.h"
#include "common/plan/limits.h"
#include "common/wire/control_messages.h"
#include "common/wire/field_checks.h"
#include "common/wire/job_spec_proto.h"
#include "common/wire/task_scores.h"
#include "common/wire/transfer_messages.h"

namespace atl {
namespace {

using atl::FromProto;

// A record that was written by this program and cannot be parsed means a damaged disk, whatever the
// field.
absl::Status Damaged(const char* what, const absl::Status& cause) {
  return absl::DataLossError(absl::StrCat("a stored ", what, " is damaged: ", cause.message()));
}

template <typename Proto>
absl::Status Parse(const std::string& bytes, const char* what, Proto& out) {
  if (out.ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a stored ", what, " is damaged: it is not a valid message"));
}

// Deterministic serialisation: equal records give equal bytes (including maps).
std::string Serialize(const google::protobuf::MessageLite& proto) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    proto.SerializeToCodedStream(&coded);
  }
  return out;
}

absl::StatusOr<SegmentHeader> FromProto(const v1::SegmentHeader& in) {
  SegmentHeader out;
  out.format_revision = in.format_revision();
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "job"));
  out.epoch = in.epoch();
  ATOLL_ASSIGN_OR_RETURN(out.target, FromProto(in.target(), "target"));
  out.layout = DigestFromProto(in.layout());
  out.boot.value = in.boot();
  return out;
}

absl::StatusOr<UpdateInfo> FromProto(const v1::UpdateRecord& in) {
  UpdateInfo out;
  ATOLL_ASSIGN_OR_RETURN(out.reached, FromProto(in.reached(), "reached"));
  out.hash = DigestFromProto(in.hash());
  out.digest = DigestFromProto(in.digest());
  ATOLL_RETURN_IF_ERROR(CheckCount(in.encoded_bytes(), "encoded_bytes"));
  out.encoded_bytes = in.encoded_bytes();
  ATOLL_ASSIGN_OR_RETURN(out.codec, CodecFromNumber(in.codec(), "codec"));
  out.arithmetic_revision = in.arithmetic_revision();
  return out;
}

absl::StatusOr<SnapshotHeader> FromProto(const v1::SnapshotHeader& in) {
  SnapshotHeader out;
  out.format_revision = in.format_revision();
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "job"));
  out.epoch = in.epoch();
  ATOLL_ASSIGN_OR_RETURN(out.at, FromProto(in.at(), "at"));
  if (in.elements() == 0 || in.elements() > limits::kParameters) return FieldError("elements", "is impossible");
  out.elements = in.elements();
  out.hash = DigestFromProto(in.hash());
  out.momentum_digest = DigestFromProto(in.momentum_digest());
  out.residual_digest = DigestFromProto(in.residual_digest());
  out.layout = DigestFromProto(in.layout());
  out.boot.value = in.boot();
  return out;
}

v1::CommittedContribution ToProto(const CommittedContribution& in) {
  v1::CommittedContribution out;
  const ContributionHeader& header = in.header;
  out.set_worker(header.worker.value);
  out.set_incarnation(header.incarnation.value);
  *out.mutable_digest() = DigestToProto(header.digest);
  out.set_tokens(header.tokens);
  out.set_steps(header.steps);
  out.set_weight(in.weight);
  out.set_clip_factor(in.clip_factor);
  out.set_norm(in.norm);
  for (const LeaseCursor& cursor : header.cursors) *out.add_cursors() = atl::ToProto(cursor);
  out.set_encoded_bytes(header.encoded_bytes);
  out.set_codec(static_cast<v1::CodecKind>(CodecToNumber(header.codec)));
  out.set_send_step(header.send_step);
  out.set_mean_loss_micro(header.mean_loss_micro);
  return out;
}

absl::StatusOr<CommittedContribution> FromProto(const v1::CommittedContribution& in, const JobId& job,
                                                const FragmentVersion& target) {
  CommittedContribution out;
  ContributionHeader& header = out.header;
  header.job = job;
  header.target = target;
  ATOLL_ASSIGN_OR_RETURN(header.worker, WorkerField(in.worker(), Emptiness::kRefused, "worker"));
  header.incarnation.value = in.incarnation();
  header.digest = DigestFromProto(in.digest());
  header.tokens = in.tokens();
  header.steps = in.steps();
  header.encoded_bytes = in.encoded_bytes();
  ATOLL_ASSIGN_OR_RETURN(header.codec, CodecFromNumber(in.codec(), "codec"));
  header.send_step = in.send_step();
  header.mean_loss_micro = in.mean_loss_micro();
  for (const v1::LeaseCursor& cursor : in.cursors()) {
    ATOLL_ASSIGN_OR_RETURN(header.cursors.emplace_back(), atl::FromProto(cursor, "cursors"));
  }
  out.weight = in.weight();
  out.clip_factor = in.clip_factor();
  out.norm = in.norm();
  return out;
}

absl::StatusOr<RoundRecord> FromProto(const v1::RoundRecord& in, const JobId& job, uint64_t epoch) {
  RoundRecord out;
  out.job = job;
  out.epoch = epoch;
  ATOLL_ASSIGN_OR_RETURN(out.reached, FromProto(in.reached(), "reached"));
  if (out.reached.version.value == 0) return FieldError("reached.version", "no round reaches version 0");
  out.spec_revision = in.spec_revision();
  out.arithmetic_revision = in.arithmetic_revision();
  const FragmentVersion target{out.reached.fragment, {out.reached.version.value - 1}};
  for (const v1::CommittedContribution& c : in.contributions()) {
    ATOLL_ASSIGN_OR_RETURN(out.contributions.emplace_back(), FromProto(c, job, target));
  }
  out.learning_rate = in.learning_rate();
  out.momentum = in.momentum();
  out.hash = DigestFromProto(in.hash());
  out.update_digest = DigestFromProto(in.update_digest());
  out.update_bytes = in.update_bytes();
  out.clock_step = in.clock_step();
  out.tokens = in.tokens();
  for (const std::string& worker : in.dropped()) {
    ATOLL_ASSIGN_OR_RETURN(out.dropped.emplace_back(), WorkerField(worker, Emptiness::kRefused, "dropped"));
  }
  out.boot.value = in.boot();
  out.wall_nanos = in.wall_nanos();
  return out;
}

}  // namespace

std::string SerializeSegmentHeader(const SegmentHeader& in) {
  v1::SegmentHeader out;
  out.set_format_revision(in.format_revision);
  out.set_job(in.job.value);
  *out.mutable_target() = ToProto(in.target);
  *out.mutable_layout() = DigestToProto(in.layout);
  out.set_boot(in.boot.value);
  out.set_epoch(in.epoch);
  return Serialize(out);
}

absl::StatusOr<SegmentHeader> ParseSegmentHeader(const std::string& bytes) {
  v1::SegmentHeader proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "segment header", proto));
  auto out = FromProto(proto);
  if (!out.ok()) return Damaged("segment header", out.status());
  return out;
}

std::string SerializeContributionBegin(const ContributionHeader& header) {
  v1::ContributionBegin out;
  *out.mutable_header() = ContributionHeaderToProto(header, {});
  return Serialize(out);
}

absl::StatusOr<ContributionHeader> ParseContributionBegin(const std::string& bytes) {
  v1::ContributionBegin proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "contribution", proto));
  auto out = ContributionHeaderFromProto(proto.header(), "header");
  if (!out.ok()) return Damaged("contribution", out.status());
  return out;
}

std::string SerializeAccepted(const AcceptedRecord& record) {
  v1::ContributionAccepted out;
  *out.mutable_header() = ContributionHeaderToProto(record.header, {});
  out.set_wall_nanos(record.wall_nanos);
  out.set_boot(record.boot.value);
  return Serialize(out);
}

absl::StatusOr<AcceptedRecord> ParseAccepted(const std::string& bytes) {
  v1::ContributionAccepted proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "acceptance", proto));
  auto header = ContributionHeaderFromProto(proto.header(), "header");
  if (!header.ok()) return Damaged("acceptance", header.status());
  return AcceptedRecord{*std::move(header), proto.wall_nanos(), {proto.boot()}};
}

std::string SerializeUpdateInfo(const UpdateInfo& info) {
  v1::UpdateRecord out;
  *out.mutable_reached() = ToProto(info.reached);
  *out.mutable_hash() = DigestToProto(info.hash);
  *out.mutable_digest() = DigestToProto(info.digest);
  out.set_encoded_bytes(info.encoded_bytes);
  out.set_codec(static_cast<v1::CodecKind>(CodecToNumber(info.codec)));
  out.set_arithmetic_revision(info.arithmetic_revision);
  return Serialize(out);
}

absl::StatusOr<UpdateInfo> ParseUpdateInfo(const std::string& bytes) {
  v1::UpdateRecord proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "update", proto));
  auto out = FromProto(proto);
  if (!out.ok()) return Damaged("update", out.status());
  return out;
}

std::string SerializeSnapshotHeader(const SnapshotHeader& in) {
  v1::SnapshotHeader out;
  out.set_format_revision(in.format_revision);
  out.set_job(in.job.value);
  *out.mutable_at() = ToProto(in.at);
  out.set_elements(in.elements);
  *out.mutable_hash() = DigestToProto(in.hash);
  *out.mutable_momentum_digest() = DigestToProto(in.momentum_digest);
  *out.mutable_residual_digest() = DigestToProto(in.residual_digest);
  *out.mutable_layout() = DigestToProto(in.layout);
  out.set_epoch(in.epoch);
  out.set_boot(in.boot.value);
  return Serialize(out);
}

absl::StatusOr<SnapshotHeader> ParseSnapshotHeader(const std::string& bytes) {
  v1::SnapshotHeader proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "snapshot header", proto));
  auto out = FromProto(proto);
  if (!out.ok()) return Damaged("snapshot header", out.status());
  return out;
}

std::string SerializeRoundRecord(const RoundRecord& in) {
  v1::RoundRecord out;
  *out.mutable_reached() = ToProto(in.reached);
  out.set_spec_revision(in.spec_revision);
  out.set_arithmetic_revision(in.arithmetic_revision);
  for (const CommittedContribution& c : in.contributions) *out.add_contributions() = ToProto(c);
  out.set_learning_rate(in.learning_rate);
  out.set_momentum(in.momentum);
  *out.mutable_hash() = DigestToProto(in.hash);
  *out.mutable_update_digest() = DigestToProto(in.update_digest);
  out.set_update_bytes(in.update_bytes);
  out.set_clock_step(in.clock_step);
  out.set_boot(in.boot.value);
  out.set_wall_nanos(in.wall_nanos);
  out.set_tokens(in.tokens);
  for (const WorkerId& worker : in.dropped) out.add_dropped(worker.value);
  return Serialize(out);
}

absl::StatusOr<RoundRecord> ParseRoundRecord(const std::string& bytes, const JobId& job, uint64_t epoch) {
  v1::RoundRecord proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "round", proto));
  auto out = FromProto(proto, job, epoch);
  if (!out.ok()) return Damaged("round", out.status());
  return out;
}

std::string SerializeCheckpointManifest(const CheckpointManifest& manifest) {
  v1::CheckpointManifest out;
  const CheckpointRecord& record = manifest.record;
  out.set_format_revision(1);
  out.set_job(record.job.value);
  out.set_step(record.step);
  for (const Version v : record.versions) out.add_versions(v.value);
  for (const Digest& hash : record.hashes) *out.add_hashes() = DigestToProto(hash);
  out.set_pool_consumed(record.pool_consumed);
  out.set_pool_frontier(record.pool_frontier);
  out.set_wall_nanos(record.wall_nanos);
  out.set_boot(manifest.boot.value);
  out.set_epoch(manifest.epoch);
  return Serialize(out);
}

absl::StatusOr<CheckpointManifest> ParseCheckpointManifest(const std::string& bytes) {
  v1::CheckpointManifest proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "checkpoint manifest", proto));
  if (proto.format_revision() == 0)
    return absl::DataLossError("a stored checkpoint manifest is damaged: it has no format revision");
  if (proto.format_revision() != 1) {
    return absl::FailedPreconditionError(absl::StrCat("a checkpoint manifest has format revision ",
                                                      proto.format_revision(),
                                                      ", this program reads 1: use the program that wrote it"));
  }
  CheckpointManifest out;
  out.record.job = JobId{proto.job()};
  out.record.step = proto.step();
  for (const uint64_t v : proto.versions()) out.record.versions.push_back({v});
  for (const v1::Digest& hash : proto.hashes()) out.record.hashes.push_back(DigestFromProto(hash));
  if (out.record.versions.size() != out.record.hashes.size() || out.record.versions.empty()) {
    return absl::DataLossError("a stored checkpoint manifest is damaged: versions and hashes differ in number");
  }
  out.record.complete = true;
  out.record.pool_consumed = proto.pool_consumed();
  out.record.pool_frontier = proto.pool_frontier();
  out.record.wall_nanos = proto.wall_nanos();
  out.boot.value = proto.boot();
  out.epoch = proto.epoch();
  return out;
}

std::string SerializeTaskScores(const std::vector<TaskScore>& scores) {
  v1::TaskScores out;
  for (const TaskScore& score : scores) *out.add_tasks() = ToProto(score);
  return Serialize(out);
}

absl::StatusOr<std::vector<TaskScore>> ParseTaskScores(const std::string& bytes) {
  v1::TaskScores proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "list of task scores", proto));
  auto out = TaskScoresFromProto(proto.tasks(), "tasks");
  const absl::Status status = out.ok() ? CheckTaskScores(*out, "tasks") : out.status();
  if (!status.ok()) return Damaged("list of task scores", status);
  return out;
}

std::string SerializeJobSpec(const JobSpec& spec) {
  v1::StoredJobSpec out;
  *out.mutable_spec() = JobSpecToProto(spec);
  out.set_name(spec.name);
  for (const auto& [key, value] : spec.labels) (*out.mutable_labels())[key] = value;
  return Serialize(out);
}

absl::StatusOr<JobSpec> ParseJobSpec(const std::string& bytes) {
  v1::StoredJobSpec proto;
  ATOLL_RETURN_IF_ERROR(Parse(bytes, "job spec", proto));
  JobSpec out;
  const std::vector<Violation> violations = JobSpecFromProto(proto.spec(), false, out);
  if (!violations.empty()) {
    return absl::DataLossError(
        absl::StrCat("a stored job spec is damaged: ", violations[0].field, ": ", violations[0].problem));
  }
  out.name = proto.name();
  for (const auto& [key, value] : proto.labels()) out.labels[key] = value;
  return out;
}

}  // namespace atl
