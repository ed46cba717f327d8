// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "tests/oracle/oracle.h"

namespace atl::oracle {
namespace {

using Piece = std::array<float, kPieceElements>;

double RawWeight(const OuterParameters& rule, const RoundInput& input) {
  if (input.steps == 0) return 0;
  const double tokens = static_cast<double>(input.tokens), steps = static_cast<double>(input.steps);
  if (rule.weights == WeightRule::kUniform) return std::min(1.0, steps / static_cast<double>(rule.inner_steps));
  if (rule.weights == WeightRule::kShardSize) {
    return static_cast<double>(input.shard_samples) * std::min(1.0, steps / static_cast<double>(rule.inner_steps));
  }
  return rule.weights == WeightRule::kTokensSquaredOverSteps ? tokens * tokens / steps : tokens;
}

// Of one piece, in double.
double SquaresOf(std::span<const float> x) {
  std::array<double, 16> lanes{};
  for (size_t k = 0; k < x.size(); ++k) lanes[k % 16] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  for (const size_t half : {8u, 4u, 2u, 1u}) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// A piece of a fragment's state, and its position in the fragment.
struct PieceOfState {
  uint64_t first = 0;
  std::span<float> public_copy, momentum, residual;
  size_t size() const { return public_copy.size(); }
};

// g: weight x decoded, in order; the first product starts the sum.
void AddWeighted(const std::vector<RoundInput>& inputs, const std::vector<double>& weights, uint64_t first,
                 std::span<float> g) {
  Piece decoded;
  const std::span<float> x = std::span(decoded).first(g.size());
  if (inputs.empty()) std::fill(g.begin(), g.end(), 0.0f);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DecodePiece(inputs[i].codec, inputs[i].encoded, first, x);
    const float weight = static_cast<float>(weights[i] * inputs[i].clip_factor);
    for (size_t k = 0; k < g.size(); ++k) {
      const float product = weight * x[k];
      g[k] = i == 0 ? product : g[k] + product;
    }
  }
}

// The rules that count every contribution with a weight equally.
class EvenMerge {
 public:
  EvenMerge(const OuterParameters& rule, const std::vector<RoundInput>& inputs, const std::vector<double>& weights)
      : rule_(rule) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (weights[i] > 0) inputs_.push_back(inputs[i]);
    }
    const size_t most = (inputs_.size() - 1) / 2;
    left_out_ = rule.merge.rule == MergeRule::kTrimmedMean
                    ? std::min(most, static_cast<size_t>(rule.merge.trim_share * static_cast<double>(inputs_.size())))
                    : most;
  }

  // Reads the whole fragment and computes the distance of each contribution from the middle.
  void Measure(uint64_t elements) {
    if (rule_.merge.rule != MergeRule::kCenteredClip) return;
    std::vector<double> distances(inputs_.size());
    for (uint64_t first = 0; first < elements; first += kPieceElements) {
      Load(first, std::min(kPieceElements, elements - first));
      for (size_t i = 0; i < inputs_.size(); ++i) distances[i] += SquaresOfDifferences(values_[i]);
    }
    for (double& distance : distances) distance = std::sqrt(distance);
    std::vector<double> sorted = distances;
    std::sort(sorted.begin(), sorted.end());
    const double radius = rule_.merge.clip_radius * sorted[(sorted.size() - 1) / 2];
    for (const double d : distances) {
      pulls_.push_back(static_cast<float>((d > radius ? radius / d : 1.0) / static_cast<double>(inputs_.size())));
    }
  }

  void Merge(uint64_t first, std::span<float> g) {
    Load(first, g.size());
    for (size_t k = 0; k < g.size(); ++k) {
      g[k] = middle_[k];
      for (size_t i = 0; i < pulls_.size(); ++i) {
        const float difference = values_[i][k] - middle_[k];
        const float pulled = pulls_[i] * difference;
        g[k] = g[k] + pulled;
      }
    }
  }

 private:
  // The scaled values of one piece, and their middle.
  void Load(uint64_t first, size_t size) {
    values_.assign(inputs_.size(), std::vector<float>(size));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      DecodePiece(inputs_[i].codec, inputs_[i].encoded, first, values_[i]);
      const float clip = static_cast<float>(inputs_[i].clip_factor);
      for (float& x : values_[i]) x = clip * x;
    }
    middle_.resize(size);
    for (size_t k = 0; k < size; ++k) middle_[k] = MiddleOf(k);
  }

  float MiddleOf(size_t k) const {
    std::vector<float> column;
    for (const std::vector<float>& x : values_) column.push_back(x[k]);
    std::stable_sort(column.begin(), column.end());
    float sum = column[left_out_];
    for (size_t i = left_out_ + 1; i < column.size() - left_out_; ++i) sum = sum + column[i];
    return static_cast<float>(1.0 / static_cast<double>(column.size() - 2 * left_out_)) * sum;
  }

  double SquaresOfDifferences(const std::vector<float>& x) const {
    Piece differences;
    for (size_t k = 0; k < x.size(); ++k) differences[k] = x[k] - middle_[k];
    return SquaresOf(std::span(differences).first(x.size()));
  }

  const OuterParameters& rule_;
  std::vector<RoundInput> inputs_;
  size_t left_out_ = 0;
  std::vector<std::vector<float>> values_;
  std::vector<float> middle_, pulls_;
};

// Computes u from g, and updates the momentum.
void Direct(const OuterParameters& rule, std::span<float> momentum, std::span<float> g) {
  const float step = -static_cast<float>(rule.learning_rate);
  const float mu = static_cast<float>(rule.momentum);
  for (size_t k = 0; k < g.size(); ++k) {
    float direction = g[k];
    if (rule.kind != OuterKind::kSgd) {
      const float buffer = mu * momentum[k] + g[k];
      momentum[k] = buffer;
      direction = rule.kind == OuterKind::kMomentum ? buffer : g[k] + mu * buffer;
    }
    g[k] = step * direction;
  }
}

// LoCo's residual: the average with the previous one, rounded to 8 bits; zero at resets.
void Average(const OuterParameters& rule, bool reset, std::span<const float> lost, std::span<float> residual) {
  if (reset) return std::fill(residual.begin(), residual.end(), 0.0f);
  const float kept = static_cast<float>(rule.loco.beta), taken = static_cast<float>(1 - rule.loco.beta);
  for (size_t k = 0; k < residual.size(); ++k) {
    residual[k] = rule.loco.beta == 0 ? lost[k] : kept * residual[k] + taken * lost[k];
  }
  std::vector<std::byte> small(EncodedBytes(CodecKind::kInt8, residual.size()));
  EncodePiece(CodecKind::kInt8, residual, 0, small);
  DecodePiece(CodecKind::kInt8, small, 0, residual);
}

// Encodes h = u + r; adds its decoded value to the public copy, and stores the loss in the residual.
void Publish(const OuterParameters& rule, bool reset, const PieceOfState& piece, std::span<float> h,
             std::span<std::byte> update) {
  if (rule.download_error_memory != ErrorMemory::kOff) {
    for (size_t k = 0; k < h.size(); ++k) h[k] = h[k] + piece.residual[k];
  }
  EncodePiece(rule.download_codec, h, piece.first, update);
  Piece decoded;
  const std::span<float> published = std::span(decoded).first(h.size());
  DecodePiece(rule.download_codec, update, piece.first, published);
  for (size_t k = 0; k < h.size(); ++k) {
    h[k] = h[k] - published[k];
    piece.public_copy[k] = piece.public_copy[k] + published[k];
  }
  if (rule.download_error_memory == ErrorMemory::kFeedback) std::copy(h.begin(), h.end(), piece.residual.begin());
  if (rule.download_error_memory == ErrorMemory::kLoco) Average(rule, reset, h, piece.residual);
}

}  // namespace

double NormOf(CodecKind codec, Bytes encoded, uint64_t elements) {
  Piece decoded;
  double squares = 0;
  for (uint64_t first = 0; first < elements; first += kPieceElements) {
    const std::span<float> x = std::span(decoded).first(std::min(kPieceElements, elements - first));
    DecodePiece(codec, encoded, first, x);
    squares += SquaresOf(x);
  }
  return std::sqrt(squares);
}

std::vector<double> WeightsOf(const OuterParameters& rule, const std::vector<RoundInput>& inputs) {
  std::vector<double> weights(inputs.size());
  double sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    weights[i] = RawWeight(rule, inputs[i]);
    sum += weights[i];
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(inputs.size());
  if (rule.merge.rule == MergeRule::kMean) return weights;
  const auto some = std::count_if(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
  for (double& weight : weights) weight = weight > 0 ? 1.0 / static_cast<double>(some) : 0.0;
  return weights;
}

std::vector<std::byte> TakeOuterStep(const OuterParameters& of_round, const std::vector<RoundInput>& inputs,
                                     const std::vector<double>& weights, FragmentState& state) {
  OuterParameters rule = of_round;
  if (inputs.empty()) {  // every sync was dropped: no step is taken, and the momentum stays
    rule.learning_rate = 0;
    rule.momentum = 1;
  }
  const uint64_t elements = state.public_copy.size();
  std::vector<std::byte> update(EncodedBytes(rule.download_codec, elements));
  const bool reset = (state.version + 1) % rule.loco.reset_syncs == 0;
  std::optional<EvenMerge> even;
  if (rule.merge.rule != MergeRule::kMean && !inputs.empty()) even.emplace(rule, inputs, weights).Measure(elements);
  Piece merged;
  for (uint64_t first = 0; first < elements; first += kPieceElements) {
    const uint64_t size = std::min(kPieceElements, elements - first);
    const PieceOfState piece{first, std::span(state.public_copy).subspan(first, size),
                             std::span(state.momentum).subspan(first, size),
                             std::span(state.residual).subspan(first, size)};
    const std::span<float> g = std::span(merged).first(size);
    if (even) {
      even->Merge(first, g);
    } else {
      AddWeighted(inputs, weights, first, g);
    }
    Direct(rule, piece.momentum, g);
    Publish(rule, reset, piece, g, update);
  }
  ++state.version;
  return update;
}

}  // namespace atl::oracle
