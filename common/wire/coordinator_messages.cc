// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/check.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/wire/control_messages.h"
#include "common/wire/field_copier.h"
#include "common/wire/job_spec_proto.h"

namespace atl {

static_assert(IsLast(v1::ContributionFate_MAX, ContributionFate::kRefused, 0));

static void Fields(FieldCopier& copy, Welcome::Fate& m) { copy("target", m.target).Enum("fate", m.fate, 0); }

static void Fields(FieldCopier& copy, Welcome& m) {
  copy("boot", m.boot)("incarnation", m.incarnation)("resumed", m.resumed).Any("boot_nonce", m.boot_nonce);
  copy.Any("heartbeat_interval_ns", m.heartbeat_interval.ns).Any("membership_timeout_ns", m.membership_timeout.ns);
  for (const Duration d : {m.heartbeat_interval, m.membership_timeout})
    copy.Check("", d.ns > 0 && d <= Seconds(3600), "an interval of ", d.ns, " ns is not in (0, 1 h]");
  copy("fates", m.fates, limits::kFragments);
}

static void CopySpec(FieldCopier& copy, Assignment& m) {
  if (auto* out = copy.Out<v1::Assignment>()) {
    ATOLL_CHECK(m.spec != nullptr, "an assignment has a spec");
    *out->mutable_spec() = JobSpecToProto(*m.spec);
  }
  const auto* in = copy.In<v1::Assignment>();
  if (in == nullptr) return;
  JobSpec spec;
  std::vector<Violation> violations = JobSpecFromProto(in->spec(), false, spec);
  spec.name = m.job.value;
  if (violations.empty()) violations = ValidateJobSpec(spec, false);
  if (!violations.empty()) copy.Refuse("spec." + violations[0].field, violations[0].problem);
  m.spec = std::make_shared<const JobSpec>(std::move(spec));
}

static void Fields(FieldCopier& copy, Assignment& m) {
  copy("job", m.job)("spec_revision", m.spec_revision);
  CopySpec(copy, m);
  copy("clock_step", m.clock_step)("versions", m.versions, limits::kFragments);
  copy.Any("clock_step_nanos", m.clock_pace.ns)("epoch", m.epoch).Optional("layout", m.layout, !m.layout.IsZero());
  m.clock_pace = std::clamp(m.clock_pace, Duration{}, Seconds(86'400));
}

static void Fields(FieldCopier& copy, Unassign& m) { copy("job", m.job)("reason", m.reason); }

static void Fields(FieldCopier& copy, LeaseGranted& m) {
  copy("job", m.job)("request", m.request)("lease", m.lease).Any("begin", m.range.begin)("end", m.range.end);
  copy.Check("", m.range.begin < m.range.end, "[", m.range.begin, ", ", m.range.end, ") is empty");
}

static void Fields(FieldCopier& copy, LeaseDenied& m) { copy("job", m.job)("request", m.request)("reason", m.reason); }

static void Fields(FieldCopier& copy, LeaseRevoked& m) {
  copy("job", m.job)("leases", m.leases, limits::kLeasesPerWorker)("reason", m.reason);
}

static void Fields(FieldCopier& copy, UpdatePublished& m) {
  copy("job", m.job)("reached", m.reached)("hash", m.hash)("encoded_bytes", m.encoded_bytes);
  copy("contributors", m.contributors, limits::kWorkers)("clock_step", m.clock_step);
  const size_t digests = copy.Size("digests");
  copy.Check("digests", digests == m.contributors.size(), digests, " of ", m.contributors.size(), " contributors");
  copy("digests", m.digests, limits::kWorkers);
}

static void Fields(FieldCopier& copy, ContributionRefused& m) {
  copy("job", m.job)("target", m.target)("digest", m.digest)("reason", m.reason);
}

static void Fields(FieldCopier& copy, EvaluationAssigned& m) {
  copy("job", m.job)("evaluation", m.evaluation)("versions", m.versions, limits::kFragments);
  copy("samples", m.samples)("score_tasks", m.score_tasks);
}

static void Fields(FieldCopier& copy, PaceAssigned& m) {
  copy("job", m.job)("period_steps", m.period_steps);
  copy.Check("period_steps", m.period_steps >= 1 && m.period_steps <= kLongestPeriodSteps, m.period_steps,
             " is not a number of steps");
}

static void Fields(FieldCopier& copy, LinkJudged& m) { copy("job", m.job)("admitted", m.admitted)("reason", m.reason); }

static void Fields(FieldCopier& copy, ClosingStarted& m) {
  copy("job", m.job)("stop_step", m.stop_step)("versions", m.versions, limits::kFragments);
}

static void Fields(FieldCopier& copy, DrainRequested& m) { copy("reason", m.reason); }

static void Fields(FieldCopier& copy, LogsWanted& m) {
  copy("request", m.request)("lines", m.lines).Any("since_wall_nanos", m.since_wall_nanos);
  m.lines = std::min<uint32_t>(m.lines, limits::kLogLines);
}

static void Fields(FieldCopier& copy, Refused& m) { copy("reason", m.reason)("retry", m.retry); }

static void Fields(FieldCopier& copy, CoordinatorMessage& m) {
  copy.OneOf("coordinator_message.kind", m,
             {"welcome", "assignment", "unassign", "lease_granted", "lease_denied", "lease_revoked", "update_published",
              "contribution_refused", "evaluation_assigned", "closing_started", "drain_requested", "logs_wanted",
              "refused", "pace_assigned", "link_judged"});
}

v1::CoordinatorMessage CoordinatorMessageToProto(const CoordinatorMessage& message) {
  return ToProto<v1::CoordinatorMessage>(message);
}

absl::StatusOr<CoordinatorMessage> CoordinatorMessageFromProto(const v1::CoordinatorMessage& proto) {
  return FromProto<CoordinatorMessage>(proto, "");
}

}  // namespace atl
