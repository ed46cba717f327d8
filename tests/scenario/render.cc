// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/render.h"

#include "absl/strings/str_cat.h"
#include "coordinator/core/run.h"

namespace atl {
namespace {

std::string Of(const VersionVector& versions) {
  std::string out;
  for (const Version v : versions) absl::StrAppend(&out, out.empty() ? "" : ",", v.value);
  return "[" + out + "]";
}
std::string Of(const SampleRange& r) { return absl::StrCat("[", r.begin, ",", r.end, ")"); }
std::string Of(const FragmentVersion& t) { return absl::StrCat(t.fragment.value, "/", t.version.value); }
std::string Of(const std::vector<SampleRange>& ranges) {
  std::string out;
  for (const SampleRange& r : ranges) absl::StrAppend(&out, Of(r));
  return out.empty() ? "none" : out;
}
std::string Of(const std::vector<WorkerId>& workers) {
  std::string out;
  for (const WorkerId& w : workers) absl::StrAppend(&out, out.empty() ? "" : ",", w.value);
  return out;
}

std::string Line(const JobRecord& r) {
  return absl::StrCat("job ", r.job.value, " ", NameOf(r.state), " revision=", r.spec_revision, " epoch=", r.epoch,
                      " stop=", r.stop_step);
}
std::string Line(const PoolRecord& r) {
  return absl::StrCat("pool ", r.job.value, " frontier=", r.frontier, " returned=", Of(r.returned),
                      " consumed=", r.consumed, r.abandoned > 0 ? absl::StrCat(" abandoned=", r.abandoned) : "");
}
std::string Line(const WorkerRecord& r) {
  return absl::StrCat("worker ", r.worker.value, " incarnation=", r.incarnation.value, " job=", r.job.value,
                      r.quarantine.empty() ? "" : " quarantined", r.cordoned ? " cordoned" : "");
}
std::string Line(const WorkerForgotten& r) { return absl::StrCat("worker ", r.worker.value, " forgotten"); }
std::string Line(const LeaseRecord& r) {
  return absl::StrCat("lease ", r.lease.value, " ", r.worker.value, " ", Of(r.range), " consumed_to=", r.consumed_to,
                      r.revoked ? " revoked" : "");
}
std::string Line(const ScreenedRecord& r) {
  return absl::StrCat("screened ", r.job.value, " ", Of(r.target), " of ", r.worker.value);
}
std::string Line(const LeaseClosed& r) { return absl::StrCat("lease ", r.lease.value, " closed"); }
std::string Line(const RoundRecord& r) {
  std::vector<WorkerId> members;
  for (const auto& c : r.contributions) members.push_back(c.header.worker);
  return absl::StrCat("round ", r.job.value, " reached=", Of(r.reached), " with ", Of(members),
                      r.dropped.empty() ? "" : " dropped " + Of(r.dropped), " clock=", r.clock_step,
                      " tokens=", r.tokens);
}
std::string Line(const EvaluationRecord& r) {
  return absl::StrCat("evaluation ", r.evaluation, " at ", r.clock_step, " versions=", Of(r.versions));
}
std::string Line(const CheckpointRecord& r) {
  return absl::StrCat("checkpoint ", r.step, " versions=", Of(r.versions), r.complete ? " complete" : " begun",
                      r.kept_for_good ? " for good" : "");
}
std::string Line(const CheckpointDropped& r) { return absl::StrCat("checkpoint ", r.step, " dropped"); }
std::string Line(const CountersRecord&) { return ""; }
std::string Line(const RollbackRecord& r) {
  return absl::StrCat("rollback ", r.job.value, " epoch=", r.epoch, " versions=", Of(r.versions));
}

std::string Line(const Welcome& m) {
  std::string fates;
  static const char* const kNames[] = {"unknown", "accepted", "committed", "refused"};
  for (const auto& f : m.fates) absl::StrAppend(&fates, " ", Of(f.target), "=", kNames[static_cast<int>(f.fate)]);
  return absl::StrCat("Welcome incarnation=", m.incarnation.value, m.resumed ? " resumed" : " new",
                      " boot=", m.boot.value, fates);
}
std::string Line(const Assignment& m) {
  return absl::StrCat("Assignment ", m.job.value, " revision=", m.spec_revision, " clock=", m.clock_step,
                      m.clock_pace.ns > 0 ? absl::StrCat(" pace=", m.clock_pace.ns / 1'000'000, "ms") : "",
                      " versions=", Of(m.versions));
}
std::string Line(const Unassign& m) { return absl::StrCat("Unassign ", m.job.value, ": ", m.reason); }
std::string Line(const LeaseGranted& m) {
  return absl::StrCat("LeaseGranted request=", m.request, " lease=", m.lease.value, " ", Of(m.range));
}
std::string Line(const LeaseDenied& m) { return absl::StrCat("LeaseDenied request=", m.request, ": ", m.reason); }
std::string Line(const LeaseRevoked& m) {
  std::string ids;
  for (const LeaseId id : m.leases) absl::StrAppend(&ids, " ", id.value);
  return absl::StrCat("LeaseRevoked", ids, ": ", m.reason);
}
std::string Line(const UpdatePublished& m) {
  return absl::StrCat("UpdatePublished ", Of(m.reached), " by ", Of(m.contributors), " clock=", m.clock_step);
}
std::string Line(const ContributionRefused& m) {
  return absl::StrCat("ContributionRefused ", Of(m.target), ": ", m.reason);
}
std::string Line(const EvaluationAssigned& m) {
  return absl::StrCat("EvaluationAssigned ", m.evaluation, " versions=", Of(m.versions), " samples=", m.samples,
                      m.score_tasks ? " with tasks" : "");
}
std::string Line(const ClosingStarted& m) {
  return absl::StrCat("ClosingStarted stop=", m.stop_step, " versions=", Of(m.versions));
}
std::string Line(const DrainRequested& m) { return absl::StrCat("DrainRequested: ", m.reason); }
std::string Line(const LogsWanted&) { return "LogsWanted"; }
std::string Line(const PaceAssigned& m) { return absl::StrCat("PaceAssigned ", m.period_steps); }
std::string Line(const LinkJudged& m) {
  return absl::StrCat("LinkJudged ", m.admitted ? "admitted: " : "not admitted: ", m.reason);
}
std::string Line(const Refused& m) { return absl::StrCat("Refused", m.retry ? " retry" : "", ": ", m.reason); }

std::string Line(const PrepareParameters& t) { return absl::StrCat("PrepareParameters ", t.job.value); }
std::string Line(const FlushAcceptance& t) { return absl::StrCat("FlushAcceptance u", t.upload); }
std::string Line(const CloseRound& t) {
  std::vector<WorkerId> members;
  for (const auto& c : t.contributions) members.push_back(c.worker);
  return absl::StrCat("CloseRound ", t.job.value, " ", Of(t.target), " with ", Of(members),
                      " revision=", t.spec_revision, " clock=", t.clock_step);
}
std::string Line(const WriteCheckpoint& t) {
  return absl::StrCat("WriteCheckpoint ", t.job.value, " ", t.step, " versions=", Of(t.versions));
}
std::string Line(const DropCheckpoint& t) { return absl::StrCat("DropCheckpoint ", t.job.value, " ", t.step); }
std::string Line(const CheckCheckpoint& t) { return absl::StrCat("CheckCheckpoint ", t.job.value, " ", t.step); }
std::string Line(const RestoreCheckpoint& t) {
  return absl::StrCat("RestoreCheckpoint ", t.job.value, " ", t.step, " epoch=", t.epoch);
}
std::string Line(const ReleaseJob& t) { return absl::StrCat("ReleaseJob ", t.job.value, t.purged ? " purged" : ""); }

std::string StatusLine(const absl::Status& s) {
  if (s.ok()) return "ok";
  return absl::StrCat(absl::StatusCodeToString(s.code()), ": ", s.message());
}

}  // namespace

std::vector<std::string> Render(const Effects& effects, const std::map<ConnectionId, std::string>& names) {
  std::vector<std::string> out;
  for (const LedgerRecord& r : effects.records) {
    const std::string line = std::visit([](const auto& x) { return Line(x); }, r);
    if (!line.empty()) out.push_back("record " + line);
  }
  for (const Send& s : effects.sends) {
    out.push_back(
        absl::StrCat("-> ", names.at(s.connection), " ", std::visit([](const auto& x) { return Line(x); }, s.message)));
  }
  for (const CloseConnection& c : effects.closes) out.push_back(absl::StrCat("close c", c.connection));
  for (const UploadVerdict& v : effects.verdicts) {
    static const char* const kNames[] = {"granted", "accepted", "refused"};
    out.push_back(absl::StrCat("upload u", v.upload, " ", kNames[static_cast<int>(v.decision)],
                               v.status.ok() ? "" : " " + StatusLine(v.status)));
  }
  for (const Task& t : effects.tasks) out.push_back("task " + std::visit([](const auto& x) { return Line(x); }, t));
  for (const RequestAnswered& a : effects.answers) out.push_back(absl::StrCat("answer ", StatusLine(a.status)));
  for (const JobNote& n : effects.notes) out.push_back(absl::StrCat("note ", n.kind, ": ", n.text));
  return out;
}

std::vector<std::string> Render(const JobView& view) {
  std::string versions;
  for (const FragmentView& f : view.fragments) {
    absl::StrAppend(&versions, versions.empty() ? "" : " ", "v", f.version.value, " ", f.accepted, "/", f.expected,
                    f.dropped == 0 ? "" : absl::StrCat(" dropped ", f.dropped));
  }
  const BalanceView& b = view.balance;
  return {
      absl::StrCat(view.record.job.value, " ", NameOf(view.record.state), " clock=", view.clock_step,
                   " fragments: ", versions),
      absl::StrCat("unleased=", b.unleased, " leased=", b.leased, " consumed=", b.consumed, " abandoned=", b.abandoned),
      absl::StrCat("alive=", view.alive, " training=", view.training, " participating=", view.participating,
                   view.not_waited_for == 0 ? "" : absl::StrCat(" not waited for=", view.not_waited_for),
                   view.pool == 0 ? "" : absl::StrCat(" pool=", view.pool)),
      absl::StrCat("waiting: ", view.waiting_line)};
}

std::string Render(const WorkerView& view) {
  static const char* const kNames[] = {"idle", "joining",     "training", "draining",
                                       "lost", "quarantined", "silent",   "left"};
  return absl::StrCat(
      view.worker.value, " ", kNames[static_cast<int>(view.state)], " incarnation=", view.incarnation.value,
      " job=", view.job.value, view.connected ? " connected" : "", view.cordoned ? " cordoned" : "",
      view.job.value.empty() && !view.last.waiting_for.empty() ? " waits for " : "",
      view.job.value.empty() ? view.last.waiting_for : "", view.silence.empty() ? "" : absl::StrCat(", ", view.silence),
      view.screened.empty() ? "" : absl::StrCat(", screened: ", view.screened));
}

}  // namespace atl
