// SPDX-License-Identifier: Apache-2.0
// The SIMD implementation, compiled once per instruction set by attention.cc.
#if defined(ATOLL_WORKER_MODEL_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_WORKER_MODEL_ATTENTION_INL_H_
#undef ATOLL_WORKER_MODEL_ATTENTION_INL_H_
#else
#define ATOLL_WORKER_MODEL_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/vecmath/row_vectors-inl.h"
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "worker/model/attention.h"
#include "worker/model/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace atl::attention {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using rows::HWY_NAMESPACE::Exp;

constexpr size_t kBlock = 32;  // queries with scores in memory at once
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Some queries of one head, and the keys that they attend to. Columns, one per key, are counted from `origin`.
struct Block {
  size_t first = 0, rows = 0;  // queries
  size_t origin = 0;           // a multiple of the panel width
  size_t end() const { return first + rows; }
  size_t keys() const { return end() - origin; }
};

// The working memory of one call.
template <typename T>
class Work {
 public:
  Work(const HeadGroup<T>& group, bool backward)
      : g(group),
        width(InPanels(group.head_dim)),
        columns(InPanels(group.length) + kLanes),  // an odd number of vectors: rows do not compete for one cache set
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(group.head_dim)))) {
    const size_t wide = g.length * width, turned = g.head_dim * columns, few = kBlock * width;
    const size_t parts = backward ? 4 * wide + 2 * turned + 3 * few + 2 * kBlock * columns
                                  : 2 * wide + turned + 2 * few + kBlock * columns;
    // Allocated with new, which throws if memory is short: the trainer then halves the micro-batch.
    memory_ = std::make_unique_for_overwrite<float[]>(parts + HWY_ALIGNMENT / sizeof(float));
    void* aligned = memory_.get();
    size_t room = (parts + HWY_ALIGNMENT / sizeof(float)) * sizeof(float);
    auto* next = static_cast<float*>(std::align(HWY_ALIGNMENT, parts * sizeof(float), aligned, room));
    const auto take = [&next](size_t size) { return std::exchange(next, next + size); };
    keys = take(wide), values = take(wide), keys_turned = take(turned);
    queries = take(few), out = take(few), scores = take(kBlock * columns);
    Widen(g.keys, g.stride, g.length, g.head_dim, keys);
    Widen(g.values, g.stride, g.length, g.head_dim, values);
    Transpose(keys, g.length, g.head_dim, columns, keys_turned);
    if (!backward) return;
    dkeys = take(wide), dvalues = take(wide), values_turned = take(turned);
    dout = take(few), dscores = take(kBlock * columns);
    Transpose(values, g.length, g.head_dim, columns, values_turned);
    std::fill(dkeys, dkeys + 2 * wide, 0.0F);
  }

  size_t StartOf(size_t query) const { return g.starts == nullptr ? 0 : static_cast<size_t>(g.starts[query]); }
  Block BlockAt(size_t first) const {
    return {first, std::min(kBlock, g.length - first), StartOf(first) / kPanel * kPanel};
  }

  // to[r][key] = x[r] . turned[.][key] for all keys that a tile's queries may attend to.
  void Products(const Block& b, const float* x, const float* turned, float* to) const {
    for (size_t key = b.origin; key < b.end(); key += kPanel) {
      ForTiles(b.rows, [&](size_t r, auto rows) HWY_ATTR {
        if (key >= b.first + r + rows) return;
        Tile<rows, false>({x + r * width, width, 1}, turned + key, columns, g.head_dim,
                          to + r * columns + (key - b.origin), columns);
      });
    }
  }
  // out[r] = sum over keys of x[r][key] y[key].
  void Mix(const Block& b, const float* x, const float* y) const {
    for (size_t i = 0; i < width; i += kPanel) {
      ForTiles(b.rows, [&](size_t r, auto rows) HWY_ATTR {
        Tile<rows, false>({x + r * columns, columns, 1}, y + b.origin * width + i, width, b.first + r + rows - b.origin,
                          out + r * width + i, width);
      });
    }
  }
  // to[key] += sum over queries of x[query][key] y[query].
  void Gather(const Block& b, const float* x, const float* y, float* to) const {
    for (size_t i = 0; i < width; i += kPanel) {
      ForTiles(b.keys(), [&](size_t key, auto rows) HWY_ATTR {
        const size_t at = b.origin + key, skipped = at > b.first ? at - b.first : 0;  // queries before these keys
        Tile<rows, true>({x + skipped * columns + key, 1, columns}, y + skipped * width + i, width, b.rows - skipped,
                         to + at * width + i, width);
      });
    }
  }
  // Columns that a query attends to. Fence returns those of query r, and sets the others of its row to `value`.
  struct Range {
    size_t begin, end;
  };
  Range Fence(const Block& b, size_t r, float value, float* matrix) const {
    const Range attended{StartOf(b.first + r) - b.origin, b.first + r + 1 - b.origin};
    float* row = matrix + r * columns;
    std::fill(row, row + attended.begin, value);
    std::fill(row + attended.end, row + InPanels(b.keys()), value);
    return attended;
  }

  const HeadGroup<T>& g;
  const size_t width, columns;
  const float scale;
  float *keys, *values, *keys_turned, *queries, *out, *scores;  // for both passes
  float *dkeys = nullptr, *dvalues = nullptr, *values_turned = nullptr, *dout = nullptr, *dscores = nullptr;

 private:
  std::unique_ptr<float[]> memory_;
};

struct Soft {
  float log_sum, factor;
};
// Turns a query's scores into exponentials, still to be multiplied by `factor`; log_sum is that of
// the true scores.
inline Soft SoftMax(float* scores, size_t end, float scale) {
  const Floats d;
  Vec most = hn::Set(d, kMasked), sum = hn::Zero(d);
  for (size_t i = 0; i < end; i += kLanes) most = hn::Max(most, Load(scores + i));
  const float shift = hn::GetLane(hn::MaxOfLanes(d, most)) * scale;
  const Vec factor = hn::Set(d, scale), minus = hn::Set(d, -shift);
  for (size_t i = 0; i < end; i += kLanes) {
    const Vec e = Exp(hn::MulAdd(Load(scores + i), factor, minus));
    Store(e, scores + i);
    sum = hn::Add(sum, e);
  }
  const float total = hn::GetLane(hn::SumOfLanes(d, sum));
  return {shift + std::log(total), 1 / total};
}

template <typename T>
void ForwardOf(const HeadGroup<T>& g, const Mixed<T>& mixed) {
  Work<T> w(g, false);
  for (size_t head = 0; head < g.query_heads; ++head) {
    for (size_t first = 0; first < g.length; first += kBlock) {
      const Block b = w.BlockAt(first);
      Widen(g.queries + first * g.stride + head * g.head_dim, g.stride, b.rows, g.head_dim, w.queries);
      w.Products(b, w.queries, w.keys_turned, w.scores);
      float factors[kBlock];
      for (size_t r = 0; r < b.rows; ++r) {
        const size_t end = w.Fence(b, r, kMasked, w.scores).end;
        const Soft soft = SoftMax(w.scores + r * w.columns, end, w.scale);
        std::fill(w.scores + r * w.columns + end, w.scores + r * w.columns + InPanels(b.keys()), 0.0F);
        mixed.log_sums[head * g.length + first + r] = soft.log_sum;
        factors[r] = soft.factor;
      }
      w.Mix(b, w.scores, w.values);
      for (size_t r = 0; r < b.rows; ++r) {
        const Vec factor = hn::Set(Floats(), factors[r]);
        const float* from = w.out + r * w.width;
        T* to = mixed.out + (first + r) * mixed.stride + head * g.head_dim;
        ForVectors(g.head_dim, [&](size_t i, auto part) HWY_ATTR { part(hn::Mul(part(from + i), factor), to + i); });
      }
    }
  }
}

// Turns a query's scores into probabilities, and the gradients of its probabilities into those of its scores.
inline void SoftMaxGradient(float* scores, float* dscores, size_t end, float scale, float log_sum, float mean) {
  const Floats d;
  const Vec factor = hn::Set(d, scale), minus = hn::Set(d, -log_sum), means = hn::Set(d, mean);
  for (size_t i = 0; i < end; i += kLanes) {
    const Vec p = Exp(hn::MulAdd(Load(scores + i), factor, minus));
    Store(p, scores + i);
    Store(hn::Mul(hn::Mul(p, factor), hn::Sub(Load(dscores + i), means)), dscores + i);
  }
}

template <typename T>
float Dot(const T* x, const T* y, size_t count) {
  Vec sum = hn::Zero(Floats());
  ForVectors(count, [&](size_t i, auto part) HWY_ATTR { sum = hn::MulAdd(part(x + i), part(y + i), sum); });
  return hn::GetLane(hn::SumOfLanes(Floats(), sum));
}

template <typename T>
void BackwardOf(const HeadGroup<T>& g, const Mixed<T>& mixed, const Gradients<T>& out) {
  Work<T> w(g, true);
  for (size_t head = 0; head < g.query_heads; ++head) {
    for (size_t first = 0; first < g.length; first += kBlock) {
      const Block b = w.BlockAt(first);
      const size_t query = first * g.stride + head * g.head_dim, place = first * mixed.stride + head * g.head_dim;
      Widen(g.queries + query, g.stride, b.rows, g.head_dim, w.queries);
      Widen(out.dout + place, mixed.stride, b.rows, g.head_dim, w.dout);
      w.Products(b, w.queries, w.keys_turned, w.scores);
      w.Products(b, w.dout, w.values_turned, w.dscores);
      for (size_t r = 0; r < b.rows; ++r) {
        w.Fence(b, r, 0, w.dscores);
        const size_t end = w.Fence(b, r, kMasked, w.scores).end;
        const size_t at = place + r * mixed.stride;
        SoftMaxGradient(w.scores + r * w.columns, w.dscores + r * w.columns, end, w.scale,
                        mixed.log_sums[head * g.length + first + r], Dot(out.dout + at, mixed.out + at, g.head_dim));
        std::fill(w.scores + r * w.columns + end, w.scores + r * w.columns + InPanels(b.keys()), 0.0F);
      }
      w.Mix(b, w.dscores, w.keys);
      Narrow(w.out, w.width, b.rows, g.head_dim, out.dqueries + query, g.stride);
      w.Gather(b, w.dscores, w.queries, w.dkeys);
      w.Gather(b, w.scores, w.dout, w.dvalues);
    }
  }
  Narrow(w.dkeys, w.width, g.length, g.head_dim, out.dkeys, g.stride);
  Narrow(w.dvalues, w.width, g.length, g.head_dim, out.dvalues, g.stride);
}

inline void ForwardFloat(const HeadGroup<float>& g, const Mixed<float>& m) { ForwardOf(g, m); }
inline void ForwardBf16(const HeadGroup<uint16_t>& g, const Mixed<uint16_t>& m) { ForwardOf(g, m); }
inline void BackwardFloat(const HeadGroup<float>& g, const Mixed<float>& m, const Gradients<float>& out) {
  BackwardOf(g, m, out);
}
inline void BackwardBf16(const HeadGroup<uint16_t>& g, const Mixed<uint16_t>& m, const Gradients<uint16_t>& out) {
  BackwardOf(g, m, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace atl::attention
HWY_AFTER_NAMESPACE();

#endif  // the toggle
