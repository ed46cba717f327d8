// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 over spans, with the CPU's best instruction set.
#include "common/codec/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/word_kernels.cc"
// foreach_target.h must come before the kernels.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "common/codec/word_kernels-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

void EncodeHalf(std::span<const float> in, std::byte* out) { EncodeWords<Half>(in, out); }
void DecodeHalf(const std::byte* in, std::span<float> out) { DecodeWords<Half>(in, out); }
void EncodeBfloat16(std::span<const float> in, std::byte* out) { EncodeWords<Bfloat16>(in, out); }
void DecodeBfloat16(const std::byte* in, std::span<float> out) { DecodeWords<Bfloat16>(in, out); }

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atl::codec {

HWY_EXPORT(EncodeHalf);
HWY_EXPORT(DecodeHalf);
HWY_EXPORT(EncodeBfloat16);
HWY_EXPORT(DecodeBfloat16);

void EncodeHalf(std::span<const float> in, std::byte* out) { HWY_DYNAMIC_DISPATCH(EncodeHalf)(in, out); }
void DecodeHalf(const std::byte* in, std::span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeHalf)(in, out); }
void EncodeBfloat16(std::span<const float> in, std::byte* out) { HWY_DYNAMIC_DISPATCH(EncodeBfloat16)(in, out); }
void DecodeBfloat16(const std::byte* in, std::span<float> out) { HWY_DYNAMIC_DISPATCH(DecodeBfloat16)(in, out); }

}  // namespace atl::codec
#endif  // HWY_ONCE
