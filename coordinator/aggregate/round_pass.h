// The two walks over a fragment that close a round. Private to this room. Both go block by block, so what they give
// does not depend on how blocks are spread over threads: elements are independent, and sums are kept for each block and
// added in block order afterwards.
#ifndef ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
#define ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/vecmath/vecmath.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl::aggregate {

// Reads every input once and changes nothing. Sizes were checked. One screen for each input.
std::vector<ContributionScreen> ScreenAll(std::span<const RoundInput> inputs, size_t elements, unsigned threads);

struct MergeJob {
  std::span<const RoundInput> inputs;  // ascending worker id
  std::span<const float> weights;      // of inputs
  vecmath::OuterCoefficients outer;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory memory = ErrorMemory::kFeedback;  // kOff: the residual is neither read nor written
  double loco_beta = 0;
  bool clear_residual = false;  // kLoco: this step ends with a residual of zero
  std::span<float> public_copy, momentum, residual;
  std::span<std::byte> update;  // EncodedSize(download_codec, public_copy.size())
  unsigned threads = 1;
};

struct MergeSums {
  double merged_squares = 0, step_squares = 0;
  std::vector<double> dots;                                  // of each input with the merged pseudo-gradient
  float public_max = 0, momentum_max = 0, residual_max = 0;  // largest magnitudes afterwards
};

// Merge, outer step, encode, apply: in place. Requires that no intermediate value overflows (the caller's bound).
MergeSums MergeAll(const MergeJob& job);

}  // namespace atl::aggregate

#endif  // ATOLL_COORDINATOR_AGGREGATE_ROUND_PASS_H_
