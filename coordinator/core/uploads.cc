// SPDX-License-Identifier: Apache-2.0
// Incoming contributions: decides offers and acceptances. Syncs that an experiment drops on purpose.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/plan/boot_lines.h"
#include "common/plan/experiment.h"
#include "common/plan/limits.h"
#include "coordinator/core/lateness.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

absl::Status CheckSender(const Run& run, const Fleet& fleet, const ContributionHeader& header) {
  const Member* member = fleet.Find(header.worker);
  if (member != nullptr && !member->record().quarantine.empty())
    return absl::FailedPreconditionError(QuarantineLine(member->record()));
  if (member == nullptr || member->record().incarnation != header.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation ", header.incarnation.value, " of worker ",
                                                      header.worker.value, " is void: say hello again"));
  }
  if (!member->Trains(run.id())) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", header.worker.value, " is not assigned to train job ", run.id().value));
  }
  if (member->stage() != Stage::kTraining)
    return absl::UnavailableError("the worker has not said that it is ready since its assignment; ask again");
  if (!run.Gathers())
    return LateError(absl::StrCat("job ", run.id().value, " gathers nothing now (", NameOf(run.record.state), ")"));
  return absl::OkStatus();
}

absl::Status CheckCursors(const Run& run, CoreContext& core, const ContributionHeader& header) {
  const Member& member = *core.fleet.Find(header.worker);
  std::set<LeaseId> named;
  for (const LeaseCursor& c : header.cursors) {
    if (!named.insert(c.lease).second)
      return absl::InvalidArgumentError(absl::StrCat("lease ", c.lease.value, " is named twice"));
  }
  std::vector<LeaseId> taken_back;
  for (const LeaseCursor& c : header.cursors) {
    const LeaseRecord* lease = run.pool.Find(c.lease);
    if (c.lease.value == 0 || c.lease.value >= core.counters.next_lease)
      return absl::InvalidArgumentError(absl::StrCat("there is no lease ", c.lease.value));
    if (c.lease < member.record().leases_from ||
        (lease != nullptr && (lease->revoked || lease->worker != header.worker))) {
      taken_back.push_back(c.lease);
    } else if (lease != nullptr && (c.cursor < lease->range.begin || c.cursor > lease->range.end)) {
      return absl::InvalidArgumentError(absl::StrCat("cursor ", c.cursor, " is outside lease ", c.lease.value,
                                                     " of samples [", lease->range.begin, ", ", lease->range.end, ")"));
    }
  }
  if (taken_back.empty()) return absl::OkStatus();
  core.SendTo(member, LeaseRevoked{run.id(), taken_back, "these leases were taken back"});
  return absl::FailedPreconditionError(
      absl::StrCat("lease ", taken_back.front().value, " was taken back: the work on it cannot be contributed"));
}

absl::Status CheckContent(const Run& run, CoreContext& core, const ContributionHeader& header) {
  if (header.codec != run.spec->sync.upload_codec)
    return absl::InvalidArgumentError("the contribution is in another codec than sync.upload_codec of the job");
  if (run.record.state == JobState::kRunning && DropsSync(*run.spec, header.worker, header.target))
    return absl::FailedPreconditionError("the job loses this sync on purpose (experiment.drop_sync_probability)");
  const Round& round = run.rounds[header.target.fragment.value];
  const uint32_t tail = round.TailOf(header.worker);
  if (round.past_finished() && tail >= run.TailLimit(header.worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat("others have nothing left to train, and this worker had ", tail,
                     " contributions to the fragment merged since: no worker holds samples for more"));
  }
  if (header.steps == 0 || header.tokens == 0)
    return absl::InvalidArgumentError("a contribution needs at least one inner step and one token behind it");
  if (header.steps > limits::kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat("a contribution claims ", header.steps, " inner steps; at most ",
                                                   limits::kMostSteps, " are behind one"));
  }
  const uint64_t step_tokens = uint64_t{run.spec->batch.sequences_per_step} * run.spec->data.sequence_length;
  if ((header.tokens - 1) / step_tokens >= header.steps) {
    return absl::InvalidArgumentError(absl::StrCat("a contribution claims ", header.tokens, " tokens of ", header.steps,
                                                   " inner steps; a step of this job has ", step_tokens));
  }
  ATOLL_RETURN_IF_ERROR(CheckCursors(run, core, header));
  return run.claims.Check(header, run.CoverageOf(header));
}

}  // namespace

void Machine::On(const UploadOffered& e) {
  UploadVerdict verdict;
  const auto& [header, boot] = e.contribution;
  if (boot > core_.boot) {
    verdict.status = absl::FailedPreconditionError(
        absl::StrCat("the worker has seen boot ", boot.value, " of this coordinator, which is at boot ",
                     core_.boot.value, ": it serves an older copy of its state directory"));
  } else if (LineOf(boot) != LineOf(core_.boot)) {
    verdict.status = absl::FailedPreconditionError(
        "the contribution comes from before this coordinator's state was restored from a backup: say hello again");
  } else if (Job* const job = Find(header.job)) {
    verdict = job->Offer(e);
  } else {
    verdict.status = absl::NotFoundError(absl::StrCat("no job is named ", header.job.value));
  }
  verdict.upload = e.upload;
  core_.out.verdicts.push_back(std::move(verdict));
}

UploadVerdict Job::Offer(const UploadOffered& e) {
  const ContributionHeader& header = e.contribution.header;
  const auto refuse = [](absl::Status status) { return UploadVerdict{.status = std::move(status)}; };
  if (header.target.fragment.value >= run_.rounds.size()) {
    return refuse(
        absl::InvalidArgumentError(absl::StrCat("job ", header.job.value, " has ", run_.rounds.size(),
                                                " fragments; there is no fragment ", header.target.fragment.value)));
  }
  if (HasEnded(run_.record.state)) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat("job ", header.job.value, " has ended: ", NameOf(run_.record.state))));
  }
  Round& round = run_.rounds[header.target.fragment.value];
  if (auto known = round.Judge(header)) return *known;
  if (absl::Status status = CheckSender(run_, core_.fleet, header); !status.ok()) return refuse(std::move(status));
  if (absl::Status status = CheckContent(run_, core_, header); !status.ok()) return refuse(std::move(status));
  if (core_.disk_low) return refuse(absl::ResourceExhaustedError(kDiskLow));
  // A newer upload of the worker to this round supersedes the older one.
  const Round::Offered offered = round.Offer(e.upload, header);
  if (offered.superseded)
    core_.Verdict(*offered.superseded, UploadDecision::kRefused,
                  absl::AbortedError("superseded by a newer upload of this worker"));
  return {.decision = UploadDecision::kGranted, .replaces = offered.replaces};
}

void Job::On(const UploadFinished& e) {
  Round* const round = run_.RoundOf(e.upload);
  const Contribution* const sent = round == nullptr ? nullptr : round->Sent(e.upload);
  if (sent == nullptr || sent->flushing) return;
  const ContributionHeader& header = sent->header;
  if (absl::Status status = CheckCursors(run_, core_, header); !status.ok()) {
    round->Break(e.upload);
    return core_.Verdict(e.upload, UploadDecision::kRefused, std::move(status));
  }
  round->Finish(header.worker);
  core_.out.tasks.push_back(FlushAcceptance{e.upload});
}

void Job::On(const ContributionDurable& e) {
  Round* const round = run_.RoundOf(e.upload);
  if (round != nullptr && round->Durable(e.upload, core_.now))
    core_.Verdict(e.upload, UploadDecision::kAccepted, absl::OkStatus());
}

void Job::On(const UploadBroken& e) {
  if (Round* const round = run_.RoundOf(e.upload)) round->Break(e.upload);
}

void Job::Hear(Member& member, const SyncDropped& message) {
  if (run_.record.state != JobState::kRunning) return;
  const WorkerId& id = member.record().worker;
  if (message.target.fragment.value >= run_.rounds.size() || !member.Trains(run_.id())) return;
  // A dropped sync is excused only if the job's own random draw drops it.
  if (!DropsSync(*run_.spec, id, message.target)) return;
  Round& round = run_.rounds[message.target.fragment.value];
  if (round.DropSync(message.target.version, id, message.send_step, core_.now))
    member.ReachedAtLeast(message.send_step);
}

void Job::DropUploads(const WorkerId* worker, const absl::Status& why) {
  RefuseUploads([worker](Round& round) { return round.DropUploads(worker); }, why);
}

void Job::RefuseUploads(const std::function<std::vector<UploadId>(Round&)>& end, const absl::Status& why) {
  std::vector<UploadId> ended;
  for (Round& round : run_.rounds) {
    for (const UploadId id : end(round)) ended.push_back(id);
  }
  std::sort(ended.begin(), ended.end());
  for (const UploadId id : ended) core_.Verdict(id, UploadDecision::kRefused, why);
}

}  // namespace atl
