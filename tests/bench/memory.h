// SPDX-License-Identifier: Apache-2.0
// Memory bandwidth: the reference for passes. Dispatched at run time, so that it uses the widest
// vectors of this CPU, as the passes do.
#ifndef ATOLL_TESTS_BENCH_MEMORY_H_
#define ATOLL_TESTS_BENCH_MEMORY_H_

#include <span>
#include <vector>

#include "tests/bench/bench.h"

namespace atl::bench {

// a[i] = b[i] + s * c[i] (STREAM's triad), with ordinary stores or with stores that bypass the
// caches.
void Triad(std::span<float> a, std::span<const float> b, float s, std::span<const float> c);
void TriadStreaming(std::span<float> a, std::span<const float> b, float s, std::span<const float> c);

// Three arrays of equal size, and variants over them.
class MemoryYard {
 public:
  explicit MemoryYard(size_t elements) : a_(elements, 1.0f), b_(elements, 2.0f), c_(elements, 3.0f) {}

  // Counts bytes as STREAM does: each array read or written once, without the cache's read before a
  // write. The variants refer to this object.
  Variant TriadOn(unsigned threads);
  Variant TriadStreamingOn(unsigned threads);
  Variant CopyOn(unsigned threads);  // memcpy

 private:
  std::vector<float> a_, b_, c_;
};

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_MEMORY_H_
