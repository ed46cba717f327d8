// SPDX-License-Identifier: Apache-2.0
// The single pass of form_math.h on the host, group by group and lane by lane as in
// form_kernels.cu, for the test of the arithmetic and for plugins without a GPU.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_FORM_ON_HOST_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_FORM_ON_HOST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "worker/device/gpu_abi.h"
#include "worker/gpu/form_math.h"

namespace atl::form_on_host {

// `residual` and `lost` may be null.
struct Ranges {
  const float *outer, *local, *residual;
  float* lost;
  uint8_t* encoded;
  atoll_gpu_block_sums* sums;
};

template <typename Codec>
void StoreCodes(const std::vector<uint32_t>& codes, uint8_t* to) {
  for (size_t i = 0; i < codes.size(); ++i) {
    if constexpr (Codec::kCodeBits == 4) {
      to[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? codes[i] : to[i / 2] | codes[i] << 4);
    } else {
      for (size_t byte = 0; byte < Codec::kCodeBits / 8; ++byte) {
        to[i * Codec::kCodeBits / 8 + byte] = static_cast<uint8_t>(codes[i] >> (8 * byte));
      }
    }
  }
}

// The elements of one group: their bytes, and their losses.
template <typename Codec>
void FormGroup(const float* h, uint32_t count, float* lost, uint8_t* to) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    largest = std::max(largest, codec_math::Magnitude(codec_math::BitsOf(h[i])));
  }
  const uint32_t scale = Codec::Scale(largest);
  for (uint32_t byte = 0; byte < Codec::kScaleBytes; ++byte) to[byte] = static_cast<uint8_t>(scale >> (8 * byte));
  std::vector<uint32_t> codes(count);
  for (uint32_t i = 0; i < count; ++i) {
    codes[i] = Codec::Code(codec_math::BitsOf(h[i]), scale);
    lost[i] = form_math::Lost(h[i], Codec::Value(codes[i], scale));
  }
  StoreCodes<Codec>(codes, to + Codec::kScaleBytes);
}

inline double SumOfSquares(const float* x, uint32_t count) {
  std::array<double, form_math::kLanes> lanes{};
  for (uint32_t i = 0; i < count; ++i) {
    lanes[i % form_math::kLanes] = form_math::AddedSquare(lanes[i % form_math::kLanes], x[i]);
  }
  for (uint32_t half = form_math::kLanes / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

template <typename Codec>
void Form(const Ranges& r, uint64_t elements) {
  std::array<float, form_math::kBlock> h, lost;
  for (uint64_t begin = 0; begin < elements; begin += form_math::kBlock) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(form_math::kBlock, elements - begin));
    const uint64_t block = begin / form_math::kBlock;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t at = begin + i;
      h[i] = r.residual != nullptr ? form_math::Sent(r.outer[at], r.local[at], r.residual[at])
                                   : form_math::Sent(r.outer[at], r.local[at]);
      largest = std::max(largest, codec_math::Magnitude(codec_math::BitsOf(h[i])));
    }
    uint8_t* to = r.encoded + block * form_math::kBlockBytes<Codec>;
    for (uint32_t at = 0; at < count; at += Codec::kGroup, to += form_math::kGroupBytes<Codec>) {
      FormGroup<Codec>(&h[at], std::min(Codec::kGroup, count - at), &lost[at], to);
    }
    if (r.lost != nullptr) std::copy_n(lost.begin(), count, r.lost + begin);
    r.sums[block] = {SumOfSquares(h.data(), count), SumOfSquares(lost.data(), count), largest, 0};
  }
}

// Returns false for an unknown codec.
inline bool Form(atoll_gpu_codec codec, const Ranges& ranges, uint64_t elements) {
  switch (codec) {
    case ATOLL_GPU_CODEC_FP32: Form<form_math::Fp32>(ranges, elements); return true;
    case ATOLL_GPU_CODEC_FP16: Form<form_math::Fp16>(ranges, elements); return true;
    case ATOLL_GPU_CODEC_BF16: Form<form_math::Bf16>(ranges, elements); return true;
    case ATOLL_GPU_CODEC_INT8: Form<form_math::Int8>(ranges, elements); return true;
    case ATOLL_GPU_CODEC_MXFP4: Form<form_math::Fp4<codec_math::Mxfp4>>(ranges, elements); return true;
    case ATOLL_GPU_CODEC_E3M0: Form<form_math::Fp4<codec_math::E3m0>>(ranges, elements); return true;
  }
  return false;
}

}  // namespace atl::form_on_host

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_FORM_ON_HOST_H_
