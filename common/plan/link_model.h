// SPDX-License-Identifier: Apache-2.0
// How much of its time a worker computes when its synchronisations share a link: two event simulations of a few
// periods, in steady state. Pure arithmetic on doubles; nothing here decides a round. Times are seconds, rates bytes a
// second.
//
// AllReduceUtilization is the model behind the compute-utilization table of Streaming DiLoCo (2501.18512, Table 4):
// every byte crosses the link once, a layer's pseudo-gradient (or gradient) leaves when its backward pass is done, and
// is needed by that layer's forward pass `overlap_steps` steps after the next. It is an upper bound for this system.
//
// CoordinatorUtilization is what this system does: a fragment leaves at a step's end, goes up whole, is merged, comes
// down whole, one fragment after the other in each direction, and is needed at the end of the step `overlap_steps`
// later. Up and down run at the same time for different fragments. All workers run alike.
#ifndef ATOLL_COMMON_PLAN_LINK_MODEL_H_
#define ATOLL_COMMON_PLAN_LINK_MODEL_H_

#include <cstdint>
#include <vector>

namespace atl {

// One part of a model in the order of the forward pass: a transformer block, or the embeddings (which take no time).
struct LinkUnit {
  uint32_t fragment = 0;
  double compute_seconds = 0;  // forward and backward
  double upload_bytes = 0;     // its share of the fragment
};

struct LinkFragment {
  double upload_bytes = 0, download_bytes = 0;  // one worker's
};

// Requires: at least one unit and one fragment, every unit's fragment exists, 1 <= inner_steps,
// overlap_steps < inner_steps, step time above 0.
struct LinkJob {
  std::vector<LinkUnit> units;  // their times add up to a step's
  std::vector<LinkFragment> fragments;
  uint32_t inner_steps = 1;    // H
  uint32_t overlap_steps = 0;  // tau
};

// Finite rates above 0; latency of one direction; what the coordinator takes from the last contribution of a round to
// its update: flushes to disk, merge and commit.
struct Link {
  double upload_bytes_per_second = 0, download_bytes_per_second = 0;
  double latency_seconds = 0;
  double round_seconds = 0;
};

// The share of a forward and backward pass that is forward: one of three matrix products.
constexpr double kForwardShare = 1.0 / 3.0;

double StepSeconds(const LinkJob& job);

// In (0, 1]. Rises with the rate, up to rounding. Only the upload rate counts.
double AllReduceUtilization(const LinkJob& job, const Link& link);
// In (0, 1]. Rises with both rates, up to rounding; never above AllReduceUtilization at the upload rate when updates
// are no smaller than contributions and come at that rate.
double CoordinatorUtilization(const LinkJob& job, const Link& link);

// The upload rate at which `utilization` (one of the two above) reaches `target` in (0, 1), the download rate being
// raised or lowered with it; within one part in 10^6. 0 when no rate does, because of the latency.
double NeededUploadRate(const LinkJob& job, const Link& link, double target,
                        double (*utilization)(const LinkJob&, const Link&));

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LINK_MODEL_H_
