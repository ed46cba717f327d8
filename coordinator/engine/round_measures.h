// SPDX-License-Identifier: Apache-2.0
// Measures of a round, taken when it closed and when it was committed. For metrics, the event log
// and `job describe`, never for a decision.
#ifndef ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_
#define ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace atl {

struct ContributionMeasures {
  WorkerId worker;
  double weight = 0;  // the weights of a round sum to 1
  double norm = 0;    // L2 as decoded
  double clip_factor = 1;
  double cosine_to_merged = 0;
  std::optional<double> cosine_to_others;  // to the merge of the others
  std::optional<double> others_mean;       // mean of cosine_to_others over the worker's newest rounds of the fragment
  bool against_others = false;             // this and others_mean: from direction_watch.h
  uint64_t staleness_steps = 0;            // job clock at the commit minus job clock at the send
  std::optional<double> upload_error;      // as reported by the worker
};

// Figures are defined at RoundResult (coordinator/aggregate).
struct RoundMeasures {
  double merged_norm = 0, outer_step_norm = 0, mean_cosine = 0;
  double download_error = 0;
  std::optional<double> momentum_alignment, step_alignment;
  std::optional<double> momentum_mean;  // mean of momentum_alignment over the fragment's newest rounds
  uint64_t staleness_steps = 0;         // of the oldest contribution
  std::vector<ContributionMeasures> contributions;
  int64_t aggregate_ns = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_ROUND_MEASURES_H_
