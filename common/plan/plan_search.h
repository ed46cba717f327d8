// SPDX-License-Identifier: Apache-2.0
// The choices that `atoll plan` looks through. Private to the planner; requests are valid.
#ifndef ATOLL_COMMON_PLAN_PLAN_SEARCH_H_
#define ATOLL_COMMON_PLAN_PLAN_SEARCH_H_

#include <vector>

#include "common/plan/planner.h"

namespace atl {

// Every codec with overlaps 0, 1, 5 and 10 and periods from 10 to 1000, the request's own among them; for data
// parallelism every codec. Codec by codec, then by overlap, then by period.
std::vector<PlanPoint> PlanPoints(const PlanRequest& request, WireSize wire_size);

// For every codec and overlap 0, 1, 5 and 10; none for data parallelism.
std::vector<LeastPeriod> LeastPeriods(const PlanRequest& request, WireSize wire_size);

PlanPoint PointOf(const PlanRequest& request, WireSize wire_size);

Recommendation Recommend(const PlanRequest& request, WireSize wire_size);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_PLAN_SEARCH_H_
