// SPDX-License-Identifier: Apache-2.0
// A second implementation of one outer step, from docs/formats/outer-step.md: plain fp32 arithmetic, element by
// element, without the kernels of common/vecmath and the pass of coordinator/aggregate. Pure.
#ifndef ATOLL_COORDINATOR_AUDIT_OUTER_STEP_H_
#define ATOLL_COORDINATOR_AUDIT_OUTER_STEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "atoll/v1/job.pb.h"
#include "atoll/v1/record.pb.h"
#include "common/base/hash.h"
#include "coordinator/audit/snapshot_reader.h"

namespace atl::audit {

// The arithmetic revision implemented here.
constexpr uint32_t kArithmeticKnown = 1;

struct OuterRule {
  v1::OuterOptimizerKind kind = v1::OUTER_OPTIMIZER_KIND_NESTEROV;
  v1::WeightRule weights = v1::WEIGHT_RULE_TOKENS;
  v1::MergeRule merge = v1::MERGE_RULE_MEAN;
  double trim_share = 0.25, clip_radius = 1;
  v1::CodecKind codec = v1::CODEC_KIND_FP32;  // of the download leg
  v1::ErrorMemory memory = v1::ERROR_MEMORY_FEEDBACK;
  double loco_beta = 0.8;
  uint64_t loco_reset = 64;
  uint64_t inner_steps = 100;
  std::vector<uint64_t> shards;            // samples of each corpus, if each worker has its own
  double learning_rate = 0, momentum = 0;  // of the round
};
// From a job's spec; missing fields have the defaults of job.proto.
OuterRule RuleOf(const v1::JobSpec& spec);

struct StepInput {
  v1::CodecKind codec = v1::CODEC_KIND_FP32;
  Bytes encoded{};
  uint64_t tokens = 0, steps = 0;
  uint64_t shard_samples = 0;
  double clip_factor = 1;
};
// The weight of a contribution under WEIGHT_RULE_SHARD_SIZE: from the corpus of its newest lease.
uint64_t ShardSamplesOf(const OuterRule& rule, const v1::CommittedContribution& contribution);

// The Euclidean norm of a contribution as decoded. `encoded` has the size of its codec.
double NormOf(v1::CodecKind codec, Bytes encoded, uint64_t elements);

// Normalised weights, in the order of the inputs.
std::vector<double> WeightsOf(const OuterRule& rule, const std::vector<StepInput>& inputs);

// Advances the state by one version and returns the encoded update. Without inputs no step is taken. The inputs
// are in worker-name order and have the size of their codec; weights from WeightsOf.
std::vector<std::byte> TakeOuterStep(const OuterRule& of_round, const std::vector<StepInput>& inputs,
                                     const std::vector<double>& weights, FragmentState& state);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_OUTER_STEP_H_
