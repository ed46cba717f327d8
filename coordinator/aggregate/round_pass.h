// SPDX-License-Identifier: Apache-2.0
// The two walks over a fragment that close a round. Private to this room. Both go block by block, so what they give
// does not depend on how blocks are spread over threads: elements are independent, and sums are kept for each block and
// added in block order afterwards.
#ifndef ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
#define ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/hash.h"
#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl::aggregate {

// Reads every input whose screen is not known once and changes nothing. Sizes were checked. One screen for each input.
std::vector<ContributionScreen> ScreenAll(std::span<const RoundInput> inputs, size_t elements, unsigned threads);

// Blocks of a fragment in which directions are compared: every n-th, so many at most. Their outer step is kept to
// compare the next one with.
constexpr size_t kComparedBlocks = 64;
// Elements to keep of them.
size_t ComparedElements(size_t elements);

struct MergeJob {
  std::span<const RoundInput> inputs;  // ascending worker id
  std::span<const float> weights;      // of inputs; under other rules than kMean what each is scaled by
  MergeSpec merge;
  std::span<const size_t> members;  // those of the inputs that other rules than kMean merge, ascending
  vecmath::OuterCoefficients outer;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory memory = ErrorMemory::kFeedback;  // kOff: the residual is neither read nor written
  double loco_beta = 0;
  bool clear_residual = false;  // kLoco: this step ends with a residual of zero
  std::span<float> public_copy, momentum, residual;
  std::span<float> compared_step;  // ComparedElements: of the step before, zeros when there was none; replaced
  std::span<std::byte> update;     // EncodedSize(download_codec, public_copy.size())
  unsigned threads = 1;
};

struct MergeSums {
  double merged_squares = 0, step_squares = 0;
  // Over the compared blocks: of the step, of the one before, and their product; of the momentum before the step and
  // its product with the merged pseudo-gradient; of the latter, of each input, and of their product; of what was
  // encoded for the download, and what the codec lost of it.
  double compared_squares = 0, previous_squares = 0, compared_dot = 0;
  double momentum_squares = 0, momentum_dot = 0;
  double compared_merged = 0;
  std::vector<double> input_squares, dots;
  double sent_squares = 0, lost_squares = 0;
  float public_max = 0, momentum_max = 0, residual_max = 0;  // largest magnitudes afterwards
  std::vector<Digest> leaves;                                // of the public copy afterwards (common/base/hash.h)
  Digest update;                                             // of the update
};

// Merge, outer step, encode, apply: in place. Requires that no intermediate value overflows (the caller's bound).
MergeSums MergeAll(const MergeJob& job);

}  // namespace atl::aggregate

#endif  // ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
