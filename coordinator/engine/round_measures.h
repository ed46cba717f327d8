// SPDX-License-Identifier: Apache-2.0
// Measured of a round when it closed and when it was committed; for metrics, the event log and `job describe`, never
// for a decision.
#ifndef ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_
#define ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace atl {

struct ContributionMeasures {
  WorkerId worker;
  double weight = 0;  // of all, 1 together
  double norm = 0;    // L2 as decoded
  double clip_factor = 1;
  double cosine_to_merged = 0;
  std::optional<double> cosine_to_others;  // to what the others merge to without it
  std::optional<double> others_mean;       // of cosine_to_others over its newest rounds of the fragment, by
  bool against_others = false;             // coordinator/engine/direction_watch.h, as is this
  uint64_t staleness_steps = 0;            // job clock at the commit less that at its send
  std::optional<double> upload_error;      // as its worker said with it
};

// By design of coordinator/aggregate, RoundResult.
struct RoundMeasures {
  double merged_norm = 0, outer_step_norm = 0, mean_cosine = 0;
  double download_error = 0;
  std::optional<double> momentum_alignment, step_alignment;
  std::optional<double> momentum_mean;  // of momentum_alignment over the newest rounds of the fragment
  uint64_t staleness_steps = 0;         // of the oldest contribution
  std::vector<ContributionMeasures> contributions;
  int64_t aggregate_ns = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_
