// SPDX-License-Identifier: Apache-2.0
// Kernels over fp32 spans for aggregation and synchronisation. For each element, an elementwise
// kernel performs exactly the documented operations, each rounded to fp32 separately: no FMA, no
// flush to zero, no libm. The scalar reference (namespace vecmath::scalar) and the SIMD forms
// selected at run time thus give the same bits on every CPU.
//
// Reductions have a fixed order. Inside a block of kSumBlock elements, element i is added to lane i
// % 16 in fp64, and the lanes are added as a tree; blocks are then added in block order. Squares
// and products of two fp32 are exact in fp64. Spans of one call have equal sizes, and two of them are
// either identical or do not overlap. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_VECMATH_VECMATH_H_
#define ATOLL_COMMON_VECMATH_VECMATH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "common/plan/job_spec.h"

namespace atl::vecmath {

constexpr size_t kSumBlock = 4096;  // elements

// From this number of elements on, Copy bypasses the caches: the destination is not read first, and
// nothing is evicted.
constexpr size_t kFarCopy = size_t{1} << 18;

// to[i] = from[i], bit for bit, also for non-finite values.
void Copy(std::span<const float> from, std::span<float> to);
// out[i] = weight * x[i]
void Scale(float weight, std::span<const float> x, std::span<float> out);
// acc[i] = acc[i] + weight * x[i]
void ScaledAccumulate(float weight, std::span<const float> x, std::span<float> acc);
// target[i] = target[i] + x[i]
void Add(std::span<const float> x, std::span<float> target);
// out[i] = a[i] - b[i]   (delta = outer - local)
void Subtract(std::span<const float> a, std::span<const float> b, std::span<float> out);
// local[i] = mix * local[i] + (1 - mix) * outer[i]; 1 - mix is computed in double and rounded once.
// mix 0 copies outer and mix 1 keeps local, both bit for bit (also for non-finite values).
void Merge(double mix, std::span<const float> outer, std::span<float> local);

// Swaps a[i] and b[i] where b[i] is smaller, so that afterwards a has the smaller and b the larger elements. Requires
// finite elements.
void Order(std::span<float> a, std::span<float> b);

// The outer step's direction. kNesterov: buf = mu*buf + g; u = -lr*(g + mu*buf). kMomentum: buf =
// mu*buf + g; u = -lr*buf. kSgd: u = -lr*g, momentum is unchanged (and may be empty). Overwrites g
// with u. (DiLoCo 2311.08105, algorithm 1 line 14, in PyTorch's form.)
struct OuterCoefficients {
  OuterKind kind = OuterKind::kNesterov;
  float learning_rate = 0;
  float momentum = 0;
};
void OuterDirection(const OuterCoefficients& c, std::span<float> momentum, std::span<float> g_to_u);

// OuterDirection over a block of at most kSumBlock finite elements, then g_to_h[i] = u[i] + residual[i] (u[i] if
// `residual` is empty), in one pass. `momentum` must have the block's size, also for kSgd. Returns BlockSquares of g
// (merged_squares) and of u (step_squares), and MaxAbs of the momentum afterwards.
struct OuterSums {
  double merged_squares = 0, step_squares = 0;
  float momentum_max = 0;
};
OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h);

// Statistics of a block of elements; both numbers are 0 if an element is not finite.
struct BlockStats {
  double sum_squares = 0;
  float max_abs = 0;  // 0 if not finite
  bool finite = true;
};
// Requires x.size() <= kSumBlock.
BlockStats BlockStatistics(std::span<const float> x);
// h[i] = (outer[i] - local[i]) + residual[i], without the last term if `residual` is empty. Returns
// BlockStatistics(h).
BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h);
// PseudoGradient for callers that need h only in pieces: calls then(begin, h) for elements [begin, begin + h.size()),
// which are kPiece or the remainder. A piece is small enough to stay in the nearest cache, and the processor loads
// the inputs of the next pieces while `then` runs. With a whole block of h, memory would idle meanwhile. CPUs without
// AVX-512 compute the whole block first.
constexpr size_t kPiece = 256;  // elements
using ThenPiece = absl::FunctionRef<void(size_t begin, std::span<const float> h)>;
BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          ThenPiece then);
// The sum_squares of BlockStatistics; requires finite elements.
double BlockSquares(std::span<const float> x);
double BlockDot(std::span<const float> a, std::span<const float> b);

// These functions take any length. Sums add the results of the blocks in block order.
double Dot(std::span<const float> a, std::span<const float> b);
bool AllFinite(std::span<const float> x);
float MaxAbs(std::span<const float> x);  // requires finite elements

// Name of the instruction set in use ("AVX2", "SSE4", ...), for the start-up line.
const char* InstructionSet();

// The scalar reference: the functions with arithmetic of their own, in plain C++.
namespace scalar {
void Copy(std::span<const float> from, std::span<float> to);
void Scale(float weight, std::span<const float> x, std::span<float> out);
void ScaledAccumulate(float weight, std::span<const float> x, std::span<float> acc);
void Add(std::span<const float> x, std::span<float> target);
void Subtract(std::span<const float> a, std::span<const float> b, std::span<float> out);
void Merge(double mix, std::span<const float> outer, std::span<float> local);
void Order(std::span<float> a, std::span<float> b);
void OuterDirection(const OuterCoefficients& c, std::span<float> momentum, std::span<float> g_to_u);
OuterSums OuterStep(const OuterCoefficients& c, std::span<float> momentum, std::span<const float> residual,
                    std::span<float> g_to_h);
BlockStats BlockStatistics(std::span<const float> x);
BlockStats PseudoGradient(std::span<const float> outer, std::span<const float> local, std::span<const float> residual,
                          std::span<float> h);
double BlockDot(std::span<const float> a, std::span<const float> b);
}  // namespace scalar

}  // namespace atl::vecmath

#endif  // ATOLL_COMMON_VECMATH_VECMATH_H_
