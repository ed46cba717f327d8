// SPDX-License-Identifier: Apache-2.0
// int8, mxfp4 and e3m0 over spans: whole blocks with the CPU's best instruction set, the rest with
// the reference.
#include "common/codec/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/block_kernels.cc"
// foreach_target.h must come before the kernels.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "common/codec/block_kernels-inl.h"
#include "common/codec/fp4_encoding-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

void EncodeInt8Blocks(const float* in, size_t blocks, std::byte* out) {
  for (size_t b = 0; b < blocks; ++b) EncodeInt8Block(in + b * kInt8Block, out + b * Int8Bytes(kInt8Block));
}
void DecodeInt8To(const std::byte* in, size_t blocks, float* out) {
  KeepAt keep{out};
  DecodeInt8Blocks(in, blocks, keep);
}
void EncodeMxfp4Blocks(const float* in, size_t blocks, std::byte* out) { EncodeFp4Blocks<E2m1>(in, blocks, out); }
void DecodeMxfp4To(const std::byte* in, size_t blocks, float* out) {
  KeepAt keep{out};
  DecodeFp4Blocks<E2m1>(in, blocks, keep);
}
void EncodeE3m0Blocks(const float* in, size_t blocks, std::byte* out) { EncodeFp4Blocks<E3m0>(in, blocks, out); }
void DecodeE3m0To(const std::byte* in, size_t blocks, float* out) {
  KeepAt keep{out};
  DecodeFp4Blocks<E3m0>(in, blocks, keep);
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atl::codec {

HWY_EXPORT(EncodeInt8Blocks);
HWY_EXPORT(DecodeInt8To);
HWY_EXPORT(EncodeMxfp4Blocks);
HWY_EXPORT(DecodeMxfp4To);
HWY_EXPORT(EncodeE3m0Blocks);
HWY_EXPORT(DecodeE3m0To);

namespace {

// Encodes whole blocks with `vectors`, and the remaining elements with `reference`. DecodeWith does the reverse.
template <size_t kBlock, size_t kBytes>
void EncodeWith(void (*vectors)(const float*, size_t, std::byte*),
                void (*reference)(std::span<const float>, std::byte*), std::span<const float> in, std::byte* out) {
  const size_t blocks = in.size() / kBlock;
  vectors(in.data(), blocks, out);
  reference(in.subspan(blocks * kBlock), out + blocks * kBytes);
}

template <size_t kBlock, size_t kBytes>
void DecodeWith(void (*vectors)(const std::byte*, size_t, float*),
                void (*reference)(const std::byte*, std::span<float>), const std::byte* in, std::span<float> out) {
  const size_t blocks = out.size() / kBlock;
  vectors(in, blocks, out.data());
  reference(in + blocks * kBytes, out.subspan(blocks * kBlock));
}

}  // namespace

void EncodeInt8(std::span<const float> in, std::byte* out) {
  EncodeWith<kInt8Block, Int8Bytes(kInt8Block)>(HWY_DYNAMIC_DISPATCH(EncodeInt8Blocks), scalar::EncodeInt8, in, out);
}
void DecodeInt8(const std::byte* in, std::span<float> out) {
  DecodeWith<kInt8Block, Int8Bytes(kInt8Block)>(HWY_DYNAMIC_DISPATCH(DecodeInt8To), scalar::DecodeInt8, in, out);
}
void EncodeMxfp4(std::span<const float> in, std::byte* out) {
  EncodeWith<kFp4Block, Fp4Bytes(kFp4Block)>(HWY_DYNAMIC_DISPATCH(EncodeMxfp4Blocks), scalar::EncodeMxfp4, in, out);
}
void DecodeMxfp4(const std::byte* in, std::span<float> out) {
  DecodeWith<kFp4Block, Fp4Bytes(kFp4Block)>(HWY_DYNAMIC_DISPATCH(DecodeMxfp4To), scalar::DecodeMxfp4, in, out);
}
void EncodeE3m0(std::span<const float> in, std::byte* out) {
  EncodeWith<kFp4Block, Fp4Bytes(kFp4Block)>(HWY_DYNAMIC_DISPATCH(EncodeE3m0Blocks), scalar::EncodeE3m0, in, out);
}
void DecodeE3m0(const std::byte* in, std::span<float> out) {
  DecodeWith<kFp4Block, Fp4Bytes(kFp4Block)>(HWY_DYNAMIC_DISPATCH(DecodeE3m0To), scalar::DecodeE3m0, in, out);
}

}  // namespace atl::codec
#endif  // HWY_ONCE
