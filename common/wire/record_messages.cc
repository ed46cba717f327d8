// SPDX-License-Identifier: Apache-2.0
#include "common/wire/record_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "atoll/v1/record.pb.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/field_copier.h"
#include "common/wire/job_spec_proto.h"

namespace atl {

static void Fields(FieldCopier& copy, SegmentHeader& m) {
  copy("format_revision", m.format_revision)("job", m.job)("target", m.target)("layout", m.layout);
  copy.Any("boot", m.boot).Any("epoch", m.epoch);
}

static void Fields(FieldCopier& copy, AcceptedRecord& m) {
  copy("header", m.header).Any("wall_nanos", m.wall_nanos).Any("boot", m.boot);
}

static void Fields(FieldCopier& copy, UpdateInfo& m) {
  copy("reached", m.reached)("hash", m.hash)("digest", m.digest)("encoded_bytes", m.encoded_bytes)("codec", m.codec);
  copy("arithmetic_revision", m.arithmetic_revision);
}

static void Fields(FieldCopier& copy, SnapshotHeader& m) {
  copy("format_revision", m.format_revision)("job", m.job)("at", m.at).Any("elements", m.elements);
  copy.Check("elements", m.elements != 0 && m.elements <= limits::kParameters, "is impossible");
  copy("hash", m.hash)("momentum_digest", m.momentum_digest)("residual_digest", m.residual_digest);
  copy("layout", m.layout).Any("epoch", m.epoch).Any("boot", m.boot);
}

// The header's job and target are left out: they are those of the round.
static void Fields(FieldCopier& copy, CommittedContribution& m) {
  ContributionHeader& h = m.header;
  copy("worker", h.worker).Any("incarnation", h.incarnation)("digest", h.digest).Any("tokens", h.tokens);
  copy.Any("steps", h.steps)("weight", m.weight)("clip_factor", m.clip_factor).Any("encoded_bytes", h.encoded_bytes);
  copy("codec", h.codec).Any("send_step", h.send_step).Any("mean_loss_micro", h.mean_loss_micro)("norm", m.norm);
  copy("cursors", h.cursors, SIZE_MAX);
}

static void Fields(FieldCopier& copy, RoundRecord& m) {
  copy("reached", m.reached).Check("reached.version", m.reached.version.value != 0, "no round reaches version 0");
  copy.Any("spec_revision", m.spec_revision)("arithmetic_revision", m.arithmetic_revision);
  copy("contributions", m.contributions, SIZE_MAX)("learning_rate", m.learning_rate)("momentum", m.momentum);
  copy("hash", m.hash)("update_digest", m.update_digest).Any("update_bytes", m.update_bytes);
  copy.Any("clock_step", m.clock_step).Any("boot", m.boot).Any("wall_nanos", m.wall_nanos).Any("tokens", m.tokens);
  copy("dropped", m.dropped, SIZE_MAX);
}

static void CheckFormat(FieldCopier& copy, uint32_t format_revision) {
  if (format_revision == 0) return copy.Refuse(absl::InvalidArgumentError("it has no format revision"));
  copy.Refuse(absl::FailedPreconditionError(absl::StrCat("a checkpoint manifest has format revision ", format_revision,
                                                         ", this program reads 1: use the program that wrote it")));
}

static void Fields(FieldCopier& copy, CheckpointManifest& m) {
  CheckpointRecord& r = m.record;
  uint32_t format_revision = 1;
  copy("format_revision", format_revision);
  if (format_revision != 1) CheckFormat(copy, format_revision);
  copy.Any("job", r.job).Any("step", r.step).Any("versions", r.versions, SIZE_MAX)("hashes", r.hashes, SIZE_MAX);
  if (r.versions.size() != r.hashes.size() || r.versions.empty())
    copy.Refuse(absl::InvalidArgumentError("versions and hashes differ in number"));
  copy.Any("pool_consumed", r.pool_consumed).Any("pool_frontier", r.pool_frontier).Any("wall_nanos", r.wall_nanos);
  copy.Any("boot", m.boot).Any("epoch", m.epoch);
  r.complete = true;
}

// The core has judged these scores before: impossible ones mean damage.
static void Fields(FieldCopier& copy, std::vector<TaskScore>& scores) {
  copy("tasks", scores, limits::kEvalTasks, /*indexed=*/true);
  for (size_t i = 0; i < scores.size(); ++i) {
    const TaskScore& score = scores[i];
    const std::string at = absl::StrCat("tasks[", i, "]");
    const uint64_t most = std::max(score.correct, score.correct_per_byte.value_or(0));
    copy.Check(at + ".name", IsTaskName(score.name), "is not the name of a task");
    copy.Check(at + ".examples", score.examples <= limits::kCount, score.examples, " is impossible, at most ",
               limits::kCount, " is allowed");
    copy.Check(at, score.examples != 0 && most <= score.examples, "has ", most, " right answers of ", score.examples,
               " examples");
  }
}

namespace {

// Deterministic: equal records give equal bytes (including maps).
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

// A record that was written by this program and cannot be parsed means a damaged disk, whatever the field.
absl::Status Damaged(const char* what, absl::string_view problem) {
  return absl::DataLossError(absl::StrCat("a stored ", what, " is damaged: ", problem));
}

template <class Domain>
absl::StatusOr<Domain> Checked(const char* what, absl::StatusOr<Domain> record) {
  if (absl::IsInvalidArgument(record.status())) return Damaged(what, record.status().message());
  return record;
}

constexpr char kNoMessage[] = "it is not a valid message";

template <class Proto, class Domain>
absl::StatusOr<Domain> Parse(const std::string& bytes, const char* what) {
  Proto proto;
  if (!proto.ParseFromString(bytes)) return Damaged(what, kNoMessage);
  return Checked(what, FromProto<Domain>(proto, ""));
}

}  // namespace

std::string SerializeSegmentHeader(const SegmentHeader& header) {
  return Serialize(ToProto<v1::SegmentHeader>(header));
}

absl::StatusOr<SegmentHeader> ParseSegmentHeader(const std::string& bytes) {
  return Parse<v1::SegmentHeader, SegmentHeader>(bytes, "segment header");
}

std::string SerializeContributionBegin(const ContributionHeader& header) {
  v1::ContributionBegin out;
  *out.mutable_header() = ToProto<v1::ContributionHeader>(header);
  return Serialize(out);
}

absl::StatusOr<ContributionHeader> ParseContributionBegin(const std::string& bytes) {
  v1::ContributionBegin proto;
  if (!proto.ParseFromString(bytes)) return Damaged("contribution", kNoMessage);
  return Checked("contribution", FromProto<ContributionHeader>(proto.header(), "header"));
}

std::string SerializeAccepted(const AcceptedRecord& record) {
  return Serialize(ToProto<v1::ContributionAccepted>(record));
}

absl::StatusOr<AcceptedRecord> ParseAccepted(const std::string& bytes) {
  return Parse<v1::ContributionAccepted, AcceptedRecord>(bytes, "acceptance");
}

std::string SerializeUpdateInfo(const UpdateInfo& info) { return Serialize(ToProto<v1::UpdateRecord>(info)); }

absl::StatusOr<UpdateInfo> ParseUpdateInfo(const std::string& bytes) {
  return Parse<v1::UpdateRecord, UpdateInfo>(bytes, "update");
}

std::string SerializeSnapshotHeader(const SnapshotHeader& header) {
  return Serialize(ToProto<v1::SnapshotHeader>(header));
}

absl::StatusOr<SnapshotHeader> ParseSnapshotHeader(const std::string& bytes) {
  return Parse<v1::SnapshotHeader, SnapshotHeader>(bytes, "snapshot header");
}

std::string SerializeRoundRecord(const RoundRecord& record) { return Serialize(ToProto<v1::RoundRecord>(record)); }

absl::StatusOr<RoundRecord> ParseRoundRecord(const std::string& bytes, const JobId& job, uint64_t epoch) {
  ATOLL_ASSIGN_OR_RETURN(RoundRecord out, (Parse<v1::RoundRecord, RoundRecord>(bytes, "round")));
  out.job = job;
  out.epoch = epoch;
  for (CommittedContribution& c : out.contributions) {
    c.header.job = job;
    c.header.target = {out.reached.fragment, {out.reached.version.value - 1}};
  }
  return out;
}

std::string SerializeCheckpointManifest(const CheckpointManifest& manifest) {
  return Serialize(ToProto<v1::CheckpointManifest>(manifest));
}

absl::StatusOr<CheckpointManifest> ParseCheckpointManifest(const std::string& bytes) {
  return Parse<v1::CheckpointManifest, CheckpointManifest>(bytes, "checkpoint manifest");
}

std::string SerializeTaskScores(const std::vector<TaskScore>& scores) {
  return Serialize(ToProto<v1::TaskScores>(scores));
}

absl::StatusOr<std::vector<TaskScore>> ParseTaskScores(const std::string& bytes) {
  return Parse<v1::TaskScores, std::vector<TaskScore>>(bytes, "list of task scores");
}

std::string SerializeJobSpec(const JobSpec& spec) {
  v1::StoredJobSpec out;
  *out.mutable_spec() = JobSpecToProto(spec);
  out.set_name(spec.name);
  out.mutable_labels()->insert(spec.labels.begin(), spec.labels.end());
  return Serialize(out);
}

absl::StatusOr<JobSpec> ParseJobSpec(const std::string& bytes) {
  v1::StoredJobSpec proto;
  if (!proto.ParseFromString(bytes)) return Damaged("job spec", kNoMessage);
  JobSpec out;
  const std::vector<Violation> violations = JobSpecFromProto(proto.spec(), false, out);
  if (!violations.empty()) return Damaged("job spec", absl::StrCat(violations[0].field, ": ", violations[0].problem));
  out.name = proto.name();
  out.labels.insert(proto.labels().begin(), proto.labels().end());
  return out;
}

}  // namespace atl
