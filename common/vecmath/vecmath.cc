// SPDX-License-Identifier: Apache-2.0
// Checks sizes, then dispatches to the CPU's best instruction set.
#include "common/vecmath/vecmath.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/vecmath/vecmath.cc"
// foreach_target.h must come before the kernels.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "common/vecmath/kernels-inl.h"
#include "common/vecmath/block_kernels-inl.h"
// clang-format on

#if HWY_ONCE
#include "common/base/check.h"

namespace atl::vecmath {

HWY_EXPORT(Copy);
HWY_EXPORT(Scale);
HWY_EXPORT(ScaledAccumulate);
HWY_EXPORT(Add);
HWY_EXPORT(Subtract);
HWY_EXPORT(Merge);
HWY_EXPORT(Order);
HWY_EXPORT(OuterDirection);
HWY_EXPORT(OuterStep);
HWY_EXPORT(BlockStatistics);
HWY_EXPORT(PseudoGradient);
HWY_EXPORT(PseudoGradientPieces);
HWY_EXPORT(BlockSquares);
HWY_EXPORT(BlockDot);
HWY_EXPORT(LargestMagnitudeBits);
HWY_EXPORT(TargetName);

void Copy(std::span<const float> from, std::span<float> to) {
  ATOLL_CHECK(from.size() == to.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(Copy)(from, to);
}

void Scale(float weight, std::span<const float> x, std::span<float> out) {
  ATOLL_CHECK(x.size() == out.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(Scale)(weight, x, out);
}

void ScaledAccumulate(float weight, std::span<const float> x, std::span<float> acc) {
  ATOLL_CHECK(x.size() == acc.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(ScaledAccumulate)(weight, x, acc);
}

void Add(std::span<const float> x, std::span<float> target) {
  ATOLL_CHECK(x.size() == target.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(Add)(x, target);
}

void Subtract(std::span<const float> a, std::span<const float> b, std::span<float> out) {
  ATOLL_CHECK(a.size() == b.size() && a.size() == out.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(Subtract)(a, b, out);
}

void Merge(double mix, std::span<const float> outer, std::span<float> local) {
  ATOLL_CHECK(outer.size() == local.size(), "spans of one kernel differ in length");
  ATOLL_CHECK(mix >= 0 && mix <= 1, "the share of a merge lies outside 0 to 1");
  HWY_DYNAMIC_DISPATCH(Merge)(mix, outer, local);
}

void Order(std::span<float> a, std::span<float> b) {
  ATOLL_CHECK(a.size() == b.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(Order)(a, b);
}

void OuterDirection(const OuterCoefficients& c, std::span<float> momentum, std::span<float> g_to_u) {
  ATOLL_CHECK(c.kind == OuterKind::kSgd || momentum.size() == g_to_u.size(), "spans of one kernel differ in length");
  HWY_DYNAMIC_DISPATCH(OuterDirection)(c, momentum, g_to_u);
}

OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h) {
  ATOLL_CHECK(g_to_h.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  ATOLL_CHECK(momentum.size() == g_to_h.size() && (residual.empty() || residual.size() == g_to_h.size()),
              "spans of one kernel differ in length");
  return HWY_DYNAMIC_DISPATCH(OuterStep)(c, momentum, residual, g_to_h);
}

BlockStats BlockStatistics(std::span<const float> x) {
  ATOLL_CHECK(x.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  return HWY_DYNAMIC_DISPATCH(BlockStatistics)(x);
}

BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h) {
  ATOLL_CHECK(h.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  ATOLL_CHECK(outer.size() == h.size() && local.size() == h.size() && (residual.empty() || residual.size() == h.size()),
              "spans of one kernel differ in length");
  return HWY_DYNAMIC_DISPATCH(PseudoGradient)(outer, local, residual, h);
}

BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          ThenPiece then) {
  ATOLL_CHECK(outer.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  ATOLL_CHECK(local.size() == outer.size() && (residual.empty() || residual.size() == outer.size()),
              "spans of one kernel differ in length");
  return HWY_DYNAMIC_DISPATCH(PseudoGradientPieces)(outer, local, residual, then);
}

double BlockSquares(std::span<const float> x) {
  ATOLL_CHECK(x.size() <= kSumBlock, "a block of a sum is longer than kSumBlock");
  return HWY_DYNAMIC_DISPATCH(BlockSquares)(x);
}

double BlockDot(std::span<const float> a, std::span<const float> b) {
  ATOLL_CHECK(a.size() <= kSumBlock && a.size() == b.size(), "blocks of a sum differ in length or are too long");
  return HWY_DYNAMIC_DISPATCH(BlockDot)(a, b);
}

namespace {
std::span<const float> BlockAt(std::span<const float> x, size_t at) {
  return x.subspan(at, std::min(kSumBlock, x.size() - at));
}
}  // namespace

double Dot(std::span<const float> a, std::span<const float> b) {
  ATOLL_CHECK(a.size() == b.size(), "spans of one kernel differ in length");
  double sum = 0;
  for (size_t at = 0; at < a.size(); at += kSumBlock) sum += BlockDot(BlockAt(a, at), BlockAt(b, at));
  return sum;
}

bool AllFinite(std::span<const float> x) {
  for (size_t at = 0; at < x.size(); at += kSumBlock) {
    if (HWY_DYNAMIC_DISPATCH(LargestMagnitudeBits)(BlockAt(x, at)) >= 0x7f800000u) return false;
  }
  return true;
}

float MaxAbs(std::span<const float> x) { return std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(LargestMagnitudeBits)(x)); }

const char* InstructionSet() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace atl::vecmath
#endif  // HWY_ONCE
