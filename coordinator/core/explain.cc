// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/explain.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/job_facts.h"
#include "coordinator/core/round_loss.h"

namespace atl {
namespace {

// The clauses that are not empty, as one text.
std::string Joined(std::vector<std::string> clauses) {
  std::erase(clauses, "");
  return absl::StrJoin(clauses, "; ");
}

std::vector<WorkerId> DroppedOf(const Round& round) {
  std::vector<WorkerId> dropped;
  dropped.reserve(round.dropped().size());
  for (const auto& [worker, drop] : round.dropped()) dropped.push_back(worker);
  return dropped;
}

std::string AllThere(const Round& round) {
  const std::string dropped = ListOf(DroppedOf(round));
  if (round.accepted().empty()) return absl::StrCat("every expected sync is dropped: ", dropped);
  return absl::StrCat("all ", round.accepted().size(), " expected contributions are there",
                      round.dropped().empty() ? "" : absl::StrCat("; dropped: ", dropped));
}

// "; 2 are idle; 1 at work for other; start 2 more workers", the last if `lacking` exceeds the idle ones.
std::string OthersLine(const Fleet& fleet, const Run& run, uint32_t lacking) {
  uint32_t idle = 0, busy = 0;
  std::set<std::string> jobs;
  for (const auto& [id, member] : fleet.members()) {
    if (!member.connection() || member.lost() || member.draining() || member.record().evaluate_only) continue;
    if (member.record().cordoned && !member.Assigned()) continue;
    if (member.barred().contains(run.id()) || member.record().job == run.id()) continue;
    if (member.record().job.value.empty()) {
      ++idle;
    } else {
      ++busy;
      jobs.insert(member.record().job.value);
    }
  }
  std::string line;
  if (idle > 0) absl::StrAppend(&line, "; ", idle, idle == 1 ? " is idle" : " are idle");
  if (busy > 0) absl::StrAppend(&line, "; ", busy, " at work for ", absl::StrJoin(jobs, ", "));
  if (idle < lacking)
    absl::StrAppend(&line, "; start ", lacking - idle, idle + busy > 0 ? " more" : "",
                    lacking - idle == 1 ? " worker" : " workers");
  return line;
}

std::string FailuresLine(const Run& run) {
  constexpr size_t kShown = 3;
  std::string line;
  size_t shown = 0;
  for (const auto& [worker, failure] : run.failures) {
    if (shown++ == kShown) break;
    absl::StrAppend(&line, line.empty() ? "" : "; ", "worker ", worker.value, " takes no part: ", failure.why);
  }
  if (run.failures.size() > kShown) absl::StrAppend(&line, "; and ", run.failures.size() - kShown, " more");
  return absl::StrCat(line, "; mend that, then 'atoll job resume ", run.id().value, "'");
}

// Why the worker `ahead` was refused: it has followed a newer state than this coordinator's. Empty: none was.
std::string OlderStateThan(const Fleet::Ahead& ahead, BootNumber boot) {
  if (ahead.boot.value == 0) return "";
  return absl::StrCat("worker ", ahead.worker.value, " has followed boot ", ahead.boot.value,
                      " of a newer state than this one, at ", boot.value,
                      ": start the coordinator on that, or the workers again, which then follow this one");
}

// All quarantined workers, and the cordoned ones without a job, of the whole fleet.
std::string KeptOutLine(const Fleet& fleet) {
  std::vector<WorkerId> quarantined, cordoned;
  for (const auto& [id, member] : fleet.members()) {
    if (!member.record().quarantine.empty()) {
      quarantined.push_back(id);
    } else if (member.record().cordoned && !member.lost() && !member.Assigned()) {
      cordoned.push_back(id);
    }
  }
  if (quarantined.empty() && cordoned.empty()) return "";
  return absl::StrCat(quarantined.empty() ? "" : absl::StrCat(ListOf(quarantined), " quarantined"),
                      quarantined.empty() || cordoned.empty() ? "" : ", ",
                      cordoned.empty() ? "" : absl::StrCat(ListOf(cordoned), " cordoned"), " ('atoll worker readmit')");
}

std::string RoomLine(const Run& run, Instant now) {
  const bool trying = run.retry_at == kNever || run.retry_at <= now;
  return absl::StrCat(run.no_room, trying ? "" : absl::StrCat("; next try in ", SecondsOf(run.retry_at - now)));
}

std::string LinkLine(const Run& run, const Fleet& fleet) {
  constexpr size_t kShown = 2;
  std::string line;
  size_t slow = 0;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost() || member.link_too_slow().empty() || ++slow > kShown) continue;
    absl::StrAppend(&line, line.empty() ? "" : "; ",
                    member.not_waited_for() ? "not waited for: " : "the run is slow: ", member.link_too_slow());
  }
  return slow <= kShown ? line : absl::StrCat(line, "; and ", slow - kShown, " more slow links");
}

std::string FailureLine(const std::map<JobId, Job>& jobs, const WorkerId& worker) {
  for (const auto& [id, job] : jobs) {
    const Run& run = job.run();
    if (HasEnded(run.record.state)) continue;
    const auto failure = run.failures.find(worker);
    if (failure != run.failures.end())
      return absl::StrCat("job ", id.value, ", which it gave up: ", failure->second.why);
  }
  return "";
}

// The fragment whose round the job waits for; none: it runs freely.
std::optional<FragmentIndex> AwaitedFragment(const Run& run, const CoreContext& core) {
  const std::vector<Round>& rounds = run.rounds;
  for (uint32_t p = 0; p < rounds.size(); ++p) {
    if (!rounds[p].closing() && rounds[p].Arrived() > 0) return FragmentIndex{p};
  }
  // A round without contributions is normal, unless no worker trains, the job is ending, or the round is overdue.
  const bool closing = run.record.state == JobState::kClosing;
  for (uint32_t p = 0; p < rounds.size(); ++p) {
    if (rounds[p].closing() || (rounds[p].expected().empty() && closing)) continue;
    const bool late = rounds[p].opened() + DeadlineOf(run, core) <= core.now;
    if (late || closing || core.fleet.TrainingCount(run.id()) == 0) return FragmentIndex{p};
  }
  return std::nullopt;
}

std::string RoundLine(const Run& run, const CoreContext& core, FragmentIndex fragment, Instant now) {
  const Round& round = run.rounds[fragment.value];
  const RoundRule rule = RuleOf(run, core.fleet, fragment);
  const RoundVerdict verdict = round.Decide(rule, core.now);
  std::string who;
  for (const WorkerId& id : round.Missing()) {
    const Member& member = *core.fleet.Find(id);
    const std::string silence = SilenceOf(member, core.options.heartbeat_interval, now);
    const bool waits = silence.empty() && !member.heartbeat().waiting_for.empty();
    absl::StrAppend(&who, who.empty() ? " (" : ", ", id.value, " at step ", member.step(), silence.empty() ? "" : ", ",
                    silence, waits ? ", waits for " : "", waits ? member.heartbeat().waiting_for : "");
  }
  if (!who.empty()) who += ")";
  return absl::StrCat("round ", round.version().value, " of fragment ", fragment.value, ": ",
                      ReasonOf(round, rule, verdict, core.now),
                      verdict.nobody ? WhoMayCome(run, core.fleet, fragment, core.now) : who,
                      verdict.wake != round.deadline() || verdict.wake <= core.now
                          ? ""
                          : absl::StrCat("; next report in ", SecondsOf(verdict.wake - core.now)));
}

// Why the job waits while it has `have` workers, fewer than it needs.
std::string LackingLine(const Run& run, const CoreContext& core, uint32_t have, Instant now) {
  std::vector<WorkerId> lost;
  for (const auto& [id, member] : core.fleet.Of(run.id())) {
    if (member.Trains(run.id()) && member.lost()) lost.push_back(id);
  }
  const bool ahead = now - core.fleet.ahead().at <= core.options.membership_timeout;
  const std::string why =
      Joined({lost.empty() ? "" : absl::StrCat(ListOf(lost), " lost"), run.failures.empty() ? "" : FailuresLine(run),
              KeptOutLine(core.fleet), ahead ? OlderStateThan(core.fleet.ahead(), core.boot) : ""});
  return absl::StrCat(have, " of ", Needed(run), " workers needed", why.empty() ? "" : ": ", why,
                      OthersLine(core.fleet, run, why.empty() ? Needed(run) - have : 0));
}

std::string LeasedLine(const Run& run, const CoreContext& core, Instant now) {
  if (run.pool.Unleased() > 0 || run.record.state != JobState::kRunning) return "";
  return absl::StrCat("all samples of the dataset are leased or used",
                      HoldersLine(run, core.fleet, core.options.heartbeat_interval, now));
}

}  // namespace

std::string ReasonOf(const Round& round, const RoundRule& rule, const RoundVerdict& verdict, Instant now) {
  if (verdict.stage == RoundStage::kMerging) return "is being merged";
  if (verdict.stage == RoundStage::kComplete) return AllThere(round);
  if (verdict.stage == RoundStage::kFlushing) {
    return round.Flushing() == 1
               ? "waits for a contribution that is being written"
               : absl::StrCat("waits for ", round.Flushing(), " contributions that are being written");
  }
  const uint32_t have = round.Arrived();
  const uint32_t quorum = round.Quorum(rule);
  const std::vector<WorkerId> missing = round.Missing();
  if (verdict.stage == RoundStage::kShort) {
    return absl::StrCat("it has ", have, " of the ", quorum, " contributions that it needs",
                        missing.empty() ? "" : absl::StrCat("; missing ", ListOf(missing)));
  }
  const std::string others = missing.empty()
                                 ? absl::StrCat(rule.on_their_way, rule.on_their_way == 1 ? " that has" : " that have",
                                                " been given the job again")
                                 : ListOf(missing);
  if (verdict.stage == RoundStage::kLate) {
    return absl::StrCat("quorum ", have, " of ", quorum, " and the grace window has passed; without ", others);
  }
  return absl::StrCat("quorum ", have, " of ", quorum, " reached; waits ", SecondsOf(verdict.wake - now), " for ",
                      others);
}

std::string WaitingLine(const Run& run, const CoreContext& core, Instant now) {
  if (!run.no_room.empty()) return Joined({core.disk_low ? kDiskLow : "", RoomLine(run, core.now)});
  switch (run.record.state) {
    case JobState::kPending: return "the parameters of version 0 are being made";
    case JobState::kPaused: return run.record.reason;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled: return "";
    case JobState::kWaitingForWorkers:
    case JobState::kRunning:
    case JobState::kClosing: break;
  }
  if (!run.loaded) return "the parameters are being loaded";
  if (core.disk_low) return kDiskLow;
  if (run.record.state == JobState::kClosing && run.ending == Ending::kCheckpoint)
    return "the final checkpoint is being written";
  const auto have = static_cast<uint32_t>(core.fleet.TrainersOf(run.id()).size());
  if (have < Needed(run)) return LackingLine(run, core, have, now);
  if (run.ending == Ending::kEvaluation && run.evaluation.IsPending()) {
    const WorkerId holder = run.evaluation.holder();
    return absl::StrCat("the final evaluation is made by ", holder.value.empty() ? "nobody yet" : holder.value);
  }
  const std::optional<FragmentIndex> awaited = AwaitedFragment(run, core);
  return Joined({run.failures.empty() ? "" : FailuresLine(run), LinkLine(run, core.fleet), StarvedLine(run, core.fleet),
                 LeasedLine(run, core, now), awaited ? RoundLine(run, core, *awaited, now) : ""});
}

std::string WhoMayCome(const Run& run, const Fleet& fleet, FragmentIndex fragment, Instant now) {
  const Round& round = run.rounds[fragment.value];
  std::string line;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    const bool there = member.Trains(run.id()) && !member.lost() && !member.draining() && !member.finished();
    if (!there || round.HasArrived(id)) continue;
    const bool evaluates = run.evaluation.IsWith(id);
    const uint32_t missed = run.misses.Running(fragment, id);
    const bool passed_over = run.PassesOver(fragment, id);
    absl::StrAppend(&line, line.empty() ? "; " : ", ", id.value,
                    round.IsUploading(id) ? " is sending its contribution"
                    : evaluates           ? " makes an evaluation first"
                    : passed_over         ? absl::StrCat(" has missed ", missed, " rounds or deadlines running")
                    : member.stage() == Stage::kTraining ? " takes part from its next send step"
                                                         : " is fetching the job",
                    member.stage() == Stage::kFetching && member.fetch_reports() > 0
                        ? absl::StrCat(" for ", SecondsOf(now - member.fetch_since()))
                        : "");
  }
  return line.empty() ? "; nobody else is expected in it" : line;
}

std::string StarvedLine(const Run& run, const Fleet& fleet) {
  constexpr size_t kShown = 3;
  std::string fragments;
  std::vector<WorkerId> missing;
  size_t starved = 0;
  const uint64_t front = FrontOf(run.Versions());
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    if (!run.IsStarved(FragmentIndex{p}, front)) continue;
    if (starved++ < kShown)
      absl::StrAppend(&fragments, fragments.empty() ? "fragment " : ", fragment ", p, " is at version ",
                      run.rounds[p].version().value);
    for (const auto& [id, member] : fleet.Of(run.id())) {
      if (!member.Trains(run.id()) || member.stage() != Stage::kTraining) continue;
      const bool took_part = run.rounds[p].accepted().contains(id) || run.rounds[p].IsMerged(id);
      if (!took_part && std::find(missing.begin(), missing.end(), id) == missing.end()) missing.push_back(id);
    }
  }
  if (starved == 0) return "";
  if (starved > kShown) absl::StrAppend(&fragments, " and ", starved - kShown, " more");
  return absl::StrCat(fragments, " while others have reached ", front, ": starved of contributions",
                      missing.empty() ? "" : absl::StrCat(", to which ", ListOf(missing), " sent none"));
}

std::string HoldersLine(const Run& run, const Fleet& fleet, Duration heartbeat_interval, Instant now) {
  constexpr size_t kShown = 3;
  const std::set<WorkerId> holders = run.pool.Holders(run.AcceptedCursors());
  std::string line;
  size_t shown = 0;
  for (const WorkerId& id : holders) {
    if (shown++ == kShown) break;
    absl::StrAppend(&line, line.empty() ? "; " : ", ", id.value, " holds ", run.pool.Outstanding(id));
    const Member* member = fleet.Find(id);
    if (member == nullptr) continue;
    const std::string silence = SilenceOf(*member, heartbeat_interval, now);
    const std::string& waits_for = member->heartbeat().waiting_for;
    if (!silence.empty()) {
      absl::StrAppend(&line, " (", silence, ")");
    } else if (!waits_for.empty()) {
      absl::StrAppend(&line, " (waits for ", waits_for, ")");
    }
  }
  if (holders.size() > kShown) absl::StrAppend(&line, " and ", holders.size() - kShown, " more hold some");
  return line;
}

std::string WhyIdle(const std::map<JobId, Job>& jobs, const Fleet& fleet, const Member& member) {
  if (std::string failure = FailureLine(jobs, member.record().worker); !failure.empty()) return failure;
  if (member.record().evaluate_only || member.lost()) return "";
  for (const auto& [id, job] : jobs) {
    const Run& run = job.run();
    const bool full = run.record.state == JobState::kRunning && fleet.TrainersOf(id).size() >= run.MostWorkers();
    if (!full || run.spec->experiment.pool == PoolSchedule::kConstant || run.PoolNow() >= run.spec->workers.max)
      continue;
    return absl::StrCat("its turn in job ", id.value, ", whose pool takes ", run.PoolNow(), " of ",
                        run.spec->workers.planned, " planned workers now");
  }
  return "";
}

std::string HeldAgainst(const Member& member, const Run* run) {
  if (!member.record().quarantine.empty()) return member.record().quarantine;
  if (run == nullptr) return "";
  const ScreensSpec& screens = run->spec->screens;
  return run->strikes.LineOf(member.record().worker, screens.norm == ScreenMode::kEnforce ? screens.strikes : 0);
}

std::string WhyMoved(const Run& from, const Run* to) {
  if (to == nullptr && from.MostWorkers() == from.spec->workers.max) return "the job has more workers than workers.max";
  if (to == nullptr) return absl::StrCat("experiment.pool of the job takes ", from.PoolNow(), " workers now");
  if (to->record.spec.priority > from.record.spec.priority) return "a job of higher priority needs this worker";
  return absl::StrCat("job ", to->id().value, " can go on with this worker, and this job lacks others");
}

std::string DeviationLine(const JobId& job, const FragmentVersion& at) {
  return absl::StrCat(
      "most of its workers come to other bits for fragment ", at.fragment.value, " version ", at.version.value,
      " than the coordinator has published, so that the memory of its machine may be faulty: look at it, "
      "and go back to a checkpoint of before that with 'atoll job rollback ",
      job.value, " --to CHECKPOINT'");
}

std::string NoSuchJobLine(const JobId& job) {
  return absl::StrCat("there is no job jobs/", job.value, "; 'atoll job list' shows those there are");
}

JobNote RoundCommittedNote(const RoundRecord& record) {
  std::vector<WorkerId> contributors;
  uint64_t bytes = 0;
  for (const CommittedContribution& c : record.contributions) {
    contributors.push_back(c.header.worker);
    bytes += c.header.encoded_bytes;
  }
  const std::string members = ListOf(contributors);
  const std::string dropped = record.dropped.empty() ? "" : ListOf(record.dropped);
  const std::vector<WorkerId> bounded = LossesBounded(record);
  const std::string far = bounded.empty() ? "" : ListOf(bounded);
  return {record.job,
          kRoundCommitted,
          Joined({absl::StrCat("version ", record.reached.version.value, " of fragment ", record.reached.fragment.value,
                               " with ", members),
                  dropped.empty() ? "" : absl::StrCat("dropped: ", dropped),
                  far.empty() ? "" : absl::StrCat("loss far above the others', bounded in their mean: ", far)}),
          {{"fragment", absl::StrCat(record.reached.fragment.value)},
           {"version", absl::StrCat(record.reached.version.value)},
           {"epoch", absl::StrCat(record.epoch)},
           {"members", members},
           {"dropped", dropped},
           {"loss_bounded", far},
           {"tokens", absl::StrCat(record.tokens)},
           {"upload_bytes", absl::StrCat(bytes)},
           {"update_bytes", absl::StrCat(record.update_bytes)},
           {"clock_step", absl::StrCat(record.clock_step)},
           {"hash", record.hash.Hex()}}};
}

JobNote StateNote(const JobId& job, JobState state, const std::string& reason) {
  return {job,
          "state",
          absl::StrCat("job ", job.value, " is ", NameOf(state), reason.empty() ? "" : ": ", reason),
          {{"state", NameOf(state)}}};
}

}  // namespace atl
