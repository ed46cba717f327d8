// SPDX-License-Identifier: Apache-2.0
// Merge rules that tolerate hostile contributions: trimmed mean and median (Yin et al. 2018, 1803.01498),
// centred clipping (Karimireddy et al. 2021, 2012.10333), as specified in docs/formats/outer-step.md. Private
// to this room. Works on one block of a fragment at a time; a RowMerger belongs to one thread.
#ifndef ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_
#define ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/plan/job_spec.h"

namespace atl::aggregate {

// The number of values that the rule drops at either end of `rows` sorted values: by trim_share under kTrimmedMean,
// else all but the middle one or two.
size_t TrimCount(const MergeSpec& merge, size_t rows);

// The factor of each contribution's difference from the median: min(1, radius / distance) / n, with
// radius = clip_radius x the lower median of the distances, computed in double and rounded once. 1
// / n at a distance of 0.
std::vector<float> Pulls(const MergeSpec& merge, std::span<const double> distances);

class RowMerger {
 public:
  // For `rows` contributions. Memory: 32 KiB per row.
  RowMerger(const MergeSpec& merge, size_t rows);

  // The buffer for the values of contribution r; fill it before calling the methods below.
  // `elements`: at most one block, equal for all rows.
  std::span<float> Row(size_t r, size_t elements);
  // middle[k] := the mean of the rows' k-th values without the dropped ones (TrimCount), added in ascending order.
  // Does not change the rows.
  void Middle(std::span<float> middle);
  // squares[r] += the squared differences of row r from `middle`, in vecmath's order of addition
  // within a block.
  void AddSquares(std::span<const float> middle, std::span<double> squares);
  // g[k] := middle[k] + pulls[0] x (row 0 - middle)[k] + ..., in row order. g and middle must not be the same.
  void Pull(std::span<const float> middle, std::span<const float> pulls, std::span<float> g);

 private:
  std::span<const float> Difference(size_t r, std::span<const float> middle);

  size_t rows_, trim_;
  std::vector<float> values_, sorted_, difference_;
};

}  // namespace atl::aggregate

#endif  // ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_
