#include "coordinator/audit/outer_step.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "coordinator/audit/codecs.h"

namespace atl::audit {
namespace {

constexpr int kShardBits = 56;  // positions of corpus c begin at c x 2^56

using Piece = std::array<float, kPieceElements>;

double RawWeight(const OuterRule& rule, const StepInput& input) {
  if (input.steps == 0) return 0;
  const double tokens = static_cast<double>(input.tokens), steps = static_cast<double>(input.steps);
  if (rule.weights == v1::WEIGHT_RULE_UNIFORM) return std::min(1.0, steps / static_cast<double>(rule.inner_steps));
  if (rule.weights == v1::WEIGHT_RULE_SHARD_SIZE) {
    return static_cast<double>(input.shard_samples) * std::min(1.0, steps / static_cast<double>(rule.inner_steps));
  }
  return rule.weights == v1::WEIGHT_RULE_TOKENS_SQUARED_OVER_STEPS ? tokens * tokens / steps : tokens;
}

// What is kept of one piece of a fragment, and where in it the piece begins.
struct PieceOfState {
  uint64_t first = 0;
  std::span<float> public_copy, momentum, residual;
  size_t size() const { return public_copy.size(); }
};

// g: weight x decoded, in order; the first product begins the sum.
void Merge(const std::vector<StepInput>& inputs, const std::vector<double>& weights, uint64_t first,
           std::span<float> g) {
  Piece decoded;
  const std::span<float> x = std::span(decoded).first(g.size());
  if (inputs.empty()) std::fill(g.begin(), g.end(), 0.0f);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DecodePiece(inputs[i].codec, inputs[i].encoded, first, x);
    const float weight = static_cast<float>(weights[i]);
    for (size_t k = 0; k < g.size(); ++k) {
      const float product = weight * x[k];
      g[k] = i == 0 ? product : g[k] + product;
    }
  }
}

// u from g, and the momentum's own step.
void Direct(const OuterRule& rule, std::span<float> momentum, std::span<float> g) {
  const float step = -static_cast<float>(rule.learning_rate);
  const float mu = static_cast<float>(rule.momentum);
  for (size_t k = 0; k < g.size(); ++k) {
    float direction = g[k];
    if (rule.kind != v1::OUTER_OPTIMIZER_KIND_SGD) {
      const float buffer = mu * momentum[k] + g[k];
      momentum[k] = buffer;
      direction = rule.kind == v1::OUTER_OPTIMIZER_KIND_MOMENTUM ? buffer : g[k] + mu * buffer;
    }
    g[k] = step * direction;
  }
}

// LoCo's residual: the average with what was there, as 8 bits hold it; zero at its resets.
void Average(const OuterRule& rule, bool reset, std::span<const float> lost, std::span<float> residual) {
  if (reset) return std::fill(residual.begin(), residual.end(), 0.0f);
  const float kept = static_cast<float>(rule.loco_beta), taken = static_cast<float>(1 - rule.loco_beta);
  for (size_t k = 0; k < residual.size(); ++k) {
    residual[k] = rule.loco_beta == 0 ? lost[k] : kept * residual[k] + taken * lost[k];
  }
  std::vector<std::byte> small(*EncodedBytes(v1::CODEC_KIND_INT8, residual.size()));
  EncodePiece(v1::CODEC_KIND_INT8, residual, 0, small);
  DecodePiece(v1::CODEC_KIND_INT8, small, 0, residual);
}

// h = u + r is encoded; public takes what it decodes to, the residual what was lost.
void Publish(const OuterRule& rule, bool reset, const PieceOfState& piece, std::span<float> h,
             std::span<std::byte> update) {
  if (rule.memory != v1::ERROR_MEMORY_OFF) {
    for (size_t k = 0; k < h.size(); ++k) h[k] = h[k] + piece.residual[k];
  }
  EncodePiece(rule.codec, h, piece.first, update);
  Piece decoded;
  const std::span<float> published = std::span(decoded).first(h.size());
  DecodePiece(rule.codec, update, piece.first, published);
  for (size_t k = 0; k < h.size(); ++k) {
    h[k] = h[k] - published[k];
    piece.public_copy[k] = piece.public_copy[k] + published[k];
  }
  if (rule.memory == v1::ERROR_MEMORY_FEEDBACK) std::copy(h.begin(), h.end(), piece.residual.begin());
  if (rule.memory == v1::ERROR_MEMORY_LOCO) Average(rule, reset, h, piece.residual);
}

}  // namespace

OuterRule RuleOf(const v1::JobSpec& spec) {
  OuterRule rule;
  const v1::SyncSpec& sync = spec.sync();
  if (spec.outer_optimizer().kind() != v1::OUTER_OPTIMIZER_KIND_UNSPECIFIED) rule.kind = spec.outer_optimizer().kind();
  if (sync.weights() != v1::WEIGHT_RULE_UNSPECIFIED) rule.weights = sync.weights();
  if (sync.download_codec() != v1::CODEC_KIND_UNSPECIFIED) rule.codec = sync.download_codec();
  if (sync.download_error_memory() != v1::ERROR_MEMORY_UNSPECIFIED) rule.memory = sync.download_error_memory();
  if (sync.loco().has_beta()) rule.loco_beta = sync.loco().beta();
  if (sync.loco().has_reset_syncs()) rule.loco_reset = sync.loco().reset_syncs();
  if (sync.has_inner_steps()) rule.inner_steps = sync.inner_steps();
  if (spec.data().assignment() != v1::DATA_ASSIGNMENT_SHARDS) return rule;
  for (const v1::CorpusSpec& corpus : spec.data().corpora()) rule.shards.push_back(corpus.samples());
  if (sync.weights() == v1::WEIGHT_RULE_UNSPECIFIED) rule.weights = v1::WEIGHT_RULE_SHARD_SIZE;
  return rule;
}

uint64_t ShardSamplesOf(const OuterRule& rule, const v1::CommittedContribution& contribution) {
  if (rule.shards.empty()) return 0;
  uint64_t lease = 0, cursor = 0;
  for (const v1::LeaseCursor& c : contribution.cursors()) {
    if (c.lease() < lease) continue;
    lease = c.lease();
    cursor = c.cursor();
  }
  const uint64_t corpus = cursor >> kShardBits;
  if (lease != 0 && corpus < rule.shards.size()) return rule.shards[corpus];
  return std::accumulate(rule.shards.begin(), rule.shards.end(), uint64_t{0}) / rule.shards.size();
}

std::vector<double> WeightsOf(const OuterRule& rule, const std::vector<StepInput>& inputs) {
  std::vector<double> weights(inputs.size());
  double sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    weights[i] = RawWeight(rule, inputs[i]);
    sum += weights[i];
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(inputs.size());
  return weights;
}

std::vector<std::byte> TakeOuterStep(const OuterRule& of_round, const std::vector<StepInput>& inputs,
                                     const std::vector<double>& weights, FragmentState& state) {
  OuterRule rule = of_round;
  if (inputs.empty()) {  // every sync was dropped: no step is taken, and the momentum waits
    rule.learning_rate = 0;
    rule.momentum = 1;
  }
  const uint64_t elements = state.public_copy.size();
  std::vector<std::byte> update(*EncodedBytes(rule.codec, elements));
  const bool reset = (state.version + 1) % rule.loco_reset == 0;
  Piece merged;
  for (uint64_t first = 0; first < elements; first += kPieceElements) {
    const uint64_t size = std::min(kPieceElements, elements - first);
    const PieceOfState piece{first, std::span(state.public_copy).subspan(first, size),
                             std::span(state.momentum).subspan(first, size),
                             std::span(state.residual).subspan(first, size)};
    const std::span<float> g = std::span(merged).first(size);
    Merge(inputs, weights, first, g);
    Direct(rule, piece.momentum, g);
    Publish(rule, reset, piece, g, update);
  }
  ++state.version;
  return update;
}

}  // namespace atl::audit
