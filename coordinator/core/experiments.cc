// SPDX-License-Identifier: Apache-2.0
// Applies a job's `experiment` to its rounds and workers (common/plan/experiment.h has the rules):
// syncs dropped on purpose, and a pool of workers that changes over the run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/experiment.h"
#include "coordinator/core/machine.h"

namespace atl {

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

uint32_t Machine::PoolOf(const Run& run) const { return PoolSize(*run.spec, run.StepOf(run.rounds[0].version)); }

uint32_t Machine::LeastWorkers(const Run& run) const { return std::min(run.spec->workers.min, PoolOf(run)); }

uint32_t Machine::MostWorkers(const Run& run) const { return std::min(run.spec->workers.max, PoolOf(run)); }

std::string Machine::WhyTooMany(const Run& run) const {
  if (MostWorkers(run) == run.spec->workers.max) return "the job has more workers than workers.max";
  return absl::StrCat("experiment.pool of the job takes ", PoolOf(run), " workers now");
}

std::string Machine::WhyIdle(const Member& member) const {
  if (std::string failure = FailureOf(member.record.worker); !failure.empty()) return failure;
  if (member.record.evaluate_only || member.lost) return "";
  for (const auto& [id, run] : runs_) {
    const bool full = run.record.state == JobState::kRunning && Workers(run).size() >= MostWorkers(run);
    if (!full || run.spec->experiment.pool == PoolSchedule::kConstant || PoolOf(run) >= run.spec->workers.max) continue;
    return absl::StrCat("its turn in job ", id.value, ", whose pool takes ", PoolOf(run), " of ",
                        run.spec->workers.planned, " planned workers now");
  }
  return "";
}

}  // namespace atl
