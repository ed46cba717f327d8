// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/aggregator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/content_root.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/round_pass.h"

namespace atl {
namespace {

// Leaves room below the largest fp32 for rounding errors that the bound does not include.
constexpr double kLargest = 3e38;

absl::Status CheckParameters(const OuterParameters& p) {
  if (!std::isfinite(p.learning_rate) || p.learning_rate < 0 || p.learning_rate > 1e6) {
    return absl::InvalidArgumentError(
        absl::StrCat("outer learning rate is ", p.learning_rate, "; it must be between 0 and 1e6"));
  }
  if (!std::isfinite(p.momentum) || p.momentum < 0 || p.momentum >= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("outer momentum is ", p.momentum, "; it must be at least 0 and below 1"));
  }
  if (p.inner_steps == 0) return absl::InvalidArgumentError("inner steps of a period are 0; they must be at least 1");
  if (!(p.loco.beta >= 0 && p.loco.beta < 1) || p.loco.reset_syncs == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("loco has beta ", p.loco.beta, " and a reset after ", p.loco.reset_syncs,
                     " syncs; beta must be at least 0 and below 1, the reset at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(std::span<const RoundInput> sorted, size_t elements) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i].worker == sorted[i - 1].worker) {
      return absl::InvalidArgumentError(absl::StrCat("worker ", sorted[i].worker.value,
                                                     " has two contributions in one round; keep the accepted one"));
    }
    const absl::Status size = CheckEncodedSize(sorted[i].codec, elements, sorted[i].encoded.size());
    if (!size.ok()) return Annotate(size, absl::StrCat("contribution of worker ", sorted[i].worker.value));
  }
  return absl::OkStatus();
}

struct StateMaxima {
  float public_copy = 0, momentum = 0, residual = 0;
};

// An upper bound of all partial sums and results of `merge`.
double LargestMerged(const MergeSpec& merge, std::span<const ContributionScreen> screens,
                     std::span<const float> scales) {
  double sum = 0, largest = 0;
  for (size_t i = 0; i < screens.size(); ++i) {
    const double scaled = static_cast<double>(scales[i]) * screens[i].max_abs;
    sum += scaled;
    largest = std::max(largest, scaled);
  }
  // The other rules add values before dividing, or add differences from a middle.
  return merge.rule == MergeRule::kMean ? sum : std::max(3 * largest, sum);
}

// Bounds every intermediate magnitude of the pass before it begins, so that a started pass always ends finite.
absl::Status CheckRange(double g, const vecmath::OuterCoefficients& outer, const StateMaxima& state) {
  const bool plain = outer.kind == OuterKind::kSgd;
  const double mu = outer.momentum;
  const double buffer = plain ? static_cast<double>(state.momentum) : mu * state.momentum + g;
  const double direction = plain ? g : g + buffer;  // both forms of momentum stay below this
  const double h = outer.learning_rate * direction + state.residual;
  // A codec may round a value up by a third (e3m0), so the residual stays below 2 h.
  if (std::max({buffer, direction, 2 * h, state.public_copy + 2 * h}) < kLargest) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("the outer step could overflow fp32: the merged pseudo-gradient reaches ",
                                            g, "; drop the largest contribution and close again"));
}

// A round without contributions takes no step: the momentum and the virtual master stay.
vecmath::OuterCoefficients Coefficients(const OuterParameters& p, bool empty) {
  if (empty) return {.kind = p.kind, .learning_rate = 0.0f, .momentum = 1.0f};
  return {
      .kind = p.kind, .learning_rate = static_cast<float>(p.learning_rate), .momentum = static_cast<float>(p.momentum)};
}

std::vector<RoundInput> SortedByWorker(std::span<const RoundInput> inputs) {
  std::vector<RoundInput> sorted(inputs.begin(), inputs.end());
  std::sort(sorted.begin(), sorted.end(), [](const RoundInput& a, const RoundInput& b) { return a.worker < b.worker; });
  return sorted;
}

double Cosine(double dot, double norm_a, double norm_b) {
  const double product = norm_a * norm_b;
  return product > 0 ? std::clamp(dot / product, -1.0, 1.0) : 0.0;
}

std::optional<double> CosineOf(double dot, double squares_a, double squares_b) {
  if (squares_a <= 0 || squares_b <= 0) return std::nullopt;
  return Cosine(dot, std::sqrt(squares_a), std::sqrt(squares_b));
}

// The cosine of `input` to the mean without it: removes its share from the merged pseudo-gradient.
std::optional<double> CosineToOthers(const aggregate::MergeSums& sums, size_t input, double scale) {
  constexpr double kNearlyZero = 1e-9;  // relative size of a difference of squares that is only rounding error
  const double own = sums.input_squares[input], dot = sums.dots[input];
  const double others = sums.compared_merged - 2 * scale * dot + scale * scale * own;
  if (others <= kNearlyZero * (sums.compared_merged + scale * scale * own)) return std::nullopt;
  return CosineOf(dot - scale * own, own, others);
}

void ReportSums(const aggregate::MergeSums& sums, RoundResult& result) {
  result.merged_norm = std::sqrt(sums.merged_squares);
  result.outer_step_norm = std::sqrt(sums.step_squares);
  result.download_error = sums.sent_squares > 0 ? std::sqrt(sums.lost_squares / sums.sent_squares) : 0;
  result.momentum_alignment = CosineOf(sums.momentum_dot, sums.compared_merged, sums.momentum_squares);
  result.step_alignment = CosineOf(sums.compared_dot, sums.compared_squares, sums.previous_squares);
}

RoundResult ReportScreens(std::span<const RoundInput> inputs, std::span<const ContributionScreen> screens) {
  RoundResult result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ContributionReport report;
    report.worker = inputs[i].worker;
    report.finite = screens[i].finite;
    report.norm = screens[i].norm;
    if (!report.finite) result.non_finite.push_back(report.worker);
    result.contributions.push_back(std::move(report));
  }
  return result;
}

// The clip factors: from the gate, which also fills `result.norms`; without a gate, as recorded with the inputs.
std::vector<double> ClipFactors(std::span<const RoundInput> inputs, const NormGate* gate, uint32_t inner_steps,
                                RoundResult& result) {
  std::vector<double> clips;
  std::vector<NormSample> round;
  clips.reserve(inputs.size());
  round.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    clips.push_back(inputs[i].clip_factor);
    round.push_back(SampleOf(inputs[i].worker, result.contributions[i].norm, inputs[i].steps, inner_steps));
  }
  if (gate == nullptr) return clips;
  result.norms = JudgeNorms(gate->rule, gate->history, gate->rate, round, gate->past_finished);
  for (size_t i = 0; i < inputs.size(); ++i) clips[i] = result.norms[i].clip_factor;
  return clips;
}

// The factor by which each contribution is scaled. Under a rule other than kMean that is the clip factor alone (0
// without a weight), and the rule does the weighting.
std::vector<float> Scales(const MergeSpec& merge, std::span<const double> weights, std::span<const double> clips) {
  const bool mean = merge.rule == MergeRule::kMean;
  std::vector<float> scales;
  scales.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    scales.push_back(static_cast<float>(mean ? weights[i] * clips[i] : weights[i] > 0 ? clips[i] : 0.0));
  }
  return scales;
}

std::vector<size_t> MembersOf(const MergeSpec& merge, std::span<const double> weights) {
  std::vector<size_t> members;
  if (merge.rule == MergeRule::kMean) return members;
  members.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) members.push_back(i);
  }
  return members;
}

std::vector<double> WeightsOf(const OuterParameters& p, std::span<const RoundInput> inputs) {
  std::vector<double> weights = RoundWeights(p.weights, p.inner_steps, inputs);
  return p.merge.rule == MergeRule::kMean ? weights : EvenWeights(std::move(weights));
}

// The contribution with the largest share of the merge, if the step overflows by it and not by the stored state.
std::vector<WorkerId> TooLarge(std::span<const RoundInput> inputs, std::span<const ContributionScreen> screens,
                               std::span<const float> scales) {
  constexpr double kHarmless = 1e30;  // for one contribution's share of the merged pseudo-gradient
  size_t largest = 0;
  const auto share = [&](size_t i) { return static_cast<double>(scales[i]) * screens[i].max_abs; };
  for (size_t i = 1; i < inputs.size(); ++i) largest = share(i) > share(largest) ? i : largest;
  if (inputs.empty() || share(largest) < kHarmless) return {};
  return {inputs[largest].worker};
}

// Checks a part of a restored state: its length, and that all values are finite. An empty part means zeros.
absl::Status CheckPart(const char* name, std::span<const float> part, size_t elements) {
  if (part.empty()) return absl::OkStatus();
  if (part.size() != elements) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", part.size(), " elements, but the fragment has ", elements, "; check the snapshot"));
  }
  if (vecmath::AllFinite(part)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " holds a value that is not finite; use an older snapshot"));
}

void TakePart(std::span<const float> from, std::span<float> to) {
  if (from.empty())
    std::fill(to.begin(), to.end(), 0.0f);
  else
    std::copy(from.begin(), from.end(), to.begin());
}

bool AreZeros(std::span<const float> x, float max_abs) {
  return max_abs == 0 && std::none_of(x.begin(), x.end(), [](float value) { return std::signbit(value); });
}

// Whether the step from `version` clears the residual, under kLoco.
bool ClearsResidual(const OuterParameters& parameters, Version version) {
  return (version.value + 1) % parameters.loco.reset_syncs == 0;
}

// Updates whether `momentum` and `residual` are zeros after the step from `version`; +0 after a lossless codec.
void FollowZeros(const OuterParameters& parameters, Version version, bool& momentum, bool& residual) {
  momentum = momentum && parameters.kind == OuterKind::kSgd;
  switch (parameters.download_error_memory) {
    case ErrorMemory::kOff: return;
    case ErrorMemory::kFeedback: residual = parameters.download_codec == CodecKind::kFp32; return;
    case ErrorMemory::kLoco: residual = ClearsResidual(parameters, version); return;
  }
}

}  // namespace

OuterParameters OuterParametersOf(const JobSpec& spec) {
  return {.kind = spec.outer.kind,
          .learning_rate = spec.outer.learning_rate,
          .momentum = spec.outer.momentum,
          .weights = spec.sync.weights,
          .merge = spec.sync.merge,
          .inner_steps = spec.sync.inner_steps,
          .download_codec = spec.sync.download_codec,
          .download_error_memory = spec.sync.download_error_memory,
          .loco = spec.sync.loco};
}

struct Aggregator::Fragment {
  Version version;
  std::vector<float> public_copy, momentum, residual;
  std::vector<float> compared_step;  // empty until the first step
  StateMaxima maxima;
  std::optional<Digest> hash;                               // as computed by the pass that made the public copy
  bool momentum_is_zeros = true, residual_is_zeros = true;  // all elements are +0; false: unknown
};

Aggregator::Aggregator(const ModelLayout& layout) : layout_digest_(layout.digest) {
  for (const FragmentInfo& info : layout.fragments) {
    auto fragment = std::make_unique<Fragment>();
    fragment->public_copy.resize(info.elements);
    fragment->momentum.resize(info.elements);
    fragment->residual.resize(info.elements);
    fragments_.push_back(std::move(fragment));
  }
}

Aggregator::~Aggregator() = default;
Aggregator::Aggregator(Aggregator&&) noexcept = default;
Aggregator& Aggregator::operator=(Aggregator&&) noexcept = default;

Aggregator::Fragment& Aggregator::At(FragmentIndex fragment) {
  ATOLL_CHECK(fragment.value < fragments_.size(), "a fragment outside the layout");
  return *fragments_[fragment.value];
}

const Aggregator::Fragment& Aggregator::At(FragmentIndex fragment) const {
  ATOLL_CHECK(fragment.value < fragments_.size(), "a fragment outside the layout");
  return *fragments_[fragment.value];
}

absl::Status Aggregator::Restore(FragmentIndex fragment, const FragmentStateView& state) {
  Fragment& held = At(fragment);
  const size_t elements = held.public_copy.size();
  if (state.public_copy.empty()) return absl::InvalidArgumentError("the state of a fragment has no public copy");
  ATOLL_RETURN_IF_ERROR(CheckPart("public copy", state.public_copy, elements));
  ATOLL_RETURN_IF_ERROR(CheckPart("momentum", state.momentum, elements));
  ATOLL_RETURN_IF_ERROR(CheckPart("residual", state.residual, elements));
  TakePart(state.public_copy, held.public_copy);
  TakePart(state.momentum, held.momentum);
  TakePart(state.residual, held.residual);
  held.version = state.version;
  held.hash.reset();
  held.compared_step.clear();
  held.maxima = {vecmath::MaxAbs(held.public_copy), vecmath::MaxAbs(held.momentum), vecmath::MaxAbs(held.residual)};
  held.momentum_is_zeros = AreZeros(held.momentum, held.maxima.momentum);
  held.residual_is_zeros = AreZeros(held.residual, held.maxima.residual);
  return absl::OkStatus();
}

absl::StatusOr<RoundResult> Aggregator::CloseRound(FragmentIndex fragment, Version version,
                                                   std::span<const RoundInput> inputs,
                                                   const OuterParameters& parameters, unsigned threads,
                                                   const NormGate* gate) {
  Fragment& held = At(fragment);
  const size_t elements = held.public_copy.size();
  if (held.version != version) {
    return absl::FailedPreconditionError(absl::StrCat("fragment ", fragment.value, " is at version ",
                                                      held.version.value, ", so the round of version ", version.value,
                                                      " cannot be closed; replay or drop it"));
  }
  const std::vector<RoundInput> sorted = SortedByWorker(inputs);
  ATOLL_RETURN_IF_ERROR(CheckParameters(parameters));
  ATOLL_RETURN_IF_ERROR(CheckInputs(sorted, elements));

  const std::vector<ContributionScreen> screens = aggregate::ScreenAll(sorted, elements, threads);
  RoundResult result = ReportScreens(sorted, screens);
  if (!result.non_finite.empty()) return result;
  const std::vector<double> clips = ClipFactors(sorted, gate, parameters.inner_steps, result);
  const auto refused = [](const NormVerdict& verdict) { return verdict.action == NormAction::kRefuse; };
  if (std::any_of(result.norms.begin(), result.norms.end(), refused)) return result;

  const std::vector<double> weights = WeightsOf(parameters, sorted);
  const std::vector<float> scales = Scales(parameters.merge, weights, clips);
  const std::vector<size_t> members = MembersOf(parameters.merge, weights);
  const vecmath::OuterCoefficients outer = Coefficients(parameters, sorted.empty());
  const double largest = LargestMerged(parameters.merge, screens, scales);
  if (absl::Status range = CheckRange(largest, outer, held.maxima); !range.ok()) {
    if (gate != nullptr) result.too_large = TooLarge(sorted, screens, scales);
    if (result.too_large.empty()) return range;
    return result;
  }

  result.update.resize(EncodedSize(parameters.download_codec, elements));
  held.compared_step.resize(aggregate::ComparedElements(elements));
  const aggregate::MergeSums sums = aggregate::MergeAll({.inputs = sorted,
                                                         .weights = scales,
                                                         .merge = parameters.merge,
                                                         .members = members,
                                                         .outer = outer,
                                                         .download_codec = parameters.download_codec,
                                                         .memory = parameters.download_error_memory,
                                                         .loco_beta = parameters.loco.beta,
                                                         .clear_residual = ClearsResidual(parameters, version),
                                                         .public_copy = held.public_copy,
                                                         .momentum = held.momentum,
                                                         .residual = held.residual,
                                                         .compared_step = held.compared_step,
                                                         .update = result.update,
                                                         .threads = threads});
  held.version.value += 1;
  held.maxima = {sums.public_max, sums.momentum_max, sums.residual_max};
  FollowZeros(parameters, version, held.momentum_is_zeros, held.residual_is_zeros);

  result.committed = true;
  result.reached = held.version;
  held.hash = result.hash = ContentRoot(sums.leaves, held.version.value, layout_digest_);
  result.update_digest = sums.update;
  ReportSums(sums, result);
  for (size_t i = 0; i < sorted.size(); ++i) {
    result.contributions[i].weight = weights[i];
    result.contributions[i].clip_factor = clips[i];
    result.contributions[i].cosine_to_merged =
        Cosine(sums.dots[i], std::sqrt(sums.input_squares[i]), std::sqrt(sums.compared_merged));
    result.contributions[i].cosine_to_others = parameters.merge.rule == MergeRule::kMean
                                                   ? CosineToOthers(sums, i, scales[i])
                                                   : result.contributions[i].cosine_to_merged;
  }
  return result;
}

FragmentStateView Aggregator::State(FragmentIndex fragment) const {
  const Fragment& held = At(fragment);
  return {held.version, held.public_copy, held.momentum, held.residual};
}

FragmentStateView Aggregator::StateWithoutZeros(FragmentIndex fragment) const {
  const Fragment& held = At(fragment);
  FragmentStateView state = State(fragment);
  if (held.momentum_is_zeros) state.momentum = {};
  if (held.residual_is_zeros) state.residual = {};
  return state;
}

Version Aggregator::version(FragmentIndex fragment) const { return At(fragment).version; }

Digest Aggregator::Hash(FragmentIndex fragment) const {
  const Fragment& held = At(fragment);
  return held.hash ? *held.hash : ContentHash(held.public_copy, held.version.value, layout_digest_);
}

size_t Aggregator::fragments() const { return fragments_.size(); }

}  // namespace atl
