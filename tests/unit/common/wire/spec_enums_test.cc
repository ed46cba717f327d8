// SPDX-License-Identifier: Apache-2.0
// The enumerations of common/plan have the values of those in proto/, less 1.
#include <gtest/gtest.h>

#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

constexpr bool Same(auto proto, auto domain) { return static_cast<int>(proto) == static_cast<int>(domain) + 1; }
static_assert(Same(v1::PRECISION_FP32, Precision::kFp32) && Same(v1::PRECISION_BF16, Precision::kBf16));
static_assert(Same(v1::DATA_ASSIGNMENT_SHARED, false) && Same(v1::DATA_ASSIGNMENT_SHARDS, true));
static_assert(Same(v1::SCHEDULE_KIND_CONSTANT, ScheduleKind::kConstant));
static_assert(Same(v1::SCHEDULE_KIND_COSINE, ScheduleKind::kCosine));
static_assert(Same(v1::SCHEDULE_KIND_LINEAR, ScheduleKind::kLinear) && Same(v1::SCHEDULE_KIND_WSD, ScheduleKind::kWsd));
static_assert(Same(v1::INNER_OPTIMIZER_KIND_ADAMW, InnerOptimizerSpec::Kind::kAdamW));
static_assert(Same(v1::INNER_OPTIMIZER_KIND_SGD, InnerOptimizerSpec::Kind::kSgd));
static_assert(Same(v1::OUTER_OPTIMIZER_KIND_NESTEROV, OuterKind::kNesterov));
static_assert(Same(v1::OUTER_OPTIMIZER_KIND_MOMENTUM, OuterKind::kMomentum));
static_assert(Same(v1::OUTER_OPTIMIZER_KIND_SGD, OuterKind::kSgd));
static_assert(Same(v1::CODEC_KIND_FP32, CodecKind::kFp32) && Same(v1::CODEC_KIND_FP16, CodecKind::kFp16));
static_assert(Same(v1::CODEC_KIND_BF16, CodecKind::kBf16) && Same(v1::CODEC_KIND_INT8, CodecKind::kInt8));
static_assert(Same(v1::CODEC_KIND_MXFP4, CodecKind::kMxfp4) && Same(v1::CODEC_KIND_E3M0, CodecKind::kE3m0));
static_assert(Same(v1::ERROR_MEMORY_OFF, ErrorMemory::kOff) && Same(v1::ERROR_MEMORY_FEEDBACK, ErrorMemory::kFeedback));
static_assert(Same(v1::ERROR_MEMORY_LOCO, ErrorMemory::kLoco));
static_assert(Same(v1::FRAGMENT_PATTERN_WHOLE, FragmentPattern::kWhole));
static_assert(Same(v1::FRAGMENT_PATTERN_STRIDED, FragmentPattern::kStrided));
static_assert(Same(v1::FRAGMENT_PATTERN_SEQUENTIAL, FragmentPattern::kSequential));
static_assert(Same(v1::FRAGMENT_PATTERN_BALANCED, FragmentPattern::kBalanced));
static_assert(Same(v1::WEIGHT_RULE_UNIFORM, WeightRule::kUniform) && Same(v1::WEIGHT_RULE_TOKENS, WeightRule::kTokens));
static_assert(Same(v1::WEIGHT_RULE_TOKENS_SQUARED_OVER_STEPS, WeightRule::kTokensSquaredOverSteps));
static_assert(Same(v1::WEIGHT_RULE_SHARD_SIZE, WeightRule::kShardSize));
static_assert(Same(v1::MERGE_RULE_MEAN, MergeRule::kMean) && Same(v1::MERGE_RULE_MEDIAN, MergeRule::kMedian));
static_assert(Same(v1::MERGE_RULE_TRIMMED_MEAN, MergeRule::kTrimmedMean));
static_assert(Same(v1::MERGE_RULE_CENTERED_CLIP, MergeRule::kCenteredClip));
static_assert(Same(v1::PACE_UNIFORM, Pace::kUniform) && Same(v1::PACE_BALANCED, Pace::kBalanced));
static_assert(Same(v1::POOL_SCHEDULE_CONSTANT, PoolSchedule::kConstant));
static_assert(Same(v1::POOL_SCHEDULE_DOUBLING, PoolSchedule::kDoubling));
static_assert(Same(v1::POOL_SCHEDULE_HALVING, PoolSchedule::kHalving));
static_assert(Same(v1::POOL_SCHEDULE_RAMP_UP, PoolSchedule::kRampUp));
static_assert(Same(v1::POOL_SCHEDULE_RAMP_DOWN, PoolSchedule::kRampDown));
static_assert(Same(v1::SCREEN_MODE_REPORT, ScreenMode::kReport) && Same(v1::SCREEN_MODE_CLIP, ScreenMode::kClip));
static_assert(Same(v1::SCREEN_MODE_ENFORCE, ScreenMode::kEnforce));

// A message with every enumeration at another value than its default.
v1::JobSpec Changed() {
  v1::JobSpec m;
  m.mutable_model()->set_precision(v1::PRECISION_BF16);
  m.mutable_data()->set_assignment(v1::DATA_ASSIGNMENT_SHARDS);
  m.mutable_inner_optimizer()->mutable_schedule()->set_kind(v1::SCHEDULE_KIND_WSD);
  m.mutable_inner_optimizer()->set_kind(v1::INNER_OPTIMIZER_KIND_SGD);
  m.mutable_outer_optimizer()->set_kind(v1::OUTER_OPTIMIZER_KIND_MOMENTUM);
  v1::SyncSpec& sync = *m.mutable_sync();
  sync.set_fragments(v1::FRAGMENT_PATTERN_BALANCED);
  sync.set_upload_codec(v1::CODEC_KIND_INT8);
  sync.set_download_codec(v1::CODEC_KIND_BF16);
  sync.set_upload_error_memory(v1::ERROR_MEMORY_LOCO);
  sync.set_download_error_memory(v1::ERROR_MEMORY_OFF);
  sync.set_weights(v1::WEIGHT_RULE_UNIFORM);
  sync.set_merge(v1::MERGE_RULE_MEDIAN);
  sync.set_pace(v1::PACE_BALANCED);
  m.mutable_experiment()->set_pool(v1::POOL_SCHEDULE_HALVING);
  m.mutable_screens()->set_norm(v1::SCREEN_MODE_REPORT);
  return m;
}

TEST(SpecEnums, EachFieldIsReadIntoItsMember) {
  JobSpec spec;
  EXPECT_TRUE(JobSpecFromProto(Changed(), /*before_submit=*/false, spec).empty());
  EXPECT_EQ(spec.model.precision, Precision::kBf16);
  EXPECT_TRUE(spec.data.pin_shards);
  EXPECT_EQ(spec.inner.schedule.kind, ScheduleKind::kWsd);
  EXPECT_EQ(spec.inner.kind, InnerOptimizerSpec::Kind::kSgd);
  EXPECT_EQ(spec.outer.kind, OuterKind::kMomentum);
  EXPECT_EQ(spec.sync.pattern, FragmentPattern::kBalanced);
  EXPECT_EQ(spec.sync.upload_codec, CodecKind::kInt8);
  EXPECT_EQ(spec.sync.download_codec, CodecKind::kBf16);
  EXPECT_EQ(spec.sync.upload_error_memory, ErrorMemory::kLoco);
  EXPECT_EQ(spec.sync.download_error_memory, ErrorMemory::kOff);
  EXPECT_EQ(spec.sync.weights, WeightRule::kUniform);
  EXPECT_EQ(spec.sync.merge.rule, MergeRule::kMedian);
  EXPECT_EQ(spec.sync.pace, Pace::kBalanced);
  EXPECT_EQ(spec.experiment.pool, PoolSchedule::kHalving);
  EXPECT_EQ(spec.screens.norm, ScreenMode::kReport);
}

TEST(SpecEnums, AMissingOneIsTheDefault) {
  JobSpec spec;
  EXPECT_TRUE(JobSpecFromProto({}, /*before_submit=*/false, spec).empty());
  EXPECT_EQ(JobSpecToProto(spec).SerializeAsString(), JobSpecToProto(JobSpec()).SerializeAsString());
}

TEST(SpecEnums, AnUnknownOneIsRefused) {
  for (const int number : {-1, v1::MergeRule_MAX + 1, INT32_MAX}) {
    v1::JobSpec message;
    message.mutable_sync()->set_merge(static_cast<v1::MergeRule>(number));
    JobSpec spec;
    const std::vector<Violation> violations = JobSpecFromProto(message, /*before_submit=*/false, spec);
    ASSERT_EQ(violations.size(), 1u) << number;
    EXPECT_EQ(violations[0].field, "sync.merge");
    EXPECT_EQ(violations[0].problem, "has the value " + std::to_string(number) + ", which this version does not know");
    EXPECT_EQ(spec.sync.merge.rule, MergeRule::kMean);
  }
}

}  // namespace
}  // namespace atl
