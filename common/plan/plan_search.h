// SPDX-License-Identifier: Apache-2.0
// The settings that `atoll plan` considers. Private to the planner; requests must be valid.
#ifndef ATOLL_COMMON_PLAN_PLAN_SEARCH_H_
#define ATOLL_COMMON_PLAN_PLAN_SEARCH_H_

#include <vector>

#include "common/plan/planner.h"

namespace atl {

// Returns every codec with overlaps 0, 1, 5, 10 and periods 10, 30, 100, 300, 1000, plus the request's own values,
// where overlap < period; for data parallelism every codec. Ordered by codec, then overlap, then period.
std::vector<PlanPoint> PlanPoints(const PlanRequest& request, WireSize wire_size);

// Returns one entry for each codec with each of the overlaps 0, 1, 5 and 10; none for data parallelism.
std::vector<LeastPeriod> LeastPeriods(const PlanRequest& request, WireSize wire_size);

PlanPoint PointOf(const PlanRequest& request, WireSize wire_size);

Recommendation Recommend(const PlanRequest& request, WireSize wire_size);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_PLAN_SEARCH_H_
