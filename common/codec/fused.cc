// SPDX-License-Identifier: Apache-2.0
#include "common/codec/fused.h"

#include "common/codec/families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/fused.cc"
// foreach_target.h must come before the kernels.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "hwy/cache_control.h"
#include "common/codec/block_kernels-inl.h"
#include "common/codec/fp4_kernels-inl.h"
#include "common/codec/word_kernels-inl.h"
#include "common/vecmath/square_sum-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace atl::codec {
namespace HWY_NAMESPACE {

// Prefetches the bytes one codec block (kCodecBlock elements) after those being decoded. Decoding reads
// memory in runs that are too short for the hardware prefetcher, which also stops at page boundaries.
struct Ahead {
  const std::byte* next;
  size_t bits;  // of an element
  HWY_INLINE void Ask(size_t i) const { hwy::Prefetch(next + i * bits / 8); }
};

HWY_INLINE Ahead AheadOf(CodecKind kind, const std::byte* in) {
  const size_t bits = FormOf(kind).bits;
  return {in + kCodecBlock * bits / 8, bits};
}

// vecmath's Scale and ScaledAccumulate, one vector at a time.
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

// Decodes kLargestBlock elements at a time through memory, for a codec without SIMD code in DecodeEach.
template <class Emit>
HWY_INLINE size_t DecodeThroughMemory(const CodecForm& form, const std::byte* in, size_t n, Emit& emit) {
  const Floats d;
  alignas(64) float values[kLargestBlock];
  const size_t bytes = kLargestBlock / form.block * form.BytesOf(form.block);
  size_t i = 0;
  for (; i + kLargestBlock <= n; i += kLargestBlock, in += bytes) {
    form.decode(in, {values, kLargestBlock});
    for (size_t k = 0; k < kLargestBlock; k += hn::Lanes(d)) emit(i + k, hn::Load(d, values + k));
  }
  return i;
}

// Decodes as many of the n elements as whole vectors and blocks cover. Returns that number.
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
    default: return DecodeThroughMemory(FormOf(kind), in, n, emit);
  }
}

size_t ScaledInto(CodecKind kind, const std::byte* in, float weight, float* out, size_t n) {
  ScaleTo emit{weight, out, AheadOf(kind, in)};
  return DecodeEach(kind, in, n, emit);
}

size_t AccumulatedInto(CodecKind kind, const std::byte* in, float weight, float* acc, size_t n) {
  AccumulateTo emit{weight, acc, AheadOf(kind, in)};
  return DecodeEach(kind, in, n, emit);
}

// vecmath's Subtract, Add and MaxAbs in one pass.
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
    __builtin_prefetch(public_copy + i + kCodecBlock, 1, 2);  // prefetch for writing: same position in the next block
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
using SquareSum = vecmath::HWY_NAMESPACE::SquareSum;

struct Sum {
  SquareSum squares;
  hn::Vec<Unsigned> largest;
  Ahead ahead;
  HWY_INLINE explicit Sum(Ahead next) : largest(hn::Zero(Unsigned())), ahead(next) {}
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) {
    ahead.Ask(i);
    const Unsigned du;
    largest = hn::Max(largest, hn::And(hn::BitCast(du, x), hn::Set(du, 0x7fffffffu)));
    squares.Add(x);
  }
};

template <bool kStream>
struct Lose {
  const float* h;
  float* lost;
  SquareSum squares;
  HWY_INLINE Lose(const float* from, float* to) : h(from), lost(to) {}
  template <class V>
  HWY_INLINE void operator()(size_t i, V x) {
    const Floats d;
    const auto rest = hn::Sub(hn::LoadU(d, h + i), x);
    squares.Add(rest);
    if constexpr (kStream) {
      hn::Stream(rest, d, lost + i);
    } else {
      hn::StoreU(rest, d, lost + i);
    }
  }
};

template <bool kStream>
double Lost(CodecKind kind, const std::byte* in, const float* h, float* lost, size_t n) {
  Lose<kStream> emit(h, lost);
  DecodeEach(kind, in, n, emit);
  return emit.squares.Total();
}

// Computes DecodeLost, with the sum in `squares`. False, without effect, unless n is a multiple of kLargestBlock.
bool LostInto(CodecKind kind, const std::byte* in, const float* h, float* lost, size_t n, double* squares) {
  if (n % kLargestBlock != 0) return false;
  const bool stream = h != lost && reinterpret_cast<uintptr_t>(lost) % 64 == 0;
  *squares = stream ? Lost<true>(kind, in, h, lost, n) : Lost<false>(kind, in, h, lost, n);
  return true;
}

// Sums of squares of block formats without converting each value to fp64. Squares are integer
// multiples of the square of their block's unit. If the scales of a codec block are close enough,
// every partial sum has at most 53 bits. Any order of additions then gives the same exact result,
// including the order of vecmath's lanes. Exponents are those of the stored scales.
struct Spread {
  int least = 255, most = 0;
  HWY_INLINE void Add(int exponent) {
    least = std::min(least, exponent);
    most = std::max(most, exponent);
  }
  bool Within(int distance) const { return most - least <= distance; }  // true also without blocks
};

// Lookup tables for the squares of codes: low and high bytes of integers. The unit is 2^(2 e -
// kUnitShift) for scale 2^e.
struct E2m1Squares {
  using Format = E2m1;
  static constexpr int kUnitShift = 2, kDistance = 16,
                       kLargestScale = 252;  // 12 + 8 + 2 * 16 bits; 6 scales are finite
  static constexpr bool kWide = false;
  static constexpr uint8_t kLow[16] = {0, 1, 4, 9, 16, 36, 64, 144, 0, 1, 4, 9, 16, 36, 64, 144};
  static constexpr uint8_t kHigh[16] = {};
};

struct E3m0Squares {
  using Format = E3m0;
  static constexpr int kUnitShift = 12, kDistance = 14, kLargestScale = 254;  // 12 + 13 + 2 * 14 bits
  static constexpr bool kWide = true;
  static constexpr uint8_t kLow[16] = {0, 1, 4, 16, 64, 0, 0, 0, 0, 1, 4, 16, 64, 0, 0, 0};
  static constexpr uint8_t kHigh[16] = {0, 0, 0, 0, 0, 1, 4, 16, 0, 0, 0, 0, 0, 1, 4, 16};
};

// False, with `stats` undefined, if the blocks' scales are too far apart, or larger than any encoder writes.
template <class Squares>
HWY_INLINE bool ExactFp4(const std::byte* in, size_t blocks, vecmath::BlockStats& stats) {
  const Floats df;
  const SmallCodes d8;
  const hn::Repartition<uint16_t, SmallCodes> d16;
  const hn::Repartition<uint64_t, SmallCodes> d64;
  const hn::Repartition<int64_t, SmallCodes> s64;
  const hn::Repartition<double, SmallCodes> dd;
  const auto low_squares = hn::LoadU(d8, Squares::kLow), high_squares = hn::LoadU(d8, Squares::kHigh);
  const auto nibble = hn::Set(d8, 0x0f), magnitude = hn::Set(d8, 0x07);
  const auto table = hn::LoadU(df, Squares::Format::Table());
  const Ahead ahead = AheadOf(CodecKind::kMxfp4, in);
  auto sum = hn::Zero(dd);
  auto largest = hn::Zero(df);
  Spread spread;
  for (size_t b = 0; b < blocks; ++b) {
    ahead.Ask(b * kFp4Block);
    const std::byte* block = in + b * Fp4Bytes(kFp4Block);
    const int scale = static_cast<int>(block[0]);
    if (scale > Squares::kLargestScale) return false;
    const auto pairs = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(block) + 1);
    const auto even = hn::And(pairs, nibble);
    const auto odd = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, pairs))), nibble);
    auto squares = hn::Add(hn::SumsOf8(hn::TableLookupBytes(low_squares, even)),
                           hn::SumsOf8(hn::TableLookupBytes(low_squares, odd)));
    if constexpr (Squares::kWide) {
      const auto high = hn::Add(hn::SumsOf8(hn::TableLookupBytes(high_squares, even)),
                                hn::SumsOf8(hn::TableLookupBytes(high_squares, odd)));
      squares = hn::Add(squares, hn::ShiftLeft<8>(high));
    }
    if (scale == 0 && hn::AllTrue(d64, hn::Eq(squares, hn::Zero(d64)))) continue;  // block of zeros
    spread.Add(scale);
    const uint64_t unit = static_cast<uint64_t>(2 * (scale - 127) - Squares::kUnitShift + 1023) << 52;
    const auto units = hn::Set(dd, std::bit_cast<double>(unit));
    sum = hn::Add(sum, hn::Mul(hn::ConvertTo(dd, hn::BitCast(s64, squares)), units));
    const auto codes = hn::PromoteTo(Ints(), hn::Max(hn::And(even, magnitude), hn::And(odd, magnitude)));
    const auto values = hn::Mul(table, hn::Set(df, PowerOfTwo(scale - 127)));
    largest = hn::Max(largest, hn::TableLookupLanes(values, hn::IndicesFromVec(df, codes)));
  }
  stats = {.sum_squares = hn::GetLane(hn::SumOfLanes(dd, sum)),
           .max_abs = hn::GetLane(hn::MaxOfLanes(df, largest)),
           .finite = true};
  return spread.Within(Squares::kDistance);
}

// Squares of codes summed in fp32, exact below 2^24. A scale has 8 bits. A decoded value therefore
// has at most 16 bits and is a multiple of 2^(exponent - 134); its square is below 2^(2 exponent -
// 238), and the sum of 4,096 squares has 12 more bits.
HWY_INLINE bool ExactInt8(const std::byte* in, size_t blocks, vecmath::BlockStats& stats) {
  const Floats df;
  const Ints d;
  const hn::Half<Floats> half;
  const SquareSum::Wide wide;
  const Ahead ahead = AheadOf(CodecKind::kInt8, in);
  auto low = hn::Zero(wide), high = hn::Zero(wide);
  auto largest = hn::Zero(df);
  Spread spread;
  for (size_t b = 0; b < blocks; ++b, in += Int8Bytes(kInt8Block)) {
    uint16_t scale_bits;
    std::memcpy(&scale_bits, in, 2);
    if ((scale_bits & 0x7fff) == 0) continue;
    const int exponent = scale_bits >> 7 & 0xff;
    if (exponent > 246) return false;  // 128 scales might not be finite
    spread.Add(std::max(exponent, 1));
    const float scale = FloatFromBfloat16(scale_bits);
    auto squares = hn::Zero(df), most = hn::Zero(df);
    for (size_t i = 0; i < kInt8Block; i += hn::Lanes(df)) {
      ahead.Ask(b * kInt8Block + i);
      const auto code = hn::LoadU(SignedCodes(), reinterpret_cast<const int8_t*>(in) + 2 + i);
      const auto x = hn::ConvertTo(df, hn::PromoteTo(d, code));
      squares = hn::Add(squares, hn::Mul(x, x));
      most = hn::Max(most, hn::Abs(x));
    }
    const auto unit = hn::Set(wide, static_cast<double>(scale) * static_cast<double>(scale));
    low = hn::Add(low, hn::Mul(hn::PromoteTo(wide, hn::LowerHalf(half, squares)), unit));
    high = hn::Add(high, hn::Mul(hn::PromoteTo(wide, hn::UpperHalf(half, squares)), unit));
    largest = hn::Max(largest, hn::Mul(most, hn::Abs(hn::Set(df, scale))));
  }
  stats = {.sum_squares = hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high))),
           .max_abs = hn::GetLane(hn::MaxOfLanes(df, largest)),
           .finite = true};
  return spread.Within(5);  // 12 + 30 + 2 * 5 bits
}

bool ExactStatistics(CodecKind kind, const std::byte* in, size_t n, vecmath::BlockStats& stats) {
  switch (kind) {
    case CodecKind::kInt8: return ExactInt8(in, n / kInt8Block, stats);
    case CodecKind::kMxfp4: return ExactFp4<E2m1Squares>(in, n / kFp4Block, stats);
    case CodecKind::kE3m0: return ExactFp4<E3m0Squares>(in, n / kFp4Block, stats);
    default: return false;
  }
}

bool Statistics(CodecKind kind, const std::byte* in, size_t n, vecmath::BlockStats& stats) {
  if (n % kLargestBlock != 0) return false;
  if (ExactStatistics(kind, in, n, stats)) return true;
  Sum sum(AheadOf(kind, in));
  DecodeEach(kind, in, n, sum);
  const uint32_t largest = hn::GetLane(hn::MaxOfLanes(Unsigned(), sum.largest));
  stats = {.sum_squares = 0, .max_abs = 0, .finite = false};
  if (largest >= 0x7f800000u) return true;
  stats = {.sum_squares = sum.squares.Total(), .max_abs = std::bit_cast<float>(largest), .finite = true};
  return true;
}
#else
// With narrower vectors these gain nothing: both return false, and the caller decodes into memory.
bool Statistics(CodecKind /*kind*/, const std::byte* /*in*/, size_t /*n*/, vecmath::BlockStats& /*stats*/) {
  return false;
}
bool LostInto(CodecKind /*kind*/, const std::byte* /*in*/, const float* /*h*/, float* /*lost*/, size_t /*n*/,
              double* /*squares*/) {
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
HWY_EXPORT(LostInto);

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

bool LostInto(CodecKind kind, const std::byte* in, std::span<const float> h, std::span<float> lost, double& squares) {
  return HWY_DYNAMIC_DISPATCH(LostInto)(kind, in, h.data(), lost.data(), h.size(), &squares);
}

const std::byte* RangeAt(CodecKind kind, Bytes encoded, uint64_t begin, size_t elements) {
  const ByteRange range = EncodedRange(kind, begin, elements);
  ATOLL_CHECK(range.offset <= encoded.size() && range.bytes <= encoded.size() - range.offset,
              "a range ends beyond the encoding");
  ATOLL_CHECK(elements % kCodecBlock == 0 || range.offset + range.bytes == encoded.size(),
              "a range of an encoding ends inside a block");
  return encoded.data() + range.offset;
}

}  // namespace codec

namespace {

// Decodes elements [done, elements) of an encoding into the beginning of `scratch`. `done` must be a multiple of the
// codec's block.
std::span<float> Rest(CodecKind kind, const std::byte* in, size_t done, size_t elements, std::span<float> scratch) {
  const std::span<float> rest = scratch.first(elements - done);
  Decode(kind, {in + EncodedSize(kind, done), EncodedSize(kind, rest.size())}, rest);
  return rest;
}

}  // namespace

void DecodeScaled(CodecKind kind, Bytes encoded, uint64_t begin, float weight, std::span<float> out) {
  if (out.empty()) return;
  const std::byte* in = codec::RangeAt(kind, encoded, begin, out.size());
  const size_t done = codec::ScaledInto(kind, in, weight, out);
  std::array<float, codec::kLargestBlock> scratch;
  vecmath::Scale(weight, Rest(kind, in, done, out.size(), scratch), out.subspan(done));
}

void DecodeScaledAccumulate(CodecKind kind, Bytes encoded, uint64_t begin, float weight, std::span<float> acc) {
  if (acc.empty()) return;
  const std::byte* in = codec::RangeAt(kind, encoded, begin, acc.size());
  const size_t done = codec::AccumulatedInto(kind, in, weight, acc);
  std::array<float, codec::kLargestBlock> scratch;
  vecmath::ScaledAccumulate(weight, Rest(kind, in, done, acc.size(), scratch), acc.subspan(done));
}

vecmath::BlockStats DecodedStatistics(CodecKind kind, Bytes encoded, uint64_t begin, size_t elements) {
  ATOLL_CHECK(elements <= kCodecBlock, "a block of a sum is longer than kSumBlock");
  vecmath::BlockStats stats;
  if (elements == 0) return stats;
  const std::byte* in = codec::RangeAt(kind, encoded, begin, elements);
  if (codec::Statistics(kind, in, elements, stats)) return stats;
  std::array<float, kCodecBlock> scratch;
  return vecmath::BlockStatistics(Rest(kind, in, 0, elements, scratch));
}

double DecodeLost(CodecKind kind, Bytes q, std::span<const float> h, std::span<float> lost) {
  ATOLL_CHECK(h.size() <= kCodecBlock && h.size() == lost.size(),
              "spans of one kernel differ in length or are too long");
  if (h.empty()) return 0;
  const std::byte* in = codec::RangeAt(kind, q, 0, h.size());
  double squares = 0;
  if (codec::LostInto(kind, in, h, lost, squares)) return squares;
  std::array<float, kCodecBlock> scratch;
  vecmath::Subtract(h, Rest(kind, in, 0, h.size(), scratch), lost);
  return vecmath::BlockSquares(lost);
}

Settled DecodeSettle(CodecKind kind, Bytes q, std::span<const float> h, std::span<float> lost,
                     std::span<float> public_copy) {
  ATOLL_CHECK(h.size() <= kCodecBlock && h.size() == lost.size() && h.size() == public_copy.size(),
              "spans of one kernel differ in length or are too long");
  if (h.empty()) return {};
  const std::byte* in = codec::RangeAt(kind, q, 0, h.size());
  std::array<uint32_t, 2> maxima;
  const size_t done = codec::SettledInto(kind, in, h, lost, public_copy, maxima);
  std::array<float, codec::kLargestBlock> scratch;
  const std::span<const float> rest = Rest(kind, in, done, h.size(), scratch);
  vecmath::Subtract(h.subspan(done), rest, lost.subspan(done));
  vecmath::Add(rest, public_copy.subspan(done));
  return {std::max(std::bit_cast<float>(maxima[0]), vecmath::MaxAbs(lost.subspan(done))),
          std::max(std::bit_cast<float>(maxima[1]), vecmath::MaxAbs(public_copy.subspan(done)))};
}

}  // namespace atl
#endif  // HWY_ONCE
