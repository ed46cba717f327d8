// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/pace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/machine.h"

namespace atl {

uint32_t BalancedSteps(uint32_t inner_steps, Duration step, Duration fastest) {
  ATOLL_CHECK(inner_steps >= 1 && step.ns > 0 && fastest.ns > 0, "a pace is made of measured steps");
  // At most 10^6 steps of at most 3.6 x 10^12 ns: the product fits 63 bits.
  const int64_t steps = int64_t{inner_steps} * std::min(step, fastest).ns / step.ns;
  return static_cast<uint32_t>(std::max<int64_t>(1, steps));
}

bool WorthChanging(uint32_t present, uint32_t wanted) {
  const uint64_t apart = present > wanted ? present - wanted : wanted - present;
  return apart * 8 > present;
}

Duration ClockPace(Duration period, uint32_t inner_steps) { return Duration{period.ns / std::max(1u, inner_steps)}; }

uint64_t StepByNow(uint64_t step, Duration since, Duration pace, Duration most) {
  if (pace.ns <= 0 || since.ns < 0 || since > most) return step;
  return step + static_cast<uint64_t>((since.ns + pace.ns - 1) / pace.ns);
}

// Called at each heartbeat of the worker, which contains its pace: no state must survive a restart,
// and a lost message is sent again.
void Machine::BalancePace(const Run& run, Member& member) {
  const bool paced = run.spec->sync.pace == Pace::kBalanced && run.Gathers() && member.Trains(run.id()) &&
                     member.stage() == Stage::kTraining;
  if (!paced || member.heartbeat().step_ns <= 0 || member.heartbeat().period_steps == 0) return;
  Duration fastest{member.heartbeat().step_ns};
  for (const auto& [id, other] : core_.fleet.Of(run.id())) {
    const bool counts =
        other.Trains(run.id()) && !other.lost() && !other.draining() && other.stage() == Stage::kTraining;
    if (counts && other.heartbeat().step_ns > 0) fastest = std::min(fastest, Duration{other.heartbeat().step_ns});
  }
  const uint32_t present = member.heartbeat().period_steps;
  const uint32_t wanted = BalancedSteps(run.inner_steps(), Duration{member.heartbeat().step_ns}, fastest);
  if (!WorthChanging(present, wanted)) return;
  core_.SendTo(member, PaceAssigned{run.id(), wanted});
  if (!member.NotePace(wanted)) return;
  core_.Note(
      run.id(), "pace",
      absl::StrCat("worker ", member.record().worker.value, " takes ", wanted, " of ", run.inner_steps(),
                   " steps a period, ", present, " before: its step takes ", member.heartbeat().step_ns / 1'000'000,
                   " ms, the fastest worker's ", fastest.ns / 1'000'000, " ms"),
      {{"worker", member.record().worker.value}, {"steps", absl::StrCat(wanted)}});
}

}  // namespace atl
