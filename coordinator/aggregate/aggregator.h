// SPDX-License-Identifier: Apache-2.0
// Contributions -> merged pseudo-gradient -> outer step -> encoded update, in one pass over a fragment: docs/design.md,
// sections 3 ("Outer step") and 4 ("Aggregation in one pass"); DiLoCo 2311.08105 algorithm 1; LoCo 2407.04480.
//
// An Aggregator owns, for each fragment of one job, the public copy, the momentum and the download residual (12 bytes a
// parameter) and the version. There is no other theta: the virtual master is public + residual.
//
// What holds: the result is a function of the set of contributions and of the state, not of arrival order, thread count
// or CPU type; nothing changes unless CloseRound commits. Thread rule: calls for one fragment must not overlap;
// different fragments may be closed at the same time. Knows no clock, file, socket or log.
#ifndef ATOLL_COORDINATOR_AGGREGATE_AGGREGATOR_H_
#define ATOLL_COORDINATOR_AGGREGATE_AGGREGATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/raw_bytes.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "coordinator/aggregate/norm_screen.h"

namespace atl {

// What a contribution says by itself, without any state.
struct ContributionScreen {
  bool finite = true;
  double norm = 0;
  float max_abs = 0;  // norm and max_abs are 0 where not finite
};

// One accepted contribution. `encoded` is borrowed until CloseRound returns.
struct RoundInput {
  WorkerId worker{};
  CodecKind codec = CodecKind::kFp32;
  Bytes encoded{};
  uint64_t tokens = 0;  // behind it, since the worker's last contribution that counted
  uint64_t steps = 0;
  uint64_t shard_samples = 0;                // of the worker's corpus; only kShardSize looks at it
  double clip_factor = 1;                    // of a round that is computed again; with a norm gate it decides
  std::optional<ContributionScreen> screen;  // of these bytes, where it is known; otherwise they are read for it
};

struct OuterParameters {
  OuterKind kind = OuterKind::kNesterov;
  double learning_rate = 0;  // rounded once to fp32
  double momentum = 0;       // rounded once to fp32
  WeightRule weights = WeightRule::kTokens;
  MergeSpec merge;
  uint32_t inner_steps = 1;  // H: under kUniform a contribution of fewer steps weighs steps / H
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory download_error_memory = ErrorMemory::kFeedback;
  LocoSpec loco;  // under kLoco; the residual is cleared at versions that its reset_syncs divides
};
// From a resolved spec.
OuterParameters OuterParametersOf(const JobSpec& spec);

// What was measured of one contribution, in the order of RoundResult::contributions (ascending worker id).
struct ContributionReport {
  WorkerId worker{};
  bool finite = true;
  double weight = 0;       // normalised: all weights sum to 1 (up to rounding in double)
  double clip_factor = 1;  // that it was scaled by beyond its weight
  double norm = 0;         // L2 of the decoded contribution
  // To the merged pseudo-gradient, over at most 64 evenly spread blocks of 4,096 elements. 0 where one of both norms
  // is 0.
  double cosine_to_merged = 0;
  // To what the others' contributions merge to, over the same blocks. None where nobody else has a weight or one of
  // both is (nearly) zero. Under rules other than kMean, which leave out what lies far off by themselves, it is
  // cosine_to_merged.
  std::optional<double> cosine_to_others;
};

struct RoundResult {
  bool committed = false;  // false: contributions may not be merged; nothing was changed, and only `contributions`
                           // (finite, norm) and one of the next three are filled. Close again without them.
  std::vector<WorkerId> non_finite;
  std::vector<NormVerdict> norms;   // of each contribution, with a norm gate: not committed where one is refused
  std::vector<WorkerId> too_large;  // with a norm gate: the merge could overflow with the largest contribution
  std::vector<ContributionReport> contributions;
  Version reached;             // the version now held
  Digest hash;                 // ContentHash(public copy, reached, layout digest)
  RawBytes update;             // q = Q(h) in the download codec
  Digest update_digest;        // DigestOf(update)
  double merged_norm = 0;      // L2 of the merged pseudo-gradient
  double outer_step_norm = 0;  // L2 of u, before codec and residual
  // L2 of what the download codec lost over L2 of what it was given, u + r; 0 for 0. This and both alignments: over at
  // most 64 evenly spread blocks of 4,096 elements.
  double download_error = 0;
  // Cosine of the merged pseudo-gradient to the momentum before this step. Where it stays below 0 the momentum carries
  // the outer copy past where the workers pull it (the restart criterion of O'Donoghue and Candes, 1204.3982). None
  // where one of both is zero: without momentum, in the first step.
  std::optional<double> momentum_alignment;
  // Cosine of u to the u before. None in the first step since Restore and where one of both is zero.
  std::optional<double> step_alignment;
};

// What a contribution says by itself. InvalidArgument when `encoded` has another size than `elements` elements of
// `codec`.
absl::StatusOr<ContributionScreen> ScreenContribution(CodecKind codec, Bytes encoded, uint64_t elements);

// Normalised weights in double, in the order of `inputs`: uniform (steps / H, at most 1), tokens, tokens^2 / steps,
// shard_samples x (steps / H, at most 1).
// Without steps a contribution weighs nothing; where nobody has any weight (a closing round right after a sync) all
// weigh the same. Requires inner_steps >= 1. Empty for no inputs.
std::vector<double> RoundWeights(WeightRule rule, uint32_t inner_steps, std::span<const RoundInput> inputs);
// The same for a merge other than kMean: those with a weight count alike, the others nothing.
std::vector<double> EvenWeights(std::vector<double> weights);

// The outer momentum of a round that ends a job: in proportion to the steps of its longest contribution, whole from
// `inner_steps` >= 1 on. After few steps a whole one would carry the parameters on without new gradients to correct it
// (docs/adr/0006-momentum-of-closing-rounds.md).
double ClosingMomentum(double momentum, uint32_t inner_steps, std::span<const RoundInput> inputs);

// A view of a fragment's state, valid until the next CloseRound or Restore of that fragment.
struct FragmentStateView {
  Version version{};
  std::span<const float> public_copy{}, momentum{}, residual{};  // equal lengths, or empty: zeros
};

class Aggregator {
 public:
  // Every fragment at version 0 with zero parameters; give it its state with Restore. Memory: 12 bytes x
  // layout.elements, and at most 1 MiB a fragment for step_alignment.
  explicit Aggregator(const ModelLayout& layout);
  ~Aggregator();
  Aggregator(Aggregator&&) noexcept;
  Aggregator& operator=(Aggregator&&) noexcept;

  // Replaces a fragment's state, in the memory that holds it; `state` is not a view of this fragment. Empty momentum or
  // residual means zeros (version 0, or weights without outer state).
  // InvalidArgument on a wrong length or a non-finite value; then nothing is changed.
  absl::Status Restore(FragmentIndex fragment, const FragmentStateView& state);

  // Closes the round that turns `version` into `version` + 1. `inputs` may come in any order; worker ids are distinct.
  // Without inputs (every sync of the round was lost on purpose) no outer step is taken: momentum and virtual master
  // stay, the update carries what the download codec owed, the version grows.
  // `gate`, where there is one, judges the norms, and its clip factors take the place of those of the inputs. A merged
  // contribution counts weight x clip factor, rounded once; what is clipped off is not given to the others. A merge
  // other than kMean scales it by its clip factor and then weighs all alike.
  // Uses up to `threads` threads of its own for the duration of the call. Memory: the update, 32 KiB a thread (a merge
  // other than kMean: 32 KiB more for each input), and for each block of 4,096 elements 16 bytes an input and 256 more.
  // InvalidArgument: duplicate worker, wrong encoded size, unusable outer parameters.
  // FailedPrecondition: the fragment is not at `version`. OutOfRange: the step could overflow fp32, and without a gate
  // or by what is held already. On any error, and
  // when a contribution is not finite (see RoundResult::committed), the state is unchanged to the bit.
  absl::StatusOr<RoundResult> CloseRound(FragmentIndex fragment, Version version, std::span<const RoundInput> inputs,
                                         const OuterParameters& parameters, unsigned threads = 1,
                                         const NormGate* gate = nullptr);

  FragmentStateView State(FragmentIndex fragment) const;
  // The same to be kept: momentum and residual are empty where they are known to be all zeros, to the bit. So they are
  // at version 0, and a residual that no codec leaves anything in or that is forgotten.
  FragmentStateView StateWithoutZeros(FragmentIndex fragment) const;
  Version version(FragmentIndex fragment) const;
  // ContentHash of the public copy; of a state that was restored it reads all of it.
  Digest Hash(FragmentIndex fragment) const;
  size_t fragments() const;

 private:
  struct Fragment;
  Fragment& At(FragmentIndex fragment);
  const Fragment& At(FragmentIndex fragment) const;
  Digest layout_digest_;
  std::vector<std::unique_ptr<Fragment>> fragments_;
};

// public_copy += D(update): what every worker does to its outer copy; for replay checks and catch-up.
// InvalidArgument on a wrong size.
absl::Status ApplyEncodedUpdate(CodecKind codec, Bytes update, std::span<float> public_copy);

// Index of the first 4 KiB leaf in which two copies of a fragment differ in bits, or -1: names the block of a replay
// mismatch. Requires equal sizes.
int64_t FirstDifferingLeaf(std::span<const float> a, std::span<const float> b);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_AGGREGATOR_H_
