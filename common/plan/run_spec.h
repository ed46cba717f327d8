// SPDX-License-Identifier: Apache-2.0
// The course of a job: its workers, end, evaluations, checkpoints and screens (job_spec.h).
#ifndef ATOLL_COMMON_PLAN_RUN_SPEC_H_
#define ATOLL_COMMON_PLAN_RUN_SPEC_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/hash.h"
#include "common/plan/limits.h"
#include "common/plan/number_field.h"

namespace atl {

struct WorkersSpec {
  uint32_t min = 1;
  uint32_t max = 64;
  uint32_t planned = 0;  // expected number: for outer defaults, stop.tokens and experiment.pool; 0: min
};
template <>
inline constexpr auto kNumbers<WorkersSpec> =
    std::tuple{NumberField("min", &WorkersSpec::min, Bounds::Within(1, limits::kWorkers)),
               NumberField("planned", &WorkersSpec::planned)};

// The run ends at the first rule met; at least one is set.
struct StopSpec {
  uint64_t inner_steps = 0;  // job clock
  uint64_t tokens = 0;       // consumed tokens
};
template <>
inline constexpr auto kNumbers<StopSpec> =
    std::tuple{NumberField("inner_steps", &StopSpec::inner_steps, Bounds::Within(0, kMaxSteps)),
               NumberField("tokens", &StopSpec::tokens, Bounds::Within(0, 0x1p60))};

// A file of examples that evaluations score (docs/formats/eval-tasks.md).
struct EvaluationTaskSpec {
  std::string name;       // unique in the job; for people and metrics
  Sha256 file;            // blob, stored at submit
  uint32_t examples = 0;  // number scored, from the first; 0: all, replaced by their number at submit
};

struct EvaluationSpec {
  uint32_t every_rounds = 0;    // outer steps of fragment 0 between evaluations; 0: only first and last
  uint64_t max_tokens = 65536;  // held-out tokens read by one evaluation
  std::vector<EvaluationTaskSpec> tasks;
  uint32_t tasks_every_rounds = 0;  // like every_rounds, for evaluations that also score the tasks
};
template <>
inline constexpr auto kNumbers<EvaluationSpec> = std::tuple{
    NumberField("every_rounds", &EvaluationSpec::every_rounds), NumberField("max_tokens", &EvaluationSpec::max_tokens),
    NumberField("tasks_every_rounds", &EvaluationSpec::tasks_every_rounds)};

struct CheckpointSpec {
  uint32_t every_rounds = 0;        // 0: only the final one
  uint32_t keep_last = 3;           // at least 1
  uint32_t keep_every = 0;          // keeps also every n-th permanently; 0: none
  bool keep_contributions = false;  // round logs are not dropped after snapshots (replay)
};
template <>
inline constexpr auto kNumbers<CheckpointSpec> =
    std::tuple{NumberField("every_rounds", &CheckpointSpec::every_rounds),
               NumberField("keep_last", &CheckpointSpec::keep_last, Bounds::Within(1, 10'000)),
               NumberField("keep_every", &CheckpointSpec::keep_every),
               NumberField("keep_contributions", &CheckpointSpec::keep_contributions)};

// Deliberate disturbances of a run, to measure their cost.
enum class PoolSchedule { kConstant, kDoubling, kHalving, kRampUp, kRampDown };
struct ExperimentSpec {
  double drop_sync_probability = 0;  // share of each worker's syncs, at least 0 and below 1; see experiment.h
  PoolSchedule pool = PoolSchedule::kConstant;  // number of planned workers that take part, over the job clock
};
template <>
inline constexpr auto kNumbers<ExperimentSpec> =
    std::tuple{NumberField("drop_sync_probability", &ExperimentSpec::drop_sync_probability, Bounds::Below(0, 1))};

// How the norm of a contribution is judged (docs/screens.md). Values that are not finite or could
// overflow are refused in every mode.
enum class ScreenMode { kReport, kClip, kEnforce };
struct ScreensSpec {
  ScreenMode norm = ScreenMode::kEnforce;
  double clip_above = 3;     // norm per step over the running median; a larger norm is scaled down (not in kReport)
  double refuse_above = 10;  // same ratio; above it a contribution is refused, its worker quarantined (kEnforce only)
  uint32_t strikes = 3;      // consecutive clipped contributions to one fragment that quarantine the worker
};
template <>
inline constexpr auto kNumbers<ScreensSpec> =
    std::tuple{NumberField("clip_above", &ScreensSpec::clip_above, Bounds::Above(1, 1e6)),
               NumberField("refuse_above", &ScreensSpec::refuse_above),
               NumberField("strikes", &ScreensSpec::strikes, Bounds::Within(1, 1000))};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_RUN_SPEC_H_
