// SPDX-License-Identifier: Apache-2.0
// Share of time that a worker computes when its syncs share a link: two event simulations of a few
// periods, in steady state. Pure arithmetic on doubles; no round depends on it. Times are in
// seconds, rates in bytes a second.
//
// AllReduceUtilization is the model of the compute-utilization table of Streaming DiLoCo
// (2501.18512, Table 4). Every byte crosses the link once. A layer's pseudo-gradient (or gradient)
// is sent after its backward pass and is needed by that layer's forward pass `overlap_steps` steps
// after the next step. The result is an upper bound for Atoll (conditions at CoordinatorUtilization).
//
// CoordinatorUtilization models Atoll. A fragment is sent at the end of a step, uploaded whole,
// merged and downloaded whole. Each direction carries one fragment after the other. The fragment is
// needed at the end of the step `overlap_steps` later. Uploads and downloads of different fragments
// run concurrently. All workers behave alike.
#ifndef ATOLL_COMMON_PLAN_LINK_MODEL_H_
#define ATOLL_COMMON_PLAN_LINK_MODEL_H_

#include <cstdint>
#include <vector>

namespace atl {

// A part of a model in the order of the forward pass: a transformer block, or the embeddings (which
// take no time).
struct LinkUnit {
  uint32_t fragment = 0;
  double compute_seconds = 0;  // forward and backward
  double upload_bytes = 0;     // its share of the fragment
};

struct LinkFragment {
  double upload_bytes = 0, download_bytes = 0;  // of one worker
};

// Requires: at least one unit and one fragment, every unit's fragment exists, 1 <= inner_steps,
// overlap_steps < inner_steps, step time above 0.
struct LinkJob {
  std::vector<LinkUnit> units;  // their times add up to the time of a step
  std::vector<LinkFragment> fragments;
  uint32_t inner_steps = 1;    // H
  uint32_t overlap_steps = 0;  // tau
};

// Rates are finite and above 0. Latency is for one direction. round_seconds: time that the
// coordinator needs from the last contribution of a round to its update, for flushes to disk, merge
// and commit.
struct LinkCapacity {
  double upload_bytes_per_second = 0, download_bytes_per_second = 0;
  double latency_seconds = 0;
  double round_seconds = 0;
};

// The forward pass's share of a forward and backward pass: one of three matrix products.
constexpr double kForwardShare = 1.0 / 3.0;

double StepSeconds(const LinkJob& job);

// Share of time spent computing, in (0, 1]. Depends on the upload rate only, and is monotonic in it up to rounding.
double AllReduceUtilization(const LinkJob& job, const LinkCapacity& link);
// Share of time spent computing, in (0, 1]. Monotonic in both rates, up to rounding. Never above AllReduceUtilization
// at the same upload rate if updates are at least as large as contributions and the download rate is the same.
double CoordinatorUtilization(const LinkJob& job, const LinkCapacity& link);

// Returns the upload rate at which `utilization` (one of the two above) reaches `target` in (0, 1),
// within one part in 10^6 and at least 1 byte a second. The download rate is scaled in proportion. 0 when even 10^15
// bytes a second do not suffice, because of the latency or round_seconds.
double NeededUploadRate(const LinkJob& job, const LinkCapacity& link, double target,
                        double (*utilization)(const LinkJob&, const LinkCapacity&));

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LINK_MODEL_H_
