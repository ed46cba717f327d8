// SPDX-License-Identifier: Apache-2.0
// Merging that bears hostile contributions: trimmed mean and median (Yin et al. 2018, 1803.01498), centred clipping
// (Karimireddy et al. 2021, 2012.10333), as docs/formats/outer-step.md writes them down. Private to this room. Works on
// one block of a fragment at a time; a RowMerger belongs to one thread.
#ifndef ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_
#define ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/plan/job_spec.h"

namespace atl::aggregate {

// How many values kTrimmedMean or kMedian leave out at either end of `rows` values; of the other rules that of kMedian.
size_t TrimCount(const MergeSpec& merge, size_t rows);

// What each contribution's difference from the median is multiplied by: min(1, radius / distance) / n with radius =
// clip_radius x the lower median of the distances, computed in double and rounded once. All 1 / n at a distance of 0.
std::vector<float> Pulls(const MergeSpec& merge, std::span<const double> distances);

class RowMerger {
 public:
  // For `rows` contributions. Memory: 32 KiB a row.
  RowMerger(const MergeSpec& merge, size_t rows);

  // Where the values of contribution r go before the others are called; `elements` at most one block, the same for all.
  std::span<float> Row(size_t r, size_t elements);
  // middle[k] := the mean of what TrimCount leaves of the k-th values, added from the smallest on. Rows stay.
  void Middle(std::span<float> middle);
  // squares[r] += the squares of row r minus `middle`, as vecmath adds up a block.
  void AddSquares(std::span<const float> middle, std::span<double> squares);
  // g[k] := middle[k] + pulls[0] x (row 0 - middle)[k] + ..., in the order of the rows. g and middle are not the same.
  void Pull(std::span<const float> middle, std::span<const float> pulls, std::span<float> g);

 private:
  std::span<const float> Difference(size_t r, std::span<const float> middle);

  size_t rows_, trim_;
  std::vector<float> values_, sorted_, difference_;
};

}  // namespace atl::aggregate

#endif  // ATOLL_COORDINATOR_AGGREGATE_ROBUST_MERGE_H_
