// SPDX-License-Identifier: Apache-2.0
// Contributions -> merged pseudo-gradient -> outer step -> encoded update, in one pass over a fragment: docs/design.md,
// sections 3 ("Outer step") and 4 ("Aggregation in one pass"); DiLoCo 2311.08105 algorithm 1; LoCo 2407.04480.
//
// An Aggregator owns the state of each fragment of one job: the public copy, the momentum, the download residual (12
// bytes per parameter) and the version. With error feedback, public copy + residual is the virtual master: the result
// of all outer steps without loss by the codec. It is not stored in addition.
//
// Invariants: the result is a function of the set of contributions and the state, not of arrival order, thread count
// or CPU type; a CloseRound that does not commit changes nothing. Thread rule: calls for one fragment must not
// overlap; different fragments may be closed concurrently. Uses no clock, file, socket or log.
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

// Properties of one contribution, computed without other state.
struct ContributionScreen {
  bool finite = true;
  double norm = 0;
  float max_abs = 0;  // norm and max_abs are 0 if not finite
};

// One accepted contribution. `encoded` is borrowed until CloseRound returns.
struct RoundInput {
  WorkerId worker{};
  CodecKind codec = CodecKind::kFp32;
  Bytes encoded{};
  uint64_t tokens = 0;  // tokens trained since the worker's last counted contribution
  uint64_t steps = 0;
  uint64_t shard_samples = 0;                // of the worker's corpus; used only by kShardSize
  double clip_factor = 1;                    // used when a round is recomputed; otherwise the norm gate decides
  std::optional<ContributionScreen> screen;  // of these bytes, if known; otherwise they are read for it
};

struct OuterParameters {
  OuterKind kind = OuterKind::kNesterov;
  double learning_rate = 0;  // rounded once to fp32
  double momentum = 0;       // rounded once to fp32
  WeightRule weights = WeightRule::kTokens;
  MergeSpec merge;
  uint32_t inner_steps = 1;  // H: under kUniform and kShardSize, fewer steps than H weigh in proportion
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory download_error_memory = ErrorMemory::kFeedback;
  LocoSpec loco;  // under kLoco; the residual is cleared at versions divisible by its reset_syncs
};
// From a resolved spec.
OuterParameters OuterParametersOf(const JobSpec& spec);

// The measures of one contribution, in the order of RoundResult::contributions (ascending worker id).
struct ContributionReport {
  WorkerId worker{};
  bool finite = true;
  double weight = 0;       // normalised: all weights sum to 1 (up to rounding in double)
  double clip_factor = 1;  // applied in addition to its weight
  double norm = 0;         // L2 of the decoded contribution
  // Cosine to the merged pseudo-gradient, over at most 64 evenly spread blocks of 4,096 elements. 0
  // if either norm is 0.
  double cosine_to_merged = 0;
  // Cosine to the merge of the other contributions, over the same blocks. None if no other
  // contribution has a weight, or either norm is (nearly) zero. Under rules other than kMean, which
  // exclude outliers themselves, equal to cosine_to_merged.
  std::optional<double> cosine_to_others;
};

struct RoundResult {
  bool committed = false;  // false: contributions must not be merged, and nothing was changed. Only `contributions`
                           // (finite, norm) and some of the next three are set. Close again without those named.
  std::vector<WorkerId> non_finite;
  std::vector<NormVerdict> norms;   // per contribution, with a norm gate: not committed if one is refused
  std::vector<WorkerId> too_large;  // with a norm gate: the worker with the largest values, if they could overflow
  std::vector<ContributionReport> contributions;
  Version reached;             // the current version
  Digest hash;                 // ContentHash(public copy, reached, layout digest)
  RawBytes update;             // h = u + r, the outer step and the residual, in the download codec
  Digest update_digest;        // DigestOf(update)
  double merged_norm = 0;      // L2 of the merged pseudo-gradient
  double outer_step_norm = 0;  // L2 of the outer step u, before codec and residual
  // L2 of the download codec's loss divided by L2 of its input, u + r; 0 if the input is 0. This
  // value and both alignments are taken over at most 64 evenly spread blocks of 4,096 elements.
  double download_error = 0;
  // Cosine of the merged pseudo-gradient to the momentum before this step. While it stays below 0, the momentum
  // carries the outer copy past the workers' direction (the restart criterion of O'Donoghue and Candes,
  // 1204.3982). None if either is zero: without momentum, and in the first step.
  std::optional<double> momentum_alignment;
  // Cosine of u to the previous u. None in the first step after Restore and if either is zero.
  std::optional<double> step_alignment;
};

// Normalised weights in double, in the order of `inputs`: uniform (steps / H, at most 1), tokens, tokens^2 / steps,
// shard_samples x (steps / H, at most 1). A contribution without steps has weight 0. If all weights are 0, all become
// equal. Requires inner_steps >= 1. Empty for no inputs.
std::vector<double> RoundWeights(WeightRule rule, uint32_t inner_steps, std::span<const RoundInput> inputs);
// Makes all nonzero `weights` equal, with sum 1; the others stay 0. For merge rules other than kMean.
std::vector<double> EvenWeights(std::vector<double> weights);

// The outer momentum of a round that ends a job: proportional to the steps of its longest contribution, and
// complete from `inner_steps` >= 1 steps on. After few steps, the complete momentum would carry the parameters
// on without new gradients to correct it (docs/adr/0006-momentum-of-closing-rounds.md).
double ClosingMomentum(double momentum, uint32_t inner_steps, std::span<const RoundInput> inputs);

// A view of a fragment's state, valid until the next CloseRound or Restore of that fragment.
struct FragmentStateView {
  Version version{};
  std::span<const float> public_copy{}, momentum{}, residual{};  // equal lengths, or empty: zeros
};

class Aggregator {
 public:
  // Every fragment is at version 0 with zero parameters; set its state with Restore. Memory: 12
  // bytes x layout.elements, and at most 1 MiB per fragment for step_alignment.
  explicit Aggregator(const ModelLayout& layout);
  ~Aggregator();
  Aggregator(Aggregator&&) noexcept;
  Aggregator& operator=(Aggregator&&) noexcept;

  // Replaces a fragment's state in place; `state` must not be a view of this fragment. Empty
  // momentum or residual means zeros (version 0, or weights without outer state). InvalidArgument
  // on a wrong length or a non-finite value; then nothing is changed.
  absl::Status Restore(FragmentIndex fragment, const FragmentStateView& state);

  // Closes the round that turns `version` into `version` + 1. `inputs` may be in any order; worker ids are
  // distinct. Without inputs (every sync of the round was dropped on purpose) no outer step is taken: momentum
  // and virtual master stay, the update carries the residual of the download codec, and the version grows.
  //
  // `gate`, if given, judges the norms, and its clip factors replace those of the inputs. A merged
  // contribution counts weight x clip factor, rounded once; the clipped part is not redistributed.
  // A rule other than kMean scales a contribution by its clip factor and then weighs all equally.
  //
  // Uses up to `threads` threads of its own during the call. Memory: the update, 32 KiB per thread
  // (a rule other than kMean: 32 KiB more per input), and for each block of 4,096 elements 16 bytes
  // per input and 256 more.
  //
  // InvalidArgument: duplicate worker, wrong encoded size, unusable outer parameters.
  // FailedPrecondition: the fragment is not at `version`. OutOfRange: the step could overflow fp32,
  // and there is no gate or the stored state is the cause. On any error, and if a contribution is
  // not finite (see RoundResult::committed), the state is unchanged to the bit.
  absl::StatusOr<RoundResult> CloseRound(FragmentIndex fragment, Version version, std::span<const RoundInput> inputs,
                                         const OuterParameters& parameters, unsigned threads = 1,
                                         const NormGate* gate = nullptr);

  FragmentStateView State(FragmentIndex fragment) const;
  // As State, for storage: momentum and residual are empty if they are known to be zeros to the bit. That is so
  // at version 0, for the residual of a lossless codec, and for a residual that was cleared.
  FragmentStateView StateWithoutZeros(FragmentIndex fragment) const;
  Version version(FragmentIndex fragment) const;
  // ContentHash of the public copy. After Restore it reads the whole copy.
  Digest Hash(FragmentIndex fragment) const;
  size_t fragments() const;

 private:
  struct Fragment;
  Fragment& At(FragmentIndex fragment);
  const Fragment& At(FragmentIndex fragment) const;
  Digest layout_digest_;
  std::vector<std::unique_ptr<Fragment>> fragments_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_AGGREGATOR_H_
