// SPDX-License-Identifier: Apache-2.0
// Fragments for forming contributions, and the host's implementation as the reference for the
// single pass.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_FORM_CASES_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_FORM_CASES_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/codec/fused.h"
#include "common/vecmath/vecmath.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/form_on_host.h"

namespace atl::form_cases {

struct Case {
  std::vector<float> outer, local, residual;
};

struct Formed {
  std::vector<std::byte> encoded;
  std::vector<float> lost;
  std::vector<atoll_gpu_block_sums> sums;
};

inline atoll_gpu_codec OfPlugin(CodecKind kind) {
  constexpr std::array<atoll_gpu_codec, 6> kOf = {ATOLL_GPU_CODEC_FP32, ATOLL_GPU_CODEC_FP16,  ATOLL_GPU_CODEC_BF16,
                                                  ATOLL_GPU_CODEC_INT8, ATOLL_GPU_CODEC_MXFP4, ATOLL_GPU_CODEC_E3M0};
  return kOf[static_cast<size_t>(kind)];
}

// Replaces non-finite values by zeros and divides by a hundred: no difference overflows.
inline std::vector<float> FiniteOf(std::vector<float> values) {
  for (float& x : values) x = !std::isfinite(x) ? 0.0f : std::fabs(x) > 1e36f ? x * 0.01f : x;
  return values;
}

// Parameters of all magnitudes and small steps away from them.
inline Case Random(uint64_t key, size_t size) {
  Case c;
  c.outer = FiniteOf(codec_cases::Random(key, size));
  c.local = FiniteOf(codec_cases::Random(key + 1'000'000, size));
  c.residual = FiniteOf(codec_cases::Random(key + 2'000'000, size));
  return c;
}

// A case that sends `sent` without a residual; with a residual it moves by half of it.
inline Case OfSent(std::vector<float> sent) {
  Case c{std::move(sent), {}, {}};
  c.local.assign(c.outer.size(), 0.0f);
  for (const float x : c.outer) c.residual.push_back(x * -0.5f);
  return c;
}

inline Formed RoomFor(CodecKind kind, size_t elements) {
  return {std::vector<std::byte>(EncodedSize(kind, elements)), std::vector<float>(elements),
          std::vector<atoll_gpu_block_sums>((elements + kCodecBlock - 1) / kCodecBlock)};
}

inline Formed ByThePass(CodecKind kind, const Case& c, bool with_residual) {
  Formed out = RoomFor(kind, c.outer.size());
  form_on_host::Form(OfPlugin(kind),
                     {c.outer.data(), c.local.data(), with_residual ? c.residual.data() : nullptr, out.lost.data(),
                      reinterpret_cast<uint8_t*>(out.encoded.data()), out.sums.data()},
                     c.outer.size());
  return out;
}

// All sent values must be finite.
inline Formed ByTheHost(CodecKind kind, const Case& c, bool with_residual) {
  Formed out = RoomFor(kind, c.outer.size());
  std::array<float, kCodecBlock> memory;
  for (size_t at = 0; at < c.outer.size(); at += kCodecBlock) {
    const size_t count = std::min(kCodecBlock, c.outer.size() - at);
    const std::span<float> h = std::span(memory).first(count);
    const auto of = [&](const std::vector<float>& values) { return std::span(values).subspan(at, count); };
    const vecmath::BlockStats sent =
        vecmath::PseudoGradient(of(c.outer), of(c.local), with_residual ? of(c.residual) : std::span<const float>(), h);
    const ByteRange range = EncodedRange(kind, at, count);
    const std::span<std::byte> q = std::span(out.encoded).subspan(range.offset, range.bytes);
    Encode(kind, h, q);
    const double lost = DecodeLost(kind, q, h, std::span(out.lost).subspan(at, count));
    out.sums[at / kCodecBlock] = {sent.sum_squares, lost, std::bit_cast<uint32_t>(sent.max_abs), 0};
  }
  return out;
}

}  // namespace atl::form_cases

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_FORM_CASES_H_
