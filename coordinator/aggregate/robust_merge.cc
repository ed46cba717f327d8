// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/robust_merge.h"

#include <algorithm>

#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/norm_screen.h"

namespace atl::aggregate {
namespace {

constexpr size_t kBlock = kCodecBlock;

std::span<float> RowOf(std::vector<float>& rows, size_t r, size_t elements) {
  return std::span(rows).subspan(r * kBlock, elements);
}

// Odd-even transposition. Neighbours are exchanged only if the later one is smaller, so equal
// values keep their order.
void SortColumns(std::vector<float>& rows, size_t count, size_t elements) {
  for (size_t round = 0; round < count; ++round) {
    for (size_t r = round % 2; r + 1 < count; r += 2) {
      vecmath::Order(RowOf(rows, r, elements), RowOf(rows, r + 1, elements));
    }
  }
}

}  // namespace

size_t TrimCount(const MergeSpec& merge, size_t rows) {
  const size_t most = rows == 0 ? 0 : (rows - 1) / 2;
  if (merge.rule != MergeRule::kTrimmedMean) return most;
  return std::min(most, static_cast<size_t>(merge.trim_share * static_cast<double>(rows)));
}

std::vector<float> Pulls(const MergeSpec& merge, std::span<const double> distances) {
  const double radius = merge.clip_radius * LowerMedian(distances);
  std::vector<float> pulls;
  pulls.reserve(distances.size());
  for (const double distance : distances) {
    const double share = distance > radius ? radius / distance : 1.0;
    pulls.push_back(static_cast<float>(share / static_cast<double>(distances.size())));
  }
  return pulls;
}

RowMerger::RowMerger(const MergeSpec& merge, size_t rows)
    : rows_(rows), trim_(TrimCount(merge, rows)), values_(rows * kBlock), sorted_(rows * kBlock), difference_(kBlock) {}

std::span<float> RowMerger::Row(size_t r, size_t elements) { return RowOf(values_, r, elements); }

void RowMerger::Middle(std::span<float> middle) {
  const size_t elements = middle.size();
  sorted_ = values_;
  SortColumns(sorted_, rows_, elements);
  const std::span<float> first = RowOf(sorted_, trim_, elements);
  std::copy(first.begin(), first.end(), middle.begin());
  for (size_t r = trim_ + 1; r < rows_ - trim_; ++r) vecmath::Add(RowOf(sorted_, r, elements), middle);
  vecmath::Scale(static_cast<float>(1.0 / static_cast<double>(rows_ - 2 * trim_)), middle, middle);
}

void RowMerger::AddSquares(std::span<const float> middle, std::span<double> squares) {
  for (size_t r = 0; r < rows_; ++r) squares[r] += vecmath::BlockSquares(Difference(r, middle));
}

void RowMerger::Pull(std::span<const float> middle, std::span<const float> pulls, std::span<float> g) {
  std::copy(middle.begin(), middle.end(), g.begin());
  for (size_t r = 0; r < rows_; ++r) vecmath::ScaledAccumulate(pulls[r], Difference(r, middle), g);
}

std::span<const float> RowMerger::Difference(size_t r, std::span<const float> middle) {
  const std::span<float> difference = std::span(difference_).first(middle.size());
  vecmath::Subtract(RowOf(values_, r, middle.size()), middle, difference);
  return difference;
}

}  // namespace atl::aggregate
