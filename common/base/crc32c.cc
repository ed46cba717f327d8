// SPDX-License-Identifier: Apache-2.0
// CRC-32C with the best instructions of the processor: carry-less products of 512 bits, the CRC
// instruction in three parallel runs, or a table. All give the same result.
#include "common/base/crc32c.h"

#include <immintrin.h>

#include <array>
#include <cstring>

namespace atl {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // bits reversed: the lowest bit is the highest power

// Multiplies by x, modulo the polynomial.
constexpr uint32_t TimesX(uint32_t c) { return (c >> 1) ^ ((c & 1) ? kPolynomial : 0u); }

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = TimesX(c);
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ByTable(uint32_t c, Bytes data) {
  for (const std::byte b : data) c = (c >> 8) ^ kTable[(c ^ static_cast<uint32_t>(b)) & 0xff];
  return c;
}

// ---- the CRC instruction --------------------------------------------------------------------------------------------

// The instruction has a throughput of 8 bytes a cycle and a latency of three cycles. Three parallel
// runs of this many bytes keep it busy.
constexpr size_t kRun = 512;

// Maps a CRC to its value after kRun zero bytes, by tables over its four bytes. CRCs are linear:
// the CRC of the next run is added by XOR.
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> of{};
  uint32_t operator()(uint32_t c) const {
    return of[0][c & 0xff] ^ of[1][c >> 8 & 0xff] ^ of[2][c >> 16 & 0xff] ^ of[3][c >> 24];
  }
};

Shift MakeShift() {
  Shift shift;
  const std::array<std::byte, kRun> zeros{};
  for (uint32_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 1; value < 256; ++value) {
      const uint32_t low = value & (value - 1);  // without its lowest bit
      uint32_t& out = shift.of[byte][value];
      out = low != 0 ? shift.of[byte][low] ^ shift.of[byte][value ^ low] : ByTable(value << (8 * byte), zeros);
    }
  }
  return shift;
}

__attribute__((target("sse4.2"))) uint64_t Word(uint64_t c, const std::byte* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return _mm_crc32_u64(c, word);
}

__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t c, Bytes data) {
  static const Shift kShift = MakeShift();
  const std::byte* p = data.data();
  size_t n = data.size();
  uint64_t wide = c;
  for (; n >= 3 * kRun; n -= 3 * kRun, p += 3 * kRun) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kRun; i += sizeof(uint64_t)) {
      wide = Word(wide, p + i);
      second = Word(second, p + kRun + i);
      third = Word(third, p + 2 * kRun + i);
    }
    wide = kShift(kShift(static_cast<uint32_t>(wide)) ^ static_cast<uint32_t>(second)) ^ static_cast<uint32_t>(third);
  }
  for (; n >= 8; n -= 8, p += 8) wide = Word(wide, p);
  c = static_cast<uint32_t>(wide);
  for (; n > 0; --n, ++p) c = _mm_crc32_u8(c, static_cast<uint8_t>(*p));
  return c;
}

// ---- carry-less products --------------------------------------------------------------------------------------------

// Folding (Gopal et al., Fast CRC Computation Using PCLMULQDQ, 2009): 128 bits of the message are
// replaced by their two halves times powers of x, added to later bits.
constexpr size_t kFold = 256;  // bytes in four registers

constexpr uint64_t PowerOfX(int n) {
  uint32_t c = 0x80000000;
  for (int i = 0; i < n; ++i) c = TimesX(c);
  return uint64_t{c} << 1;
}
constexpr uint64_t kFoldLow = PowerOfX(8 * kFold + 32), kFoldHigh = PowerOfX(8 * kFold - 32);

__attribute__((target("avx512f,vpclmulqdq"))) __m512i Folded(__m512i x, __m512i powers, const std::byte* next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, powers, 0x00), _mm512_clmulepi64_epi128(x, powers, 0x11),
                                   _mm512_loadu_si512(next), 0x96);
}

__attribute__((target("avx512f,vpclmulqdq"))) uint32_t ByProducts(uint32_t c, Bytes data) {
  if (data.size() < 2 * kFold) return ByInstruction(c, data);
  const std::byte* p = data.data();
  const auto high = static_cast<int64_t>(kFoldHigh), low = static_cast<int64_t>(kFoldLow);
  const __m512i powers = _mm512_set4_epi64(high, low, high, low);
  __m512i x0 =
      _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(c))));
  __m512i x1 = _mm512_loadu_si512(p + 64), x2 = _mm512_loadu_si512(p + 128), x3 = _mm512_loadu_si512(p + 192);
  size_t n = data.size() - kFold;
  for (p += kFold; n >= kFold; n -= kFold, p += kFold) {
    x0 = Folded(x0, powers, p);
    x1 = Folded(x1, powers, p + 64);
    x2 = Folded(x2, powers, p + 128);
    x3 = Folded(x3, powers, p + 192);
  }
  // The four registers now replace all bytes before `p`: the CRC of their 256 bytes is the CRC of those bytes.
  std::array<std::byte, kFold> left;
  _mm512_storeu_si512(left.data(), x0);
  _mm512_storeu_si512(left.data() + 64, x1);
  _mm512_storeu_si512(left.data() + 128, x2);
  _mm512_storeu_si512(left.data() + 192, x3);
  return ByInstruction(ByInstruction(0, left), Bytes(p, n));
}

}  // namespace

std::vector<Crc32cForm> Crc32cForms() {
  std::vector<Crc32cForm> forms;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"))
    forms.push_back({"carry-less products", ByProducts});
  if (__builtin_cpu_supports("sse4.2")) forms.push_back({"CRC instruction", ByInstruction});
  forms.push_back({"table", ByTable});
  return forms;
}

uint32_t Crc32c(uint32_t crc, Bytes data) {
  static const auto kBest = Crc32cForms().front().run;
  return ~kBest(~crc, data);
}

}  // namespace atl
