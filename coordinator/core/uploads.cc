// SPDX-License-Identifier: Apache-2.0
// Incoming contributions: decides offers and acceptances. Syncs that an experiment drops on purpose.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/plan/boot_lines.h"
#include "common/plan/experiment.h"
#include "common/plan/limits.h"
#include "coordinator/core/explain.h"
#include "coordinator/core/lateness.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

absl::Status Late(Version version) {
  return LateError(absl::StrCat("version ", version.value + 1,
                                " is committed or being made; contribute against the newest version"));
}

// Decides from an existing contribution with the same key; none if there is none.
std::optional<Judgement> JudgeKey(const Run& run, const ContributionHeader& header) {
  const auto refuse = [](absl::Status status) { return Judgement{UploadDecision::kRefused, std::move(status)}; };
  const Round& round = run.rounds[header.target.fragment.value];
  const auto accepted = round.accepted.find(header.worker);
  if (header.target.version == round.version && accepted != round.accepted.end()) {
    const Digest first = accepted->second.header.digest;
    if (first == header.digest) return Judgement{UploadDecision::kAccepted, absl::OkStatus()};
    return refuse(absl::AlreadyExistsError(absl::StrCat("this worker's contribution with digest ", first.Hex(),
                                                        " is accepted; the work goes into the next version")));
  }
  const auto& newest = run.committed[header.target.fragment.value];
  const auto committed = newest.find(header.worker);
  if (committed != newest.end() && committed->second.target == header.target &&
      committed->second.digest == header.digest) {
    return Judgement{UploadDecision::kAccepted, absl::OkStatus()};
  }
  if (header.target.version < round.version) return refuse(Late(header.target.version));
  if (header.target.version > round.version) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat("version ", header.target.version.value, " does not exist; the newest is ", round.version.value)));
  }
  if (round.closing) return refuse(Late(round.version));
  const auto screened = round.screened.find(header.worker);
  if (screened != round.screened.end() && screened->second == header.digest) {
    return refuse(absl::FailedPreconditionError("the screens have refused this contribution; form another one"));
  }
  for (const auto& [id, upload] : run.uploads) {
    if (!upload.flushing || upload.header.worker != header.worker || upload.header.target != header.target) continue;
    return refuse(absl::UnavailableError("a contribution of this worker is being written; ask again"));
  }
  return std::nullopt;
}

}  // namespace

void Machine::On(const UploadOffered& e) {
  const Judgement judgement = JudgeOffer(e);
  if (judgement.decision == UploadDecision::kGranted) {
    Run& run = *Find(e.header.job);
    // A newer conversation for the same key supersedes the older one.
    for (auto it = run.uploads.begin(); it != run.uploads.end();) {
      const ContributionHeader& h = it->second.header;
      const bool same = h.worker == e.header.worker && h.target == e.header.target && !it->second.flushing;
      if (same)
        Verdict(it->first, UploadDecision::kRefused, absl::AbortedError("superseded by a newer upload of this worker"));
      it = same ? run.uploads.erase(it) : std::next(it);
    }
    run.uploads.emplace(e.upload, Upload{e.header});
  }
  Verdict(e.upload, judgement.decision, judgement.status);
  if (judgement.decision != UploadDecision::kGranted) return;
  const auto& screened = Find(e.header.job)->rounds[e.header.target.fragment.value].screened;
  if (const auto it = screened.find(e.header.worker); it != screened.end()) out_.verdicts.back().replaces = it->second;
}

Judgement Machine::JudgeOffer(const UploadOffered& e) {
  const ContributionHeader& header = e.header;
  const auto refuse = [](absl::Status status) { return Judgement{UploadDecision::kRefused, std::move(status)}; };
  if (e.boot > boot_) {
    return refuse(absl::FailedPreconditionError(absl::StrCat("the worker has seen boot ", e.boot.value,
                                                             " of this coordinator, which is at boot ", boot_.value,
                                                             ": it serves an older copy of its state directory")));
  }
  if (LineOf(e.boot) != LineOf(boot_)) {
    return refuse(absl::FailedPreconditionError(
        "the contribution comes from before this coordinator's state was restored from a backup: say hello again"));
  }
  Run* run = Find(header.job);
  if (run == nullptr) return refuse(absl::NotFoundError(absl::StrCat("no job is named ", header.job.value)));
  if (header.target.fragment.value >= run->rounds.size()) {
    return refuse(
        absl::InvalidArgumentError(absl::StrCat("job ", header.job.value, " has ", run->rounds.size(),
                                                " fragments; there is no fragment ", header.target.fragment.value)));
  }
  if (HasEnded(run->record.state)) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat("job ", header.job.value, " has ended: ", NameOf(run->record.state))));
  }
  if (auto known = JudgeKey(*run, header)) return *known;
  if (absl::Status status = CheckSender(*run, header); !status.ok()) return refuse(std::move(status));
  if (absl::Status status = CheckContent(*run, header); !status.ok()) return refuse(std::move(status));
  if (disk_low_) {
    return refuse(absl::ResourceExhaustedError(kDiskLow));
  }
  return {UploadDecision::kGranted, absl::OkStatus()};
}

absl::Status Machine::CheckSender(const Run& run, const ContributionHeader& header) const {
  const Member* member = fleet_.Find(header.worker);
  if (member != nullptr && !member->record.quarantine.empty()) {
    return absl::FailedPreconditionError(QuarantineLine(member->record));
  }
  if (member == nullptr || member->record.incarnation != header.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation ", header.incarnation.value, " of worker ",
                                                      header.worker.value, " is void: say hello again"));
  }
  if (!member->Trains(run.id())) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", header.worker.value, " is not assigned to train job ", run.id().value));
  }
  if (member->stage != Stage::kTraining) {
    return absl::UnavailableError("the worker has not said that it is ready since its assignment; ask again");
  }
  if (!run.Gathers()) {
    return LateError(absl::StrCat("job ", run.id().value, " gathers nothing now (", NameOf(run.record.state), ")"));
  }
  return absl::OkStatus();
}

absl::Status Machine::CheckContent(const Run& run, const ContributionHeader& header) {
  if (header.codec != run.spec->sync.upload_codec) {
    return absl::InvalidArgumentError("the contribution is in another codec than sync.upload_codec of the job");
  }
  if (run.record.state == JobState::kRunning && DropsSync(*run.spec, header.worker, header.target)) {
    return absl::FailedPreconditionError("the job loses this sync on purpose (experiment.drop_sync_probability)");
  }
  const auto& tails = run.tails[header.target.fragment.value];
  const auto tail = tails.find(header.worker);
  if (run.rounds[header.target.fragment.value].past_finished && tail != tails.end() &&
      tail->second >= run.TailLimit(header.worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat("others have nothing left to train, and this worker had ", tail->second,
                     " contributions to the fragment merged since: no worker holds samples for more"));
  }
  if (header.steps == 0 || header.tokens == 0) {
    return absl::InvalidArgumentError("a contribution needs at least one inner step and one token behind it");
  }
  if (header.steps > limits::kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat("a contribution claims ", header.steps, " inner steps; at most ",
                                                   limits::kMostSteps, " are behind one"));
  }
  const uint64_t step_tokens = uint64_t{run.spec->batch.sequences_per_step} * run.spec->data.sequence_length;
  if ((header.tokens - 1) / step_tokens >= header.steps) {
    return absl::InvalidArgumentError(absl::StrCat("a contribution claims ", header.tokens, " tokens of ", header.steps,
                                                   " inner steps; a step of this job has ", step_tokens));
  }
  ATOLL_RETURN_IF_ERROR(CheckCursors(run, header));
  return run.claims.Check(header, run.CoverageOf(header));
}

absl::Status Machine::CheckCursors(const Run& run, const ContributionHeader& header) {
  const Member& member = *fleet_.Find(header.worker);
  std::set<LeaseId> named;
  for (const LeaseCursor& c : header.cursors) {
    if (!named.insert(c.lease).second)
      return absl::InvalidArgumentError(absl::StrCat("lease ", c.lease.value, " is named twice"));
  }
  std::vector<LeaseId> taken_back;
  for (const LeaseCursor& c : header.cursors) {
    const LeaseRecord* lease = run.pool.Find(c.lease);
    if (c.lease.value == 0 || c.lease.value >= counters_.next_lease) {
      return absl::InvalidArgumentError(absl::StrCat("there is no lease ", c.lease.value));
    }
    if (c.lease < member.record.leases_from ||
        (lease != nullptr && (lease->revoked || lease->worker != header.worker))) {
      taken_back.push_back(c.lease);
    } else if (lease != nullptr && (c.cursor < lease->range.begin || c.cursor > lease->range.end)) {
      return absl::InvalidArgumentError(absl::StrCat("cursor ", c.cursor, " is outside lease ", c.lease.value,
                                                     " of samples [", lease->range.begin, ", ", lease->range.end, ")"));
    }
  }
  if (taken_back.empty()) return absl::OkStatus();
  SendTo(member, LeaseRevoked{run.id(), taken_back, "these leases were taken back"});
  return absl::FailedPreconditionError(
      absl::StrCat("lease ", taken_back.front().value, " was taken back: the work on it cannot be contributed"));
}

void Machine::On(const UploadFinished& e) {
  for (auto& [id, run] : runs_) {
    const auto it = run.uploads.find(e.upload);
    if (it == run.uploads.end() || it->second.flushing) continue;
    const absl::Status status = CheckCursors(run, it->second.header);
    if (!status.ok()) {
      Verdict(e.upload, UploadDecision::kRefused, status);
      run.uploads.erase(it);
      return;
    }
    it->second.flushing = true;
    out_.tasks.push_back(FlushAcceptance{e.upload});
    return;
  }
}

void Machine::On(const ContributionDurable& e) {
  for (auto& [id, run] : runs_) {
    const auto it = run.uploads.find(e.upload);
    if (it == run.uploads.end() || !it->second.flushing) continue;
    const ContributionHeader header = std::move(it->second.header);
    run.uploads.erase(it);
    run.rounds[header.target.fragment.value].accepted.insert_or_assign(header.worker, Arrival{header, now_});
    Verdict(e.upload, UploadDecision::kAccepted, absl::OkStatus());
    return;
  }
}

void Machine::On(const UploadBroken& e) {
  for (auto& [id, run] : runs_) {
    const auto it = run.uploads.find(e.upload);
    if (it != run.uploads.end() && !it->second.flushing) run.uploads.erase(it);
  }
}

void Machine::Hear(Member& member, const SyncDropped& message) {
  Run* run = RunOf(member);
  if (run == nullptr || message.job != run->id() || run->record.state != JobState::kRunning) return;
  const WorkerId& id = member.record.worker;
  if (message.target.fragment.value >= run->rounds.size() || !member.Trains(run->id())) return;
  Round& round = run->rounds[message.target.fragment.value];
  // Only the job's own draw excuses a worker.
  const bool open = !round.closing && round.version == message.target.version && !round.accepted.contains(id);
  if (!open || !DropsSync(*run->spec, id, message.target)) return;
  member.step = std::max(member.step, message.send_step);
  round.dropped.try_emplace(id, Drop{message.send_step, now_});
}

void Machine::DropUploads(Run& run, const WorkerId* worker, const absl::Status& why) {
  for (auto it = run.uploads.begin(); it != run.uploads.end();) {
    const bool drop = !it->second.flushing && (worker == nullptr || it->second.header.worker == *worker);
    if (drop) Verdict(it->first, UploadDecision::kRefused, why);
    it = drop ? run.uploads.erase(it) : std::next(it);
  }
}

}  // namespace atl
