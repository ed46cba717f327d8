#include "common/codec/fused.h"

#include "common/codec/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/fused.cc"
// The kernels must come after it.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "hwy/cache_control.h"
#include "common/codec/block_kernels-inl.h"
#include "common/codec/word_kernels-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

// Asks for the bytes of the same elements one codec block further on. What is decoded comes from memory in pieces that
// are shorter than the hardware needs to see a stream, and it never looks beyond a page.
struct Ahead {
  const std::byte* next;
  size_t quarter_shift;  // an element takes 4 bytes >> this
  HWY_INLINE void Ask(size_t i) const { hwy::Prefetch(next + (i * 4 >> quarter_shift)); }
};

HWY_INLINE Ahead AheadOf(CodecKind kind, const std::byte* in) {
  switch (kind) {
    case CodecKind::kFp32: return {in + 4 * kCodecBlock, 0};
    case CodecKind::kFp16:
    case CodecKind::kBf16: return {in + 2 * kCodecBlock, 1};
    case CodecKind::kInt8: return {in + kCodecBlock, 2};
    case CodecKind::kMxfp4:
    case CodecKind::kE3m0: return {in + kCodecBlock / 2, 3};
  }
  return {in, 0};
}

// vecmath's Scale and ScaledAccumulate, a vector at a time.
struct ScaleTo {
  float weight;
  float* out;
  Ahead ahead;
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) const {
    ahead.Ask(i);
    const Floats d;
    hn::StoreU(hn::Mul(hn::Set(d, weight), x), d, out + i);
  }
};

struct AccumulateTo {
  float weight;
  float* acc;
  Ahead ahead;
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) const {
    ahead.Ask(i);
    const Floats d;
    hn::StoreU(hn::Add(hn::LoadU(d, acc + i), hn::Mul(hn::Set(d, weight), x)), d, acc + i);
  }
};

// Decodes as many of n elements as whole vectors and blocks cover; how many that was.
template <class Emit>
HWY_INLINE size_t DecodeEach(CodecKind kind, const std::byte* in, size_t n, Emit& emit) {
  const Floats d;
  switch (kind) {
    case CodecKind::kFp32: {
      const float* x = reinterpret_cast<const float*>(in);
      size_t i = 0;
      for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) emit(i, hn::LoadU(d, x + i));
      return i;
    }
    case CodecKind::kFp16: return DecodeWholeWords<Half>(in, n, emit);
    case CodecKind::kBf16: return DecodeWholeWords<Bfloat16>(in, n, emit);
    case CodecKind::kInt8: DecodeInt8Blocks(in, n / kInt8Block, emit); return n - n % kInt8Block;
    case CodecKind::kMxfp4: DecodeFp4Blocks<E2m1>(in, n / kFp4Block, emit); return n - n % kFp4Block;
    case CodecKind::kE3m0: DecodeFp4Blocks<E3m0>(in, n / kFp4Block, emit); return n - n % kFp4Block;
  }
  return 0;
}

size_t ScaledInto(CodecKind kind, const std::byte* in, float weight, float* out, size_t n) {
  ScaleTo emit{weight, out, AheadOf(kind, in)};
  return DecodeEach(kind, in, n, emit);
}

size_t AccumulatedInto(CodecKind kind, const std::byte* in, float weight, float* acc, size_t n) {
  AccumulateTo emit{weight, acc, AheadOf(kind, in)};
  return DecodeEach(kind, in, n, emit);
}

// vecmath's Subtract, Add and MaxAbs at once.
struct Settle {
  const float* h;
  float* lost;
  float* public_copy;
  hn::Vec<Unsigned> lost_max, public_max;
  HWY_INLINE Settle(const float* from, float* to, float* target)
      : h(from), lost(to), public_copy(target), lost_max(hn::Zero(Unsigned())), public_max(hn::Zero(Unsigned())) {}
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) {
    const Floats d;
    const Unsigned du;
    const auto mask = hn::Set(du, 0x7fffffffu);
    const auto rest = hn::Sub(hn::LoadU(d, h + i), x);
    const auto sum = hn::Add(hn::LoadU(d, public_copy + i), x);
    hn::StoreU(rest, d, lost + i);
    hn::StoreU(sum, d, public_copy + i);
    lost_max = hn::Max(lost_max, hn::And(hn::BitCast(du, rest), mask));
    public_max = hn::Max(public_max, hn::And(hn::BitCast(du, sum), mask));
  }
};

size_t SettledInto(CodecKind kind, const std::byte* in, const float* h, float* lost, float* public_copy, size_t n,
                   uint32_t* maxima) {
  const Unsigned d;
  Settle emit(h, lost, public_copy);
  const size_t done = DecodeEach(kind, in, n, emit);
  maxima[0] = hn::GetLane(hn::MaxOfLanes(d, emit.lost_max));
  maxima[1] = hn::GetLane(hn::MaxOfLanes(d, emit.public_max));
  return done;
}

#if HWY_TARGET <= HWY_AVX3
// vecmath's sums: element i in lane i % 16, in fp64.
struct Sum {
  using Wide = hn::CappedTag<double, 8>;
  hn::Vec<Wide> low, high;
  hn::Vec<Unsigned> largest;
  Ahead ahead;
  HWY_INLINE explicit Sum(Ahead next)
      : low(hn::Zero(Wide())), high(hn::Zero(Wide())), largest(hn::Zero(Unsigned())), ahead(next) {}
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) {
    ahead.Ask(i);
    const Unsigned du;
    const hn::Half<Floats> half;
    largest = hn::Max(largest, hn::And(hn::BitCast(du, x), hn::Set(du, 0x7fffffffu)));
    const auto a = hn::PromoteTo(Wide(), hn::LowerHalf(half, x));
    const auto b = hn::PromoteTo(Wide(), hn::UpperHalf(half, x));
    low = hn::Add(low, hn::Mul(a, a));
    high = hn::Add(high, hn::Mul(b, b));
  }
};

bool Statistics(CodecKind kind, const std::byte* in, size_t n, vecmath::BlockStats& stats) {
  if (n % kInt8Block != 0) return false;
  Sum sum(AheadOf(kind, in));
  DecodeEach(kind, in, n, sum);
  const uint32_t largest = hn::GetLane(hn::MaxOfLanes(Unsigned(), sum.largest));
  stats = {.sum_squares = 0, .max_abs = 0, .finite = false};
  if (largest >= 0x7f800000u) return true;
  alignas(64) double lanes[16];
  hn::Store(sum.low, Sum::Wide(), lanes);
  hn::Store(sum.high, Sum::Wide(), lanes + 8);
  for (size_t width = 8; width >= 1; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  stats = {.sum_squares = lanes[0], .max_abs = std::bit_cast<float>(largest), .finite = true};
  return true;
}
#else
// Narrower vectors gain nothing: the caller decodes into memory.
bool Statistics(CodecKind /*kind*/, const std::byte* /*in*/, size_t /*n*/, vecmath::BlockStats& /*stats*/) {
  return false;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace atl::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>

#include "common/base/check.h"

namespace atl {
namespace codec {

HWY_EXPORT(ScaledInto);
HWY_EXPORT(AccumulatedInto);
HWY_EXPORT(SettledInto);
HWY_EXPORT(Statistics);

size_t ScaledInto(CodecKind kind, const std::byte* in, float weight, std::span<float> out) {
  return HWY_DYNAMIC_DISPATCH(ScaledInto)(kind, in, weight, out.data(), out.size());
}
size_t AccumulatedInto(CodecKind kind, const std::byte* in, float weight, std::span<float> acc) {
  return HWY_DYNAMIC_DISPATCH(AccumulatedInto)(kind, in, weight, acc.data(), acc.size());
}
size_t SettledInto(CodecKind kind, const std::byte* in, std::span<const float> h, std::span<float> lost,
                   std::span<float> public_copy, std::array<uint32_t, 2>& maxima) {
  return HWY_DYNAMIC_DISPATCH(SettledInto)(kind, in, h.data(), lost.data(), public_copy.data(), h.size(),
                                           maxima.data());
}
bool Statistics(CodecKind kind, const std::byte* in, size_t n, vecmath::BlockStats& stats) {
  return HWY_DYNAMIC_DISPATCH(Statistics)(kind, in, n, stats);
}

}  // namespace codec

namespace {

const std::byte* At(CodecKind kind, Bytes encoded, uint64_t begin, size_t elements) {
  const ByteRange range = EncodedRange(kind, begin, elements);
  ATOLL_CHECK(range.offset <= encoded.size() && range.bytes <= encoded.size() - range.offset,
              "a range ends beyond the encoding");
  ATOLL_CHECK(elements % kCodecBlock == 0 || range.offset + range.bytes == encoded.size(),
              "a range of an encoding ends inside a block");
  return encoded.data() + range.offset;
}

// What whole vectors and blocks left over: fewer elements than a block. Decoded from a multiple of one.
std::span<float> Rest(CodecKind kind, const std::byte* in, size_t done, size_t elements, std::span<float> scratch) {
  const std::span<float> rest = scratch.first(elements - done);
  Decode(kind, {in + EncodedSize(kind, done), EncodedSize(kind, rest.size())}, rest);
  return rest;
}

}  // namespace

void DecodeScaled(CodecKind kind, Bytes encoded, uint64_t begin, float weight, std::span<float> out) {
  if (out.empty()) return;
  const std::byte* in = At(kind, encoded, begin, out.size());
  const size_t done = codec::ScaledInto(kind, in, weight, out);
  std::array<float, codec::kInt8Block> scratch;
  vecmath::Scale(weight, Rest(kind, in, done, out.size(), scratch), out.subspan(done));
}

void DecodeScaledAccumulate(CodecKind kind, Bytes encoded, uint64_t begin, float weight, std::span<float> acc) {
  if (acc.empty()) return;
  const std::byte* in = At(kind, encoded, begin, acc.size());
  const size_t done = codec::AccumulatedInto(kind, in, weight, acc);
  std::array<float, codec::kInt8Block> scratch;
  vecmath::ScaledAccumulate(weight, Rest(kind, in, done, acc.size(), scratch), acc.subspan(done));
}

vecmath::BlockStats DecodedStatistics(CodecKind kind, Bytes encoded, uint64_t begin, size_t elements) {
  ATOLL_CHECK(elements <= kCodecBlock, "a block of a sum is longer than kSumBlock");
  vecmath::BlockStats stats;
  if (elements == 0) return stats;
  const std::byte* in = At(kind, encoded, begin, elements);
  if (codec::Statistics(kind, in, elements, stats)) return stats;
  std::array<float, kCodecBlock> scratch;
  return vecmath::BlockStatistics(Rest(kind, in, 0, elements, scratch));
}

Settled DecodeSettle(CodecKind kind, Bytes q, std::span<const float> h, std::span<float> lost,
                     std::span<float> public_copy) {
  ATOLL_CHECK(h.size() <= kCodecBlock && h.size() == lost.size() && h.size() == public_copy.size(),
              "spans of one kernel differ in length or are too long");
  if (h.empty()) return {};
  const std::byte* in = At(kind, q, 0, h.size());
  std::array<uint32_t, 2> maxima;
  const size_t done = codec::SettledInto(kind, in, h, lost, public_copy, maxima);
  std::array<float, codec::kInt8Block> scratch;
  const std::span<const float> rest = Rest(kind, in, done, h.size(), scratch);
  vecmath::Subtract(h.subspan(done), rest, lost.subspan(done));
  vecmath::Add(rest, public_copy.subspan(done));
  return {std::max(std::bit_cast<float>(maxima[0]), vecmath::MaxAbs(lost.subspan(done))),
          std::max(std::bit_cast<float>(maxima[1]), vecmath::MaxAbs(public_copy.subspan(done)))};
}

}  // namespace atl
#endif  // HWY_ONCE
