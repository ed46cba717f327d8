// SPDX-License-Identifier: Apache-2.0
#include "common/plan/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/job_validation.h"

namespace atl {
namespace {

// Returns the part of [begin, end) before `step`, in [0, 1].
double Progress(uint64_t step, uint64_t begin, uint64_t end) {
  if (step <= begin) return 0;
  if (step >= end) return 1;
  return static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

uint64_t WsdDecaySteps(const ScheduleSpec& schedule) {
  const uint64_t wanted =
      schedule.decay_steps > 0 ? schedule.decay_steps : std::max<uint64_t>(1, schedule.total_steps / 5);
  return std::min(wanted, schedule.total_steps);
}

// The learning rate at a step after the warm-up, as a share of the peak.
double Ratio(const ScheduleSpec& schedule, uint64_t step) {
  const uint64_t begin = std::min(schedule.warmup_steps, schedule.total_steps);
  const double fall = 1.0 - schedule.final_ratio;
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return 1.0;
    case ScheduleKind::kCosine: {
      constexpr double kPi = 3.14159265358979323846;
      const double progress = Progress(step, begin, schedule.total_steps);
      return schedule.final_ratio + fall * 0.5 * (1.0 + std::cos(kPi * progress));
    }
    case ScheduleKind::kLinear: return 1.0 - fall * Progress(step, begin, schedule.total_steps);
    case ScheduleKind::kWsd:
      return 1.0 - fall * Progress(step, schedule.total_steps - WsdDecaySteps(schedule), schedule.total_steps);
  }
  ATOLL_CHECK(false, "a schedule of no known kind");
}

}  // namespace

double LearningRateAt(const InnerOptimizerSpec& inner, uint64_t step) {
  const ScheduleSpec& schedule = inner.schedule;
  ATOLL_CHECK(schedule.total_steps >= 1, "the schedule's length is not resolved");
  if (step < schedule.warmup_steps) {
    return inner.learning_rate * (static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps));
  }
  return inner.learning_rate * Ratio(schedule, step);
}

double JoinRamp(uint64_t steps_since_fetch, uint32_t join_warmup_steps) {
  if (steps_since_fetch >= join_warmup_steps) return 1.0;
  return static_cast<double>(steps_since_fetch + 1) / static_cast<double>(join_warmup_steps);
}

std::string ScheduleMismatch(const JobSpec& spec) {
  const ScheduleSpec& schedule = spec.inner.schedule;
  const uint64_t planned = PlannedInnerSteps(spec);
  if (schedule.warmup_steps >= planned && schedule.warmup_steps > 0) {
    return absl::StrCat("inner_optimizer.schedule.warmup_steps ", schedule.warmup_steps,
                        ": the stop rule ends the job at step ", planned,
                        ", while the learning rate still rises; give a shorter warm-up or a longer run");
  }
  if (schedule.kind == ScheduleKind::kConstant || schedule.total_steps == 0 || schedule.total_steps == planned)
    return "";
  if (schedule.total_steps > planned) {
    return absl::StrCat(
        "inner_optimizer.schedule.total_steps ", schedule.total_steps, ": the stop rule ends the job at step ", planned,
        ", before the learning rate has decayed to its final value; with ", planned, " it would decay until the end");
  }
  return absl::StrCat("inner_optimizer.schedule.total_steps ", schedule.total_steps,
                      ": the learning rate stays at its final value for the ", planned - schedule.total_steps,
                      " steps before the stop rule at step ", planned, "; with ", planned,
                      " it would decay until the end");
}

}  // namespace atl
