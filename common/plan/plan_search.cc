// SPDX-License-Identifier: Apache-2.0
#include "common/plan/plan_search.h"

#include <algorithm>
#include <cmath>

namespace atl {
namespace {

constexpr uint32_t kPeriods[] = {10, 30, 100, 300, kRecommendedInnerSteps};
// Overlap of up to 10 steps costs less than 0.2 % of loss; on the paper's links more than 5 gains
// little (2501.18512).
constexpr uint32_t kOverlaps[] = {0, 1, 5, 10};
constexpr uint32_t kAblationPeriod = 30;  // of Streaming DiLoCo's ablations: first advice for data parallelism

PlanRequest With(PlanRequest request, CodecKind codec, uint32_t overlap_steps, uint32_t inner_steps) {
  request.upload_codec = codec;
  request.download_codec = codec;
  request.overlap_steps = overlap_steps;
  request.inner_steps = inner_steps;
  return request;
}

double ExpectedOf(const PlanRequest& request, WireSize wire_size) {
  return CoordinatorUtilization(MakeLinkJob(request, wire_size), request.link);
}

bool Suffices(const PlanRequest& request, WireSize wire_size) {
  return ExpectedOf(request, wire_size) >= request.target_utilization;
}

// Returns `values` plus `own`, ascending, without duplicates.
std::vector<uint32_t> Including(std::vector<uint32_t> values, uint32_t own) {
  values.push_back(own);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Returns the smallest sufficient period from `least` on, by bisection. 0 when kRecommendedInnerSteps does not
// suffice or is below `least`.
uint32_t LeastInnerSteps(PlanRequest request, uint32_t least, WireSize wire_size) {
  const auto suffices = [&](uint32_t inner_steps) {
    request.inner_steps = inner_steps;
    return Suffices(request, wire_size);
  };
  if (least > kRecommendedInnerSteps || !suffices(kRecommendedInnerSteps)) return 0;
  uint32_t high = kRecommendedInnerSteps;
  while (least < high) {
    const uint32_t middle = least + (high - least) / 2;
    if (suffices(middle)) {
      high = middle;
    } else {
      least = middle + 1;
    }
  }
  return high;
}

// Returns the given settings, followed by cumulative changes, the least costly first.
std::vector<PlanRequest> Candidates(const PlanRequest& given) {
  std::vector<PlanRequest> out = {given};
  PlanRequest next = given;
  if (next.method == PlanMethod::kDataParallel) {
    next.method = PlanMethod::kDiloco;
    next.inner_steps = kAblationPeriod;
    next.overlap_steps = 0;
    out.push_back(next);
  }
  const auto change = [&](CodecKind codec, uint32_t overlap_steps) {
    next = With(next, codec, overlap_steps, next.inner_steps);
    out.push_back(next);
  };
  change(CodecKind::kMxfp4, next.overlap_steps);
  for (const uint32_t overlap : kOverlaps) {
    if (overlap > next.overlap_steps && overlap < next.inner_steps) change(CodecKind::kMxfp4, overlap);
  }
  if (next.method != PlanMethod::kStreaming) {
    next.method = PlanMethod::kStreaming;
    out.push_back(next);
  }
  return out;
}

Recommendation Chosen(const PlanRequest& request, bool reached, WireSize wire_size) {
  return {.reached = reached, .method = request.method, .point = PointOf(request, wire_size)};
}

Recommendation Search(const PlanRequest& given, WireSize wire_size) {
  std::vector<PlanRequest> candidates = Candidates(given);
  for (const PlanRequest& candidate : candidates) {
    if (Suffices(candidate, wire_size)) return Chosen(candidate, true, wire_size);
  }
  PlanRequest last = candidates.back();
  const uint32_t least = LeastInnerSteps(last, last.inner_steps, wire_size);
  if (least > 0) {
    // Rounded up to tens for readability, if that longer period suffices as well.
    last.inner_steps = std::min(kRecommendedInnerSteps, (least + 9) / 10 * 10);
    if (!Suffices(last, wire_size)) last.inner_steps = least;
    return Chosen(last, true, wire_size);
  }
  last.inner_steps = std::max(last.inner_steps, kRecommendedInnerSteps);
  return Chosen(last, false, wire_size);
}

}  // namespace

PlanPoint PointOf(const PlanRequest& request, WireSize wire_size) {
  const LinkJob job = MakeLinkJob(request, wire_size);
  double largest = 0;
  for (const LinkFragment& fragment : job.fragments) largest = std::max(largest, fragment.upload_bytes);
  return {.codec = request.upload_codec,
          .inner_steps = job.inner_steps,
          .overlap_steps = job.overlap_steps,
          .compute_utilization_ratio = AllReduceUtilization(job, request.link),
          .coordinator_utilization_ratio = CoordinatorUtilization(job, request.link),
          .bytes_per_round = static_cast<uint64_t>(largest)};
}

std::vector<PlanPoint> PlanPoints(const PlanRequest& request, WireSize wire_size) {
  std::vector<uint32_t> overlaps = {0}, periods = {1};
  if (request.method != PlanMethod::kDataParallel) {
    overlaps = Including({std::begin(kOverlaps), std::end(kOverlaps)}, request.overlap_steps);
    periods = Including({std::begin(kPeriods), std::end(kPeriods)}, request.inner_steps);
  }
  std::vector<PlanPoint> points;
  for (const CodecKind codec : kCodecKinds) {
    for (const uint32_t overlap : overlaps) {
      for (const uint32_t period : periods) {
        if (overlap < period) points.push_back(PointOf(With(request, codec, overlap, period), wire_size));
      }
    }
  }
  return points;
}

std::vector<LeastPeriod> LeastPeriods(const PlanRequest& request, WireSize wire_size) {
  std::vector<LeastPeriod> out;
  if (request.method == PlanMethod::kDataParallel) return out;
  for (const CodecKind codec : kCodecKinds) {
    for (const uint32_t overlap : kOverlaps) {
      const PlanRequest one = With(request, codec, overlap, request.inner_steps);
      out.push_back({codec, overlap, LeastInnerSteps(one, overlap + 1, wire_size)});
    }
  }
  return out;
}

Recommendation Recommend(const PlanRequest& request, WireSize wire_size) {
  Recommendation recommendation = Search(request, wire_size);
  const double bytes_per_second = NeededUploadRate(MakeLinkJob(request, wire_size), request.link,
                                                   request.target_utilization, &CoordinatorUtilization);
  recommendation.bandwidth_bits_per_second = 8 * bytes_per_second;
  return recommendation;
}

}  // namespace atl
