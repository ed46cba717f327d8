// SPDX-License-Identifier: Apache-2.0
// The figures of `atoll plan`: sizes, rates, load, hours, and the recommendation.
#include "common/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "common/plan/model_layout.h"

namespace atl {
namespace {

using testing::IsEmpty;

// Whole bytes per element, so that sums are exact; 4 bits for the block formats.
uint64_t Size(CodecKind codec, uint64_t elements) {
  switch (codec) {
    case CodecKind::kFp32: return elements * 4;
    case CodecKind::kFp16:
    case CodecKind::kBf16: return elements * 2;
    case CodecKind::kInt8: return elements;
    default: return (elements + 1) / 2;
  }
}

constexpr double kGigabit = 1e9 / 8;

// The 1B model of Streaming DiLoCo on a link of 1 Gbit/s.
PlanRequest OneBillion() {
  PlanRequest request;
  request.parameters = 1'000'000'000;
  request.layers = 24;
  request.step_seconds = 0.1;
  request.workers = 8;
  request.inner_steps = 100;
  request.overlap_steps = 1;
  request.upload_codec = request.download_codec = CodecKind::kMxfp4;
  request.link = {kGigabit, kGigabit, 0};
  return request;
}

TEST(Planner, FragmentsAreThoseOfTheModelLayout) {
  ModelSpec model;
  model.vocab_size = 512;
  model.intermediate_size = 256;
  model.hidden_size = 64;
  model.kv_heads = 4;
  model.head_dim = 16;
  for (const uint32_t layers : {1u, 3u, 7u, 24u}) {
    for (const uint32_t per_fragment : {1u, 3u, 5u}) {
      model.layers = layers;
      const ModelLayout layout = MakeModelLayout(model, FragmentPattern::kStrided, per_fragment);
      PlanRequest request = OneBillion();
      request.layers = layers;
      request.layers_per_fragment = per_fragment;
      request.parameters = layout.elements;
      request.embedding_parameters = layout.fragments.back().elements;
      const LinkJob job = MakeLinkJob(request, &Size);
      ASSERT_EQ(job.fragments.size(), layout.fragments.size());
      for (size_t p = 0; p < job.fragments.size(); ++p) {
        EXPECT_EQ(job.fragments[p].upload_bytes,
                  static_cast<double>(Size(CodecKind::kMxfp4, layout.fragments[p].elements)));
      }
    }
  }
}

TEST(Planner, ElementsThatDoNotDivideAreAllCounted) {
  PlanRequest request = OneBillion();
  request.parameters = 1'000'003;
  request.layers = 7;
  request.upload_codec = CodecKind::kInt8;
  const Plan plan = MakePlan(request, &Size);
  EXPECT_EQ(plan.fragments, 3u);
  EXPECT_EQ(plan.bytes_per_period, 1'000'003u);
  EXPECT_EQ(plan.given.bytes_per_round, 428'573u);  // blocks 0, 3 and 6
}

TEST(Planner, BytesAndRatesOfOneBillion) {
  const Plan plan = MakePlan(OneBillion(), &Size);
  EXPECT_EQ(plan.fragments, 8u);
  EXPECT_EQ(plan.bytes_per_period, 500'000'000u);
  EXPECT_NEAR(static_cast<double>(plan.given.bytes_per_round), 62.5e6, 2);
  EXPECT_NEAR(plan.mean_bits_per_second, 4e9 / 10, 1);
  EXPECT_NEAR(plan.peak_bits_per_second, 8 * 62.5e6 / 0.1, 100);
  EXPECT_NEAR(plan.coordinator.ingress_bytes_per_period, 8 * 500e6, 1);
  EXPECT_NEAR(plan.coordinator.mean_egress_bits_per_second, 8 * 4e8 * plan.given.coordinator_utilization_ratio, 10);
  EXPECT_NEAR(plan.coordinator.peak_ingress_bits_per_second, 8e9, 1);
  // 20 bytes a parameter, a contribution and seven updates in 4 bits, a buffer and a snapshot of
  // the largest fragment.
  EXPECT_EQ(plan.worker.memory_bytes, 20'500'000'000u + 437'500'000 + 2 * 500'000'000);
  EXPECT_EQ(plan.worker.gpu_memory_bytes, 16'000'000'000u);
  EXPECT_EQ(plan.worker.gpu_host_bytes, 8'500'000'000u + 437'500'000 + 500'000'000);
  EXPECT_GT(plan.coordinator.needs.memory_bytes, 24'000'000'000u);
}

TEST(Planner, WorkerMemoryDependsOnPrecisionAndFormOn) {
  PlanRequest request = OneBillion();
  const WorkerLoad plain = MakePlan(request, &Size).worker;
  request.bf16 = true;  // a copy of 2 bytes per parameter on the training device
  const WorkerLoad bf16 = MakePlan(request, &Size).worker;
  EXPECT_EQ(bf16.memory_bytes, plain.memory_bytes + 2'000'000'000u);
  EXPECT_EQ(bf16.gpu_memory_bytes, plain.gpu_memory_bytes + 2'000'000'000u);
  EXPECT_EQ(bf16.gpu_host_bytes, plain.gpu_host_bytes);
  request.forms_on_gpu = true;  // for one of eight fragments: local and outer copy, and the encoder's output
  const WorkerLoad forms = MakePlan(request, &Size).worker;
  EXPECT_EQ(forms.memory_bytes, bf16.memory_bytes);
  EXPECT_GT(forms.gpu_memory_bytes, bf16.gpu_memory_bytes + 2 * 500'000'000u);
  EXPECT_GT(forms.gpu_host_bytes, bf16.gpu_host_bytes);
}

// "Peak bandwidth 8 times lower, 400 times fewer bits" (Streaming DiLoCo, Table 1).
TEST(Planner, PeakAndTotalAgainstDataParallel) {
  PlanRequest request = OneBillion();
  const Plan streaming = MakePlan(request, &Size);
  request.upload_codec = request.download_codec = CodecKind::kBf16;
  const Plan wide = MakePlan(request, &Size);
  request.method = PlanMethod::kDataParallel;
  const Plan data_parallel = MakePlan(request, &Size);
  EXPECT_EQ(data_parallel.given.inner_steps, 1u);
  EXPECT_EQ(data_parallel.given.overlap_steps, 0u);
  EXPECT_NEAR(data_parallel.mean_bits_per_second / streaming.mean_bits_per_second, 400, 1e-6);
  EXPECT_NEAR(data_parallel.peak_bits_per_second / wide.peak_bits_per_second, 8, 1e-6);
}

TEST(Planner, HoursForATokenBudget) {
  PlanRequest request = OneBillion();
  EXPECT_FALSE(MakePlan(request, &Size).budget.has_value());
  request.tokens = 25'000'000'000;
  request.tokens_per_worker_step = 131'072;
  const Plan plan = MakePlan(request, &Size);
  ASSERT_TRUE(plan.budget.has_value());
  EXPECT_EQ(plan.budget->steps, 23'842);
  EXPECT_NEAR(plan.budget->hours_without_link, 0.6623, 1e-4);
  EXPECT_NEAR(plan.budget->hours, plan.budget->hours_without_link / plan.given.compute_utilization_ratio, 1e-9);
  EXPECT_GE(plan.budget->hours_through_coordinator, plan.budget->hours);
  EXPECT_NEAR(plan.budget->upload_bytes, 238.42 * 500e6, 1);
}

TEST(Planner, PointsHoldTheGivenOneAndAgreeWithIt) {
  PlanRequest request = OneBillion();
  request.inner_steps = 73;
  request.overlap_steps = 2;
  const Plan plan = MakePlan(request, &Size);
  int found = 0;
  for (const PlanPoint& point : plan.points) {
    EXPECT_LT(point.overlap_steps, point.inner_steps);
    EXPECT_LE(point.coordinator_utilization_ratio, point.compute_utilization_ratio + 1e-9);
    if (point.codec != CodecKind::kMxfp4 || point.inner_steps != 73 || point.overlap_steps != 2) continue;
    ++found;
    EXPECT_EQ(point.compute_utilization_ratio, plan.given.compute_utilization_ratio);
    EXPECT_EQ(point.coordinator_utilization_ratio, plan.given.coordinator_utilization_ratio);
  }
  EXPECT_EQ(found, 1);
}

TEST(Planner, LeastPeriodsReachTheTargetAndOneLessDoesNot) {
  PlanRequest given = OneBillion();
  given.link = {4 * kGigabit, 4 * kGigabit, 0};
  int checked = 0;
  for (const LeastPeriod& least : MakePlan(given, &Size).least_periods) {
    PlanRequest request = given;
    request.upload_codec = request.download_codec = least.codec;
    request.overlap_steps = least.overlap_steps;
    request.inner_steps = least.inner_steps == 0 ? kRecommendedInnerSteps : least.inner_steps;
    const double reached = MakePlan(request, &Size).given.coordinator_utilization_ratio;
    EXPECT_EQ(reached >= 0.95, least.inner_steps != 0);
    if (least.inner_steps <= least.overlap_steps + 1) continue;
    --request.inner_steps;
    EXPECT_LT(MakePlan(request, &Size).given.coordinator_utilization_ratio, 0.95);
    ++checked;
  }
  EXPECT_GT(checked, 3);
}

// Two fragments of 1,000 elements and 4 bytes: each round moves 4,000 bytes up and 4,000 down.
TEST(RunUtilization, IsTheModelOfTheJobAsItRuns) {
  JobSpec spec;
  spec.sync.inner_steps = 10;
  spec.sync.overlap_steps = 0;
  spec.sync.upload_codec = spec.sync.download_codec = CodecKind::kFp32;
  const auto fp32 = [](CodecKind, uint64_t elements) { return elements * 4; };
  const LinkCapacity link{.upload_bytes_per_second = 4000, .download_bytes_per_second = 2000, .latency_seconds = 0};
  EXPECT_NEAR(RunUtilization(spec, {1000, 1000}, 1, link, fp32), 10.0 / 16, 1e-9);
  spec.sync.overlap_steps = 3;
  EXPECT_NEAR(RunUtilization(spec, {1000, 1000}, 1, link, fp32), 1, 1e-9);
  EXPECT_NEAR(RunUtilization(spec, {1000}, 0.5, link, fp32), 5 / 6.5, 1e-9) << "1.5 s of overlap hide half of 3 s";
  spec.sync.inner_steps = 1;
  EXPECT_NEAR(RunUtilization(spec, {1000}, 1, link, fp32), 1.0 / 4, 1e-9) << "the overlap is below the period";
}

TEST(Recommendation, TheGivenSettingsWhereTheySuffice) {
  PlanRequest request = OneBillion();
  request.link = {1000 * kGigabit, 1000 * kGigabit, 0};
  request.upload_codec = request.download_codec = CodecKind::kFp32;
  const Recommendation r = MakePlan(request, &Size).recommended;
  EXPECT_TRUE(r.reached);
  EXPECT_EQ(r.point.codec, CodecKind::kFp32);
  EXPECT_EQ(r.point.inner_steps, 100u);
  EXPECT_LT(r.bandwidth_bits_per_second, 1e12);
}

TEST(Recommendation, TheLeastCostlyChangeFirst) {
  // DiLoCo in fp32, H = 100: 8 s a round at 8 Gbit/s leave 10 / 18. Four bits take 1 s: 10 / 11.
  // Overlap 1 hides 0.1 s.
  PlanRequest request = OneBillion();
  request.method = PlanMethod::kDiloco;
  request.overlap_steps = 0;
  request.upload_codec = request.download_codec = CodecKind::kFp32;
  request.link = {8 * kGigabit, 8 * kGigabit, 0};
  request.target_utilization = 0.90;
  Recommendation r = MakePlan(request, &Size).recommended;
  EXPECT_TRUE(r.reached);
  EXPECT_EQ(r.method, PlanMethod::kDiloco);
  EXPECT_EQ(r.point.codec, CodecKind::kMxfp4);
  EXPECT_EQ(r.point.overlap_steps, 0u);
  request.target_utilization = 0.91;
  r = MakePlan(request, &Size).recommended;
  EXPECT_EQ(r.point.overlap_steps, 1u);
  request.target_utilization = 0.99;
  r = MakePlan(request, &Size).recommended;
  EXPECT_EQ(r.method, PlanMethod::kDiloco);
  EXPECT_EQ(r.point.overlap_steps, 10u);
  // On half the link the whole model no longer fits into 10 steps in both directions, but a
  // fragment does.
  request.link = {4 * kGigabit, 4 * kGigabit, 0};
  r = MakePlan(request, &Size).recommended;
  EXPECT_TRUE(r.reached);
  EXPECT_EQ(r.method, PlanMethod::kStreaming);
  EXPECT_EQ(r.point.inner_steps, 100u);
  EXPECT_GE(r.point.coordinator_utilization_ratio, 0.99);
}

TEST(Recommendation, ALongerPeriodLast) {
  PlanRequest request = OneBillion();
  // 1 s up and 1 s down for each of 8 fragments; 10 steps hide 1 s of each: 8 s are 10 % of 72 s
  // and 8 s.
  request.link = {0.5 * kGigabit, 0.5 * kGigabit, 0};
  request.target_utilization = 0.90;
  const Recommendation r = MakePlan(request, &Size).recommended;
  EXPECT_TRUE(r.reached);
  EXPECT_EQ(r.method, PlanMethod::kStreaming);
  EXPECT_EQ(r.point.overlap_steps, 10u);
  EXPECT_EQ(r.point.inner_steps, 720u);
  EXPECT_GE(r.point.coordinator_utilization_ratio, 0.90);
  EXPECT_GT(r.bandwidth_bits_per_second, 0.5e9);
}

TEST(Recommendation, SaysWhenNothingSuffices) {
  PlanRequest request = OneBillion();
  request.link = {0.001 * kGigabit, 0.001 * kGigabit, 0};
  const Recommendation r = MakePlan(request, &Size).recommended;
  EXPECT_FALSE(r.reached);
  EXPECT_EQ(r.point.inner_steps, kRecommendedInnerSteps);
  EXPECT_LT(r.point.coordinator_utilization_ratio, 0.95);
}

TEST(Recommendation, DataParallelGetsTheDilocoRecommendation) {
  PlanRequest request = OneBillion();
  request.method = PlanMethod::kDataParallel;
  request.link = {10 * kGigabit, 10 * kGigabit, 0};
  const Recommendation r = MakePlan(request, &Size).recommended;
  EXPECT_TRUE(r.reached);
  EXPECT_NE(r.method, PlanMethod::kDataParallel);
  EXPECT_GE(r.point.inner_steps, 30u);
}

TEST(ValidatePlan, EachFaultIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, std::function<void(PlanRequest&)>> cases[] = {
      {"params", [](PlanRequest& r) { r.parameters = (uint64_t{1} << 40) + 1; }},
      {"params", [](PlanRequest& r) { r.parameters = 23; }},
      {"layers", [](PlanRequest& r) { r.layers = 2000; }},
      {"embedding-params", [](PlanRequest& r) { r.embedding_parameters = 2'000'000'000; }},
      {"layers-per-fragment", [](PlanRequest& r) { r.layers_per_fragment = 0; }},
      {"step-seconds", [](PlanRequest& r) { r.step_seconds = 0; }},
      {"step-seconds", [=](PlanRequest& r) { r.step_seconds = nan; }},
      {"step-seconds", [=](PlanRequest& r) { r.step_seconds = infinity; }},
      {"workers", [](PlanRequest& r) { r.workers = 0; }},
      {"inner-steps", [](PlanRequest& r) { r.inner_steps = 0; }},
      {"overlap-steps", [](PlanRequest& r) { r.overlap_steps = 100; }},
      {"bandwidth", [](PlanRequest& r) { r.link.upload_bytes_per_second = 0; }},
      {"download-bandwidth", [=](PlanRequest& r) { r.link.download_bytes_per_second = nan; }},
      {"latency", [](PlanRequest& r) { r.link.latency_seconds = -1; }},
      {"round-time", [](PlanRequest& r) { r.link.round_seconds = -1; }},
      {"target-utilization", [](PlanRequest& r) { r.target_utilization = 1; }},
      {"target-utilization", [=](PlanRequest& r) { r.target_utilization = nan; }},
      {"tokens-per-step", [](PlanRequest& r) { r.tokens = 5; }},
      {"tokens", [](PlanRequest& r) { r.tokens_per_worker_step = 5; }},
  };
  EXPECT_THAT(ValidatePlanRequest(OneBillion()), IsEmpty());
  for (const auto& [field, spoil] : cases) {
    PlanRequest request = OneBillion();
    spoil(request);
    const std::vector<Violation> violations = ValidatePlanRequest(request);
    ASSERT_THAT(violations, testing::Not(IsEmpty())) << field;
    EXPECT_EQ(violations[0].field, field) << violations[0].problem;
  }
}

TEST(ValidatePlan, DataParallelismLooksAtNeitherPeriodNorOverlap) {
  PlanRequest request = OneBillion();
  request.method = PlanMethod::kDataParallel;
  request.overlap_steps = 100;
  EXPECT_THAT(ValidatePlanRequest(request), IsEmpty());
  request.inner_steps = 0;
  EXPECT_THAT(ValidatePlanRequest(request), IsEmpty());
}

}  // namespace
}  // namespace atl
