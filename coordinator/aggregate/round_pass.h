// SPDX-License-Identifier: Apache-2.0
// The passes over a fragment that close a round: ScreenAll, then MergeAll. Private to this room. Both work block by
// block, and the result does not depend on the distribution of blocks over threads: elements are independent, and
// sums are kept per block and added in block order afterwards.
#ifndef ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
#define ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/hash.h"
#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl::aggregate {

// Returns one screen per input: the known one, or one computed by reading the input once. Changes nothing. The caller
// must have checked the sizes.
std::vector<ContributionScreen> ScreenAll(std::span<const RoundInput> inputs, size_t elements, unsigned threads);

// Inputs, momentum and outer steps are compared by direction in every n-th block of a fragment, at most this many.
// The outer step of these blocks is kept for the comparison with the next step.
constexpr size_t kComparedBlocks = 64;
// The number of elements in these blocks.
size_t ComparedElements(size_t elements);

struct MergeJob {
  std::span<const RoundInput> inputs;  // ascending worker id
  std::span<const float> weights;      // of inputs: weight x clip factor under kMean, else the clip factor
  MergeSpec merge;
  std::span<const size_t> members;  // the inputs merged under rules other than kMean, ascending
  vecmath::OuterCoefficients outer;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory memory = ErrorMemory::kFeedback;  // kOff: the residual is neither read nor written
  double loco_beta = 0;
  bool clear_residual = false;  // kLoco: this step ends with a residual of zero
  std::span<float> public_copy, momentum, residual;
  std::span<float> compared_step;  // ComparedElements of the previous step, zeros before the first; replaced
  std::span<std::byte> update;     // EncodedSize(download_codec, public_copy.size())
  unsigned threads = 1;
};

struct MergeSums {
  double merged_squares = 0, step_squares = 0;
  // Over the compared blocks: squares of the step and of the previous one, and their product;
  // squares of the momentum before the step, and its product with the merged pseudo-gradient;
  // squares of the merged pseudo-gradient and of each input, and their products; squares of the
  // download codec's input and of its loss.
  double compared_squares = 0, previous_squares = 0, compared_dot = 0;
  double momentum_squares = 0, momentum_dot = 0;
  double compared_merged = 0;
  std::vector<double> input_squares, dots;
  double sent_squares = 0, lost_squares = 0;
  float public_max = 0, momentum_max = 0, residual_max = 0;  // largest magnitudes afterwards
  std::vector<Digest> leaves;                                // of the public copy afterwards (common/base/hash.h)
  Digest update;                                             // of the update
};

// Merge, outer step, encode, apply: in place. The caller must have bounded all intermediate values
// (no overflow).
MergeSums MergeAll(const MergeJob& job);

}  // namespace atl::aggregate

#endif  // ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
