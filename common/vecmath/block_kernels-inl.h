// SPDX-License-Identifier: Apache-2.0
// SIMD kernels that process a block in one pass: each fuses several kernels of kernels-inl.h with
// their sums, with the same bits. Compiled once for each instruction set by vecmath.cc.
#if defined(ATOLL_COMMON_VECMATH_BLOCK_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMMON_VECMATH_BLOCK_KERNELS_INL_H_
#undef ATOLL_COMMON_VECMATH_BLOCK_KERNELS_INL_H_
#else
#define ATOLL_COMMON_VECMATH_BLOCK_KERNELS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "common/vecmath/kernels-inl.h"
#include "common/vecmath/vecmath.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::vecmath {
namespace HWY_NAMESPACE {

// Computes OuterStep with the kernels of kernels-inl.h, one pass for each.
inline OuterSums StepByStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                            std::span<float> g_to_h) {
  OuterSums sums;
  sums.merged_squares = BlockSquares(g_to_h);
  HWY_NAMESPACE::OuterDirection(c, momentum, g_to_h);
  sums.step_squares = BlockSquares(g_to_h);
  sums.momentum_max = std::bit_cast<float>(LargestMagnitudeBits(momentum));
  if (!residual.empty()) Add(residual, g_to_h);
  return sums;
}

inline BlockStats DifferenceByStep(std::span<const float> outer, std::span<const float> local,
                                   std::span<const float> residual, std::span<float> h) {
  Subtract(outer, local, h);
  if (!residual.empty()) Add(residual, h);
  return BlockStatistics(h);
}

inline BlockStats PiecesByStep(std::span<const float> outer, std::span<const float> local,
                               std::span<const float> residual, ThenPiece then) {
  std::array<float, kSumBlock> block;
  const std::span<float> h = std::span(block).first(outer.size());
  const BlockStats stats = DifferenceByStep(outer, local, residual, h);
  for (size_t at = 0; at < h.size(); at += kPiece) then(at, h.subspan(at, std::min(kPiece, h.size() - at)));
  return stats;
}

#if HWY_TARGET <= HWY_AVX3
// Prefetches the element that is one block (kSumBlock elements) after `x`.
HWY_INLINE void AskAhead(const float* x) { __builtin_prefetch(x + kSumBlock, 0, 2); }

template <bool kNesterov, bool kResidual>
OuterSums StepWhole(const OuterCoefficients& c, float* momentum, const float* residual, float* g_to_h, size_t n) {
  const Floats d;
  const hn::Rebind<uint32_t, Floats> du;
  const auto step = hn::Set(d, -c.learning_rate);
  const auto mu = hn::Set(d, c.momentum);
  SquareSum merged, stepped;
  auto largest = hn::Zero(du);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    AskAhead(momentum + i);
    const auto g = hn::LoadU(d, g_to_h + i);
    merged.Add(g);
    const auto buffer = hn::Add(hn::Mul(mu, hn::LoadU(d, momentum + i)), g);
    hn::StoreU(buffer, d, momentum + i);
    largest = hn::Max(largest, hn::And(hn::BitCast(du, buffer), hn::Set(du, 0x7fffffffu)));
    const auto direction = kNesterov ? hn::Add(g, hn::Mul(mu, buffer)) : buffer;
    auto h = hn::Mul(step, direction);
    stepped.Add(h);
    if constexpr (kResidual) {
      AskAhead(residual + i);
      h = hn::Add(h, hn::LoadU(d, residual + i));
    }
    hn::StoreU(h, d, g_to_h + i);
  }
  return {.merged_squares = merged.Total(),
          .step_squares = stepped.Total(),
          .momentum_max = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(du, largest)))};
}

OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h) {
  if (c.kind == OuterKind::kSgd || g_to_h.size() % kLanes != 0) return StepByStep(c, momentum, residual, g_to_h);
  const auto whole = c.kind == OuterKind::kNesterov ? residual.empty() ? StepWhole<true, false> : StepWhole<true, true>
                     : residual.empty() ? StepWhole<false, false>
                                                    : StepWhole<false, true>;
  return whole(c, momentum.data(), residual.data(), g_to_h.data(), g_to_h.size());
}

// The sums of a pass that computes h: squares and the largest magnitude, kept from piece to piece.
struct DifferenceSums {
  SquareSum squares;
  hn::Vec<hn::Rebind<uint32_t, Floats>> largest;
  HWY_INLINE DifferenceSums() : largest(hn::Zero(hn::Rebind<uint32_t, Floats>())) {}

  BlockStats Total() const {
    const uint32_t bits = hn::GetLane(hn::MaxOfLanes(hn::Rebind<uint32_t, Floats>(), largest));
    if (bits >= 0x7f800000u) return {.sum_squares = 0, .max_abs = 0, .finite = false};
    return {.sum_squares = squares.Total(), .max_abs = std::bit_cast<float>(bits), .finite = true};
  }
};

template <bool kResidual, bool kAsksAhead>
void DifferenceWhole(const float* outer, const float* local, const float* residual, float* h, size_t n,
                     DifferenceSums& all) {
  const Floats d;
  const hn::Rebind<uint32_t, Floats> du;
  DifferenceSums sums = all;  // local copy, kept in registers
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    if constexpr (kAsksAhead) {
      AskAhead(outer + i);
      AskAhead(local + i);
      if constexpr (kResidual) AskAhead(residual + i);
    }
    auto x = hn::Sub(hn::LoadU(d, outer + i), hn::LoadU(d, local + i));
    if constexpr (kResidual) x = hn::Add(x, hn::LoadU(d, residual + i));
    sums.squares.Add(x);
    sums.largest = hn::Max(sums.largest, hn::And(hn::BitCast(du, x), hn::Set(du, 0x7fffffffu)));
    hn::StoreU(x, d, h + i);
  }
  all = sums;
}

BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h) {
  if (h.size() % kLanes != 0) return DifferenceByStep(outer, local, residual, h);
  const auto whole = residual.empty() ? DifferenceWhole<false, true> : DifferenceWhole<true, true>;
  DifferenceSums sums;
  whole(outer.data(), local.data(), residual.data(), h.data(), h.size(), sums);
  return sums.Total();
}

// Without AskAhead: the processor recognises the access pattern, and prefetches by itself while a piece is
// processed.
BlockStats PseudoGradientPieces(std::span<const float> outer, std::span<const float> local,
                                std::span<const float> residual, ThenPiece then) {
  if (outer.size() % kLanes != 0) return PiecesByStep(outer, local, residual, then);
  static_assert(kPiece % kLanes == 0, "the sums of a block go on from one piece to the next");
  alignas(64) std::array<float, kPiece> piece;
  const auto whole = residual.empty() ? DifferenceWhole<false, false> : DifferenceWhole<true, false>;
  DifferenceSums sums;
  for (size_t at = 0; at < outer.size(); at += kPiece) {
    const size_t count = std::min(kPiece, outer.size() - at);
    const float* const remembered = residual.empty() ? nullptr : residual.data() + at;
    whole(outer.data() + at, local.data() + at, remembered, piece.data(), count, sums);
    then(at, std::span(piece).first(count));
  }
  return sums.Total();
}
#else
// With narrower vectors the registers do not suffice for the fused kernels and their sums: one kernel after another.
OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h) {
  return StepByStep(c, momentum, residual, g_to_h);
}
BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h) {
  return DifferenceByStep(outer, local, residual, h);
}
BlockStats PseudoGradientPieces(std::span<const float> outer, std::span<const float> local,
                                std::span<const float> residual, ThenPiece then) {
  return PiecesByStep(outer, local, residual, then);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace atl::vecmath
HWY_AFTER_NAMESPACE();

#endif
