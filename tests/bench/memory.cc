// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/memory.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/memory.cc"
#include "hwy/foreach_target.h"  // includes this file again for each target
// Must follow foreach_target.h.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace atl::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool kStream>
void TriadOver(float* a, const float* b, float s, const float* c, size_t n) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, s);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto sum = hn::Add(hn::LoadU(d, b + i), hn::Mul(scale, hn::LoadU(d, c + i)));
    if constexpr (kStream) {
      hn::Stream(sum, d, a + i);
    } else {
      hn::StoreU(sum, d, a + i);
    }
  }
  for (; i < n; ++i) a[i] = b[i] + s * c[i];
  if constexpr (kStream) hwy::FlushStream();
}

void TriadPlain(float* a, const float* b, float s, const float* c, size_t n) { TriadOver<false>(a, b, s, c, n); }
void TriadPastCaches(float* a, const float* b, float s, const float* c, size_t n) { TriadOver<true>(a, b, s, c, n); }

}  // namespace HWY_NAMESPACE
}  // namespace atl::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "common/base/check.h"

namespace atl::bench {

HWY_EXPORT(TriadPlain);
HWY_EXPORT(TriadPastCaches);

void Triad(std::span<float> a, std::span<const float> b, float s, std::span<const float> c) {
  HWY_DYNAMIC_DISPATCH(TriadPlain)(a.data(), b.data(), s, c.data(), a.size());
}

void TriadStreaming(std::span<float> a, std::span<const float> b, float s, std::span<const float> c) {
  ATOLL_CHECK(reinterpret_cast<uintptr_t>(a.data()) % 16 == 0, "an array that is streamed to is aligned");
  // Streaming stores need whole aligned vectors; elements before the first aligned one use ordinary
  // stores.
  const size_t before = std::min<size_t>(a.size(), (64 - reinterpret_cast<uintptr_t>(a.data()) % 64) % 64 / 4);
  Triad(a.first(before), b, s, c);
  HWY_DYNAMIC_DISPATCH(TriadPastCaches)
  (a.data() + before, b.data() + before, s, c.data() + before, a.size() - before);
}

Variant MemoryYard::TriadOn(unsigned threads) {
  return {"triad",
          12.0 * static_cast<double>(a_.size()),
          [this, threads] {
            InParallel(threads, [&](unsigned part) {
              const Part p = PartOf(a_.size(), part, threads);
              const size_t n = p.last - p.first;
              Triad(std::span(a_).subspan(p.first, n), std::span(b_).subspan(p.first, n), 0.5f,
                    std::span(c_).subspan(p.first, n));
            });
          },
          {}};
}

Variant MemoryYard::TriadStreamingOn(unsigned threads) {
  return {"triad, streaming stores",
          12.0 * static_cast<double>(a_.size()),
          [this, threads] {
            InParallel(threads, [&](unsigned part) {
              const Part p = PartOf(a_.size(), part, threads);
              const size_t n = p.last - p.first;
              TriadStreaming(std::span(a_).subspan(p.first, n), std::span(b_).subspan(p.first, n), 0.5f,
                             std::span(c_).subspan(p.first, n));
            });
          },
          {}};
}

Variant MemoryYard::CopyOn(unsigned threads) {
  return {"copy",
          8.0 * static_cast<double>(a_.size()),
          [this, threads] {
            InParallel(threads, [&](unsigned part) {
              const Part p = PartOf(a_.size(), part, threads);
              std::memcpy(a_.data() + p.first, b_.data() + p.first, (p.last - p.first) * sizeof(float));
            });
          },
          {}};
}

}  // namespace atl::bench
#endif  // HWY_ONCE
