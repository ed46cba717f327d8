// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/check.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/wire/control_messages.h"
#include "common/wire/field_checks.h"
#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

// ---- to proto -------------------------------------------------------------------------------------------------------
// The receiver takes every message: longer texts and lists are cut, larger figures lowered. Otherwise
// the stream would end at one, and its sender would send the same after each reconnect.

void Fill(const Welcome& in, v1::CoordinatorMessage& message) {
  v1::Welcome& out = *message.mutable_welcome();
  out.set_boot(in.boot.value);
  out.set_incarnation(in.incarnation.value);
  out.set_resumed(in.resumed);
  out.set_heartbeat_interval_ns(in.heartbeat_interval.ns);
  out.set_membership_timeout_ns(in.membership_timeout.ns);
  out.set_boot_nonce(in.boot_nonce);
  for (const Welcome::Fate& fate : First(in.fates, limits::kFragments)) {
    v1::HeldFate& f = *out.add_fates();
    *f.mutable_target() = ToProto(fate.target);
    f.set_fate(static_cast<v1::ContributionFate>(fate.fate));
  }
}

void Fill(const Assignment& in, v1::CoordinatorMessage& message) {
  ATOLL_CHECK(in.spec != nullptr, "an assignment has a spec");
  v1::Assignment& out = *message.mutable_assignment();
  out.set_job(in.job.value);
  out.set_spec_revision(in.spec_revision);
  *out.mutable_spec() = JobSpecToProto(*in.spec);
  out.set_clock_step(in.clock_step);
  for (const Version v : First(in.versions, limits::kFragments)) out.add_versions(v.value);
  out.set_clock_step_nanos(in.clock_pace.ns);
  out.set_epoch(in.epoch);
  if (in.layout != Digest{}) *out.mutable_layout() = DigestToProto(in.layout);
}

void Fill(const Unassign& in, v1::CoordinatorMessage& message) {
  message.mutable_unassign()->set_job(in.job.value);
  message.mutable_unassign()->set_reason(Sendable(in.reason));
}

void Fill(const LeaseGranted& in, v1::CoordinatorMessage& message) {
  v1::LeaseGranted& out = *message.mutable_lease_granted();
  out.set_job(in.job.value);
  out.set_request(in.request);
  out.set_lease(in.lease.value);
  out.set_begin(in.range.begin);
  out.set_end(in.range.end);
}

void Fill(const LeaseDenied& in, v1::CoordinatorMessage& message) {
  v1::LeaseDenied& out = *message.mutable_lease_denied();
  out.set_job(in.job.value);
  out.set_request(in.request);
  out.set_reason(Sendable(in.reason));
}

void Fill(const LeaseRevoked& in, v1::CoordinatorMessage& message) {
  v1::LeaseRevoked& out = *message.mutable_lease_revoked();
  out.set_job(in.job.value);
  for (const LeaseId lease : First(in.leases, limits::kLeasesPerWorker)) out.add_leases(lease.value);
  out.set_reason(Sendable(in.reason));
}

void Fill(const UpdatePublished& in, v1::CoordinatorMessage& message) {
  v1::UpdatePublished& out = *message.mutable_update_published();
  out.set_job(in.job.value);
  *out.mutable_reached() = ToProto(in.reached);
  *out.mutable_hash() = DigestToProto(in.hash);
  out.set_encoded_bytes(in.encoded_bytes);
  for (const WorkerId& worker : First(in.contributors, limits::kWorkers)) out.add_contributors(worker.value);
  out.set_clock_step(in.clock_step);
  for (const Digest& digest : First(in.digests, limits::kWorkers)) *out.add_digests() = DigestToProto(digest);
}

void Fill(const ContributionRefused& in, v1::CoordinatorMessage& message) {
  v1::ContributionRefused& out = *message.mutable_contribution_refused();
  out.set_job(in.job.value);
  *out.mutable_target() = ToProto(in.target);
  *out.mutable_digest() = DigestToProto(in.digest);
  out.set_reason(Sendable(in.reason));
}

void Fill(const EvaluationAssigned& in, v1::CoordinatorMessage& message) {
  v1::EvaluationAssigned& out = *message.mutable_evaluation_assigned();
  out.set_job(in.job.value);
  out.set_evaluation(in.evaluation);
  for (const Version v : First(in.versions, limits::kFragments)) out.add_versions(v.value);
  out.set_samples(Countable(in.samples));
  out.set_score_tasks(in.score_tasks);
}

void Fill(const PaceAssigned& in, v1::CoordinatorMessage& message) {
  message.mutable_pace_assigned()->set_job(in.job.value);
  message.mutable_pace_assigned()->set_period_steps(in.period_steps);
}

void Fill(const LinkJudged& in, v1::CoordinatorMessage& message) {
  v1::LinkJudged& out = *message.mutable_link_judged();
  out.set_job(in.job.value);
  out.set_admitted(in.admitted);
  out.set_reason(Sendable(in.reason));
}

void Fill(const ClosingStarted& in, v1::CoordinatorMessage& message) {
  v1::ClosingStarted& out = *message.mutable_closing_started();
  out.set_job(in.job.value);
  out.set_stop_step(in.stop_step);
  for (const Version v : First(in.versions, limits::kFragments)) out.add_versions(v.value);
}

void Fill(const DrainRequested& in, v1::CoordinatorMessage& message) {
  message.mutable_drain_requested()->set_reason(Sendable(in.reason));
}

void Fill(const LogsWanted& in, v1::CoordinatorMessage& message) {
  v1::LogsWanted& out = *message.mutable_logs_wanted();
  out.set_request(in.request);
  out.set_lines(in.lines);
  out.set_since_wall_nanos(in.since_wall_nanos);
}

void Fill(const Refused& in, v1::CoordinatorMessage& message) {
  message.mutable_refused()->set_reason(Sendable(in.reason));
  message.mutable_refused()->set_retry(in.retry);
}

// ---- from proto -----------------------------------------------------------------------------------------------------

absl::StatusOr<VersionVector> Versions(const google::protobuf::RepeatedField<uint64_t>& in, const std::string& path) {
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.size()), limits::kFragments, path));
  VersionVector out;
  for (const uint64_t v : in) {
    ATOLL_RETURN_IF_ERROR(CheckCount(v, path));
    out.push_back({v});
  }
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::Welcome& in) {
  Welcome out;
  ATOLL_RETURN_IF_ERROR(CheckCount(in.boot(), "welcome.boot"));
  out.boot.value = in.boot();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.incarnation(), "welcome.incarnation"));
  out.incarnation.value = in.incarnation();
  out.resumed = in.resumed();
  out.boot_nonce = in.boot_nonce();
  constexpr int64_t kHourNs = Seconds(3600).ns;
  for (const int64_t ns : {in.heartbeat_interval_ns(), in.membership_timeout_ns()}) {
    if (ns <= 0 || ns > kHourNs)
      return FieldError("welcome", absl::StrCat("an interval of ", ns, " ns is not in (0, 1 h]"));
  }
  out.heartbeat_interval.ns = in.heartbeat_interval_ns();
  out.membership_timeout.ns = in.membership_timeout_ns();
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(in.fates_size()), limits::kFragments, "welcome.fates"));
  for (const v1::HeldFate& fate : in.fates()) {
    Welcome::Fate& f = out.fates.emplace_back();
    ATOLL_ASSIGN_OR_RETURN(f.target, FromProto(fate.target(), "welcome.fates.target"));
    if (!v1::ContributionFate_IsValid(fate.fate())) {
      return FieldError("welcome.fates.fate", absl::StrCat(static_cast<int>(fate.fate()), " is not known"));
    }
    f.fate = static_cast<ContributionFate>(fate.fate());
  }
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::Assignment& in) {
  Assignment out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "assignment.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.spec_revision(), "assignment.spec_revision"));
  out.spec_revision = in.spec_revision();
  JobSpec spec;
  std::vector<Violation> violations = JobSpecFromProto(in.spec(), false, spec);
  spec.name = in.job();
  if (violations.empty()) violations = ValidateJobSpec(spec, false);
  if (!violations.empty()) return FieldError("assignment.spec." + violations[0].field, violations[0].problem);
  out.spec = std::make_shared<const JobSpec>(std::move(spec));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.clock_step(), "assignment.clock_step"));
  out.clock_step = in.clock_step();
  ATOLL_ASSIGN_OR_RETURN(out.versions, Versions(in.versions(), "assignment.versions"));
  out.clock_pace.ns = std::clamp<int64_t>(in.clock_step_nanos(), 0, Seconds(86'400).ns);
  ATOLL_RETURN_IF_ERROR(CheckCount(in.epoch(), "assignment.epoch"));
  out.epoch = in.epoch();
  out.layout = DigestFromProto(in.layout());
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::Unassign& in) {
  Unassign out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "unassign.job"));
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "unassign.reason"));
  out.reason = in.reason();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::LeaseGranted& in) {
  LeaseGranted out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "lease_granted.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.request(), "lease_granted.request"));
  out.request = in.request();
  if (in.lease() == 0) return FieldError("lease_granted.lease", "0 is no lease");
  out.lease.value = in.lease();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.end(), "lease_granted.end"));
  if (in.begin() >= in.end())
    return FieldError("lease_granted", absl::StrCat("[", in.begin(), ", ", in.end(), ") is empty"));
  out.range = {in.begin(), in.end()};
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::LeaseDenied& in) {
  LeaseDenied out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "lease_denied.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.request(), "lease_denied.request"));
  out.request = in.request();
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "lease_denied.reason"));
  out.reason = in.reason();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::LeaseRevoked& in) {
  LeaseRevoked out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "lease_revoked.job"));
  ATOLL_RETURN_IF_ERROR(
      CheckSize(static_cast<size_t>(in.leases_size()), limits::kLeasesPerWorker, "lease_revoked.leases"));
  for (const uint64_t lease : in.leases()) {
    if (lease == 0) return FieldError("lease_revoked.leases", "0 is no lease");
    out.leases.push_back({lease});
  }
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "lease_revoked.reason"));
  out.reason = in.reason();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::UpdatePublished& in) {
  UpdatePublished out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "update_published.job"));
  ATOLL_ASSIGN_OR_RETURN(out.reached, FromProto(in.reached(), "update_published.reached"));
  out.hash = DigestFromProto(in.hash());
  ATOLL_RETURN_IF_ERROR(CheckCount(in.encoded_bytes(), "update_published.encoded_bytes"));
  out.encoded_bytes = in.encoded_bytes();
  ATOLL_RETURN_IF_ERROR(
      CheckSize(static_cast<size_t>(in.contributors_size()), limits::kWorkers, "update_published.contributors"));
  for (const std::string& worker : in.contributors()) {
    ATOLL_ASSIGN_OR_RETURN(out.contributors.emplace_back(),
                           WorkerField(worker, Emptiness::kRefused, "update_published.contributors"));
  }
  ATOLL_RETURN_IF_ERROR(CheckCount(in.clock_step(), "update_published.clock_step"));
  out.clock_step = in.clock_step();
  if (in.digests_size() != in.contributors_size())
    return FieldError("update_published.digests",
                      absl::StrCat(in.digests_size(), " of ", in.contributors_size(), " contributors"));
  for (const v1::Digest& digest : in.digests()) out.digests.push_back(DigestFromProto(digest));
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::ContributionRefused& in) {
  ContributionRefused out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "contribution_refused.job"));
  ATOLL_ASSIGN_OR_RETURN(out.target, FromProto(in.target(), "contribution_refused.target"));
  out.digest = DigestFromProto(in.digest());
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "contribution_refused.reason"));
  out.reason = in.reason();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::EvaluationAssigned& in) {
  EvaluationAssigned out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "evaluation_assigned.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.evaluation(), "evaluation_assigned.evaluation"));
  out.evaluation = in.evaluation();
  ATOLL_ASSIGN_OR_RETURN(out.versions, Versions(in.versions(), "evaluation_assigned.versions"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.samples(), "evaluation_assigned.samples"));
  out.samples = in.samples();
  out.score_tasks = in.score_tasks();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::PaceAssigned& in) {
  PaceAssigned out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "pace_assigned.job"));
  if (in.period_steps() == 0 || in.period_steps() > kLongestPeriodSteps) {
    return FieldError("pace_assigned.period_steps", absl::StrCat(in.period_steps(), " is not a number of steps"));
  }
  out.period_steps = in.period_steps();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::LinkJudged& in) {
  LinkJudged out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "link_judged.job"));
  out.admitted = in.admitted();
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "link_judged.reason"));
  out.reason = in.reason();
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::ClosingStarted& in) {
  ClosingStarted out;
  ATOLL_ASSIGN_OR_RETURN(out.job, JobField(in.job(), Emptiness::kRefused, "closing_started.job"));
  ATOLL_RETURN_IF_ERROR(CheckCount(in.stop_step(), "closing_started.stop_step"));
  out.stop_step = in.stop_step();
  ATOLL_ASSIGN_OR_RETURN(out.versions, Versions(in.versions(), "closing_started.versions"));
  return out;
}

absl::StatusOr<CoordinatorMessage> Read(const v1::DrainRequested& in) {
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "drain_requested.reason"));
  return DrainRequested{in.reason()};
}

absl::StatusOr<CoordinatorMessage> Read(const v1::LogsWanted& in) {
  ATOLL_RETURN_IF_ERROR(CheckCount(in.request(), "logs_wanted.request"));
  return LogsWanted{in.request(), std::min<uint32_t>(in.lines(), limits::kLogLines), in.since_wall_nanos()};
}

absl::StatusOr<CoordinatorMessage> Read(const v1::Refused& in) {
  ATOLL_RETURN_IF_ERROR(CheckText(in.reason(), "refused.reason"));
  return Refused{in.reason(), in.retry()};
}

}  // namespace

v1::CoordinatorMessage CoordinatorMessageToProto(const CoordinatorMessage& message) {
  v1::CoordinatorMessage proto;
  std::visit([&](const auto& m) { Fill(m, proto); }, message);
  return proto;
}

absl::StatusOr<CoordinatorMessage> CoordinatorMessageFromProto(const v1::CoordinatorMessage& proto) {
  switch (proto.kind_case()) {
    case v1::CoordinatorMessage::kWelcome: return Read(proto.welcome());
    case v1::CoordinatorMessage::kAssignment: return Read(proto.assignment());
    case v1::CoordinatorMessage::kUnassign: return Read(proto.unassign());
    case v1::CoordinatorMessage::kLeaseGranted: return Read(proto.lease_granted());
    case v1::CoordinatorMessage::kLeaseDenied: return Read(proto.lease_denied());
    case v1::CoordinatorMessage::kLeaseRevoked: return Read(proto.lease_revoked());
    case v1::CoordinatorMessage::kUpdatePublished: return Read(proto.update_published());
    case v1::CoordinatorMessage::kContributionRefused: return Read(proto.contribution_refused());
    case v1::CoordinatorMessage::kEvaluationAssigned: return Read(proto.evaluation_assigned());
    case v1::CoordinatorMessage::kClosingStarted: return Read(proto.closing_started());
    case v1::CoordinatorMessage::kDrainRequested: return Read(proto.drain_requested());
    case v1::CoordinatorMessage::kPaceAssigned: return Read(proto.pace_assigned());
    case v1::CoordinatorMessage::kLinkJudged: return Read(proto.link_judged());
    case v1::CoordinatorMessage::kLogsWanted: return Read(proto.logs_wanted());
    case v1::CoordinatorMessage::kRefused: return Read(proto.refused());
    case v1::CoordinatorMessage::KIND_NOT_SET: break;
  }
  return FieldError("coordinator_message.kind", "has a kind unknown to this program");
}

}  // namespace atl
