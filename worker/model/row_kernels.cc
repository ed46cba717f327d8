// SPDX-License-Identifier: Apache-2.0
// Dispatches to the best instruction set of this CPU.
#include "worker/model/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/model/row_kernels.cc"
// The kernels must be included after foreach_target.h.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "worker/model/row_kernels-inl.h"
// clang-format on

#if HWY_ONCE
namespace atl::rows {

#define ATOLL_EXPORT_ROWS(T, N)                                                                                \
  HWY_EXPORT(Norm##N);                                                                                         \
  HWY_EXPORT(NormGradient##N);                                                                                 \
  HWY_EXPORT(Rotate##N);                                                                                       \
  HWY_EXPORT(SwiGlu##N);                                                                                       \
  HWY_EXPORT(SwiGluGradient##N);                                                                               \
  HWY_EXPORT(CrossEntropy##N);                                                                                 \
  void Norm(Shape shape, const NormArguments<T>& a) { HWY_DYNAMIC_DISPATCH(Norm##N)(shape, a); }               \
  void NormGradient(Shape shape, const NormGradientArguments<T>& a) {                                          \
    HWY_DYNAMIC_DISPATCH(NormGradient##N)(shape, a);                                                           \
  }                                                                                                            \
  void Rotate(Shape heads, const float* cos, const float* sin, bool backwards, T* x) {                         \
    HWY_DYNAMIC_DISPATCH(Rotate##N)(heads, cos, sin, backwards, x);                                            \
  }                                                                                                            \
  void SwiGlu(Shape shape, const T* gate_up, T* out) { HWY_DYNAMIC_DISPATCH(SwiGlu##N)(shape, gate_up, out); } \
  void SwiGluGradient(Shape shape, const T* dout, T* gate_up) {                                                \
    HWY_DYNAMIC_DISPATCH(SwiGluGradient##N)(shape, dout, gate_up);                                             \
  }                                                                                                            \
  double CrossEntropy(Shape shape, const int64_t* targets, double scale, double z_loss, T* scores) {           \
    return HWY_DYNAMIC_DISPATCH(CrossEntropy##N)(shape, targets, scale, z_loss, scores);                       \
  }
ATOLL_FOR_BOTH(ATOLL_EXPORT_ROWS)

HWY_EXPORT(RoundToBf16);
void RoundToBf16(size_t count, const float* x, float* out) { HWY_DYNAMIC_DISPATCH(RoundToBf16)(count, x, out); }

}  // namespace atl::rows
#endif  // HWY_ONCE
