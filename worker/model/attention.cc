// SPDX-License-Identifier: Apache-2.0
// Dispatches to the best instruction set of this CPU.
#include "worker/model/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/model/attention.cc"
// The kernels must be included after foreach_target.h.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "worker/model/attention-inl.h"
// clang-format on

#if HWY_ONCE
namespace atl::attention {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardBf16);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardBf16);

void Forward(const HeadGroup<float>& group, const Mixed<float>& mixed) {
  HWY_DYNAMIC_DISPATCH(ForwardFloat)(group, mixed);
}
void Forward(const HeadGroup<uint16_t>& group, const Mixed<uint16_t>& mixed) {
  HWY_DYNAMIC_DISPATCH(ForwardBf16)(group, mixed);
}
void Backward(const HeadGroup<float>& group, const Mixed<float>& mixed, const Gradients<float>& gradients) {
  HWY_DYNAMIC_DISPATCH(BackwardFloat)(group, mixed, gradients);
}
void Backward(const HeadGroup<uint16_t>& group, const Mixed<uint16_t>& mixed, const Gradients<uint16_t>& gradients) {
  HWY_DYNAMIC_DISPATCH(BackwardBf16)(group, mixed, gradients);
}

}  // namespace atl::attention
#endif  // HWY_ONCE
