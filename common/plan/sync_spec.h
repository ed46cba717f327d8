// SPDX-License-Identifier: Apache-2.0
// How the workers of a job synchronise: outer optimizer, codecs and merge (job_spec.h).
#ifndef ATOLL_COMMON_PLAN_SYNC_SPEC_H_
#define ATOLL_COMMON_PLAN_SYNC_SPEC_H_

#include <cstdint>
#include <tuple>

#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/plan/number_field.h"
#include "common/plan/paced_clock.h"

namespace atl {

enum class OuterKind { kNesterov, kMomentum, kSgd };
struct OuterOptimizerSpec {
  OuterKind kind = OuterKind::kNesterov;
  double learning_rate = 0;  // 0: set at submit from planned workers and outer steps (docs/design.md section 3)
  double momentum = -1;      // < 0: set at submit
};

// In the order of the wire's numbers. common/codec/block_codecs.cc has the form of each.
enum class CodecKind { kFp32, kFp16, kBf16, kInt8, kMxfp4, kE3m0 };
inline constexpr CodecKind kCodecKinds[] = {CodecKind::kFp32, CodecKind::kFp16,  CodecKind::kBf16,
                                            CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};
enum class ErrorMemory { kOff, kFeedback, kLoco };
enum class FragmentPattern { kWhole, kStrided, kSequential, kBalanced };
enum class WeightRule { kUniform, kTokens, kTokensSquaredOverSteps, kShardSize };
enum class Pace { kUniform, kBalanced };
enum class MergeRule { kMean, kTrimmedMean, kMedian, kCenteredClip };

// How the contributions of a round are combined (docs/formats/outer-step.md, "Merge"). Every rule but kMean gives all
// contributions of at least one step the same weight, whatever sync.weights is.
struct MergeSpec {
  MergeRule rule = MergeRule::kMean;
  double trim_share = 0.25;  // kTrimmedMean: share dropped at each end, in [0, 0.5)
  double clip_radius = 1;    // kCenteredClip: relative to the median distance from the median, > 0
};
template <>
inline constexpr auto kNumbers<MergeSpec> =
    std::tuple{NumberField("trim_share", &MergeSpec::trim_share, Bounds::Below(0, 0.5)),
               NumberField("clip_radius", &MergeSpec::clip_radius, Bounds::Above(0, 1000))};

// LoCo's moving average (2407.04480): memory := beta * memory + (1 - beta) * error, cleared every `reset_syncs` syncs.
struct LocoSpec {
  double beta = 0.8;
  uint32_t reset_syncs = 64;
};
template <>
inline constexpr auto kNumbers<LocoSpec> =
    std::tuple{NumberField("beta", &LocoSpec::beta, Bounds::Below(0, 1)),
               NumberField("reset_syncs", &LocoSpec::reset_syncs, Bounds::Within(1, 1'000'000))};

struct SyncSpec {
  uint32_t inner_steps = 100;  // H
  uint32_t overlap_steps = 0;  // tau, 0 <= tau < H
  double mix = 0;              // alpha in [0, 1]: share of own parameters kept in a merge
  FragmentPattern pattern = FragmentPattern::kWhole;
  uint32_t layers_per_fragment = 3;
  CodecKind upload_codec = CodecKind::kFp32;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  ErrorMemory download_error_memory = ErrorMemory::kFeedback;
  LocoSpec loco;  // for directions with error memory kLoco
  WeightRule weights = WeightRule::kTokens;
  MergeSpec merge;
  Pace pace = Pace::kUniform;
  uint32_t quorum = 0;                // contributions that suffice after the grace window; 0: majority of expected
  Duration deadline{};                // of a round's collection; 0: derived, at least membership timeout + grace
  uint32_t max_missed = 3;            // consecutive missed syncs after which a worker takes the outer copy
  uint32_t max_unsynced_periods = 2;  // periods of H that a worker trains at most without an applied update
  uint32_t join_warmup_steps = 0;     // ramp of a joining worker's inner rate; 0: H / 2
  // Caps on each worker's bulk bytes, in addition to the worker's own caps; 0: none.
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};
template <>
inline constexpr auto kNumbers<SyncSpec> = std::tuple{
    NumberField("inner_steps", &SyncSpec::inner_steps, Bounds::Within(1, kLongestPeriodSteps)),
    NumberField("overlap_steps", &SyncSpec::overlap_steps),
    NumberField("mix", &SyncSpec::mix, Bounds::Within(0, 1)),
    NumberField("layers_per_fragment", &SyncSpec::layers_per_fragment, Bounds::Within(1, limits::kLayers)),
    NumberField("quorum", &SyncSpec::quorum),
    NumberField("max_missed", &SyncSpec::max_missed, Bounds::Within(1, 1000)),
    NumberField("max_unsynced_periods", &SyncSpec::max_unsynced_periods, Bounds::Within(1, 1000)),
    NumberField("upload_bytes_per_second", &SyncSpec::upload_bytes_per_second, Bounds::ZeroOr(1000, 1e12)),
    NumberField("download_bytes_per_second", &SyncSpec::download_bytes_per_second, Bounds::ZeroOr(1000, 1e12))};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_SYNC_SPEC_H_
