// SPDX-License-Identifier: Apache-2.0
// What a worker trains and how: model, data and inner optimizer of a job (job_spec.h).
#ifndef ATOLL_COMMON_PLAN_TRAINING_SPEC_H_
#define ATOLL_COMMON_PLAN_TRAINING_SPEC_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/hash.h"
#include "common/plan/limits.h"
#include "common/plan/number_field.h"

namespace atl {

enum class Precision { kFp32, kBf16 };  // kBf16: bf16 working copy and activations, fp32 master parameters

// The Llama family. Shapes follow Hugging Face's LlamaConfig.
struct ModelSpec {
  uint32_t vocab_size = 0;  // 0: the tokenizer's, rounded up to a multiple of 64
  uint32_t hidden_size = 256;
  uint32_t intermediate_size = 0;  // 0: 8/3 x hidden_size rounded up to a multiple of 64
  uint32_t layers = 4;
  uint32_t heads = 4;
  uint32_t kv_heads = 0;  // 0: heads
  uint32_t head_dim = 0;  // 0: hidden_size / heads
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-5;
  bool tie_embeddings = true;
  bool qk_norm = false;    // RMSNorm of queries and keys over head_dim, before rotation
  double z_loss = 0;       // weight of mean(logsumexp(logits)^2) in the training loss
  double init_std = 0.02;  // normal; output projections of attention and MLP scaled by 1/sqrt(2 layers)
  Precision precision = Precision::kFp32;
};
template <>
inline constexpr auto kNumbers<ModelSpec> =
    std::tuple{NumberField("vocab_size", &ModelSpec::vocab_size, Bounds::Within(0, 1 << 24)),
               NumberField("hidden_size", &ModelSpec::hidden_size, Bounds::Within(8, 65'536)),
               NumberField("intermediate_size", &ModelSpec::intermediate_size, Bounds::Within(0, 1'048'576)),
               NumberField("layers", &ModelSpec::layers, Bounds::Within(1, limits::kLayers)),
               NumberField("heads", &ModelSpec::heads, Bounds::Within(1, 1024)),
               NumberField("kv_heads", &ModelSpec::kv_heads),
               NumberField("head_dim", &ModelSpec::head_dim),
               NumberField("rope_theta", &ModelSpec::rope_theta, Bounds::Above(1, 1e12)),
               NumberField("rms_norm_eps", &ModelSpec::rms_norm_eps, Bounds::Above(0, 1)),
               NumberField("tie_embeddings", &ModelSpec::tie_embeddings),
               NumberField("init_std", &ModelSpec::init_std, Bounds::Within(0, 1)),
               NumberField("qk_norm", &ModelSpec::qk_norm),
               NumberField("z_loss", &ModelSpec::z_loss, Bounds::Within(0, 1))};

// The source of version 0: exactly one, by default the seed. No worker ever provides initial state.
struct InitSpec {
  uint64_t seed = 0;
  std::vector<Sha256> safetensors;  // blobs of a Hugging Face directory, stored at submit; empty: the seed
  std::string checkpoint;           // "jobs/{job}/checkpoints/{step}" of this coordinator, with its outer state
};

struct CorpusSpec {
  std::string name;      // unique in the job; for people and metrics
  Sha256 manifest;       // blob of the corpus manifest, stored at submit
  uint32_t weight = 1;   // share of samples, relative to the other corpora; 1 to 10,000
  uint64_t samples = 0;  // in one pass; set at submit with pin_shards
};

struct DataSpec {
  std::vector<CorpusSpec> corpora;
  std::vector<Sha256> tokenizer_files;  // blobs, in the order of tokenizer_file_names; stored at submit for export
  std::vector<std::string> tokenizer_file_names;  // plain file names, no directory
  uint32_t sequence_length = 256;                 // tokens of one sample, T; a sample reads T + 1 tokens
  uint64_t seed = 0;                              // seed of the order; independent of the initial parameters
  uint32_t window_blocks = 64;                    // W: samples are permuted inside windows of W blocks
  double max_epochs = 0;                          // 0: as many as the stop rule needs
  bool separate_documents = false;                // attention and positions stop at end-of-text tokens
  bool pin_shards = false;                        // data.assignment: shards; see shards.h
};
template <>
inline constexpr auto kNumbers<DataSpec> =
    std::tuple{NumberField("sequence_length", &DataSpec::sequence_length, Bounds::Within(8, 1'048'576)),
               NumberField("seed", &DataSpec::seed),
               NumberField("window_blocks", &DataSpec::window_blocks, Bounds::Within(1, 65'536)),
               NumberField("max_epochs", &DataSpec::max_epochs, Bounds::Within(0, 1e6)),
               NumberField("separate_documents", &DataSpec::separate_documents)};

enum class ScheduleKind { kConstant, kCosine, kLinear, kWsd };
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
  uint64_t warmup_steps = 0;  // linear up to the peak
  uint64_t decay_steps = 0;   // WSD: length of the final decay (0: 20 % of total)
  double final_ratio = 0.1;   // learning rate at the end / peak
  uint64_t total_steps = 0;   // 0: the job's planned inner steps
};
template <>
inline constexpr auto kNumbers<ScheduleSpec> = std::tuple{
    NumberField("warmup_steps", &ScheduleSpec::warmup_steps), NumberField("decay_steps", &ScheduleSpec::decay_steps),
    NumberField("total_steps", &ScheduleSpec::total_steps, Bounds::Within(0, kMaxSteps)),
    NumberField("final_ratio", &ScheduleSpec::final_ratio, Bounds::Within(0, 1))};

struct InnerOptimizerSpec {
  double learning_rate = 4e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;   // decoupled; not applied to norms
  double gradient_clip = 1.0;  // global norm; 0: off
  ScheduleSpec schedule;
  enum class Kind { kAdamW, kSgd } kind = Kind::kAdamW;  // SGD with H = 1 is data parallelism; tests check this
};
template <>
inline constexpr auto kNumbers<InnerOptimizerSpec> =
    std::tuple{NumberField("learning_rate", &InnerOptimizerSpec::learning_rate, Bounds::Above(0, 1e3)),
               NumberField("beta1", &InnerOptimizerSpec::beta1, Bounds::Below(0, 1)),
               NumberField("beta2", &InnerOptimizerSpec::beta2, Bounds::Below(0, 1)),
               NumberField("epsilon", &InnerOptimizerSpec::epsilon, Bounds::Above(0, 1)),
               NumberField("weight_decay", &InnerOptimizerSpec::weight_decay, Bounds::Within(0, 100)),
               NumberField("gradient_clip", &InnerOptimizerSpec::gradient_clip, Bounds::Within(0, 1e6))};

struct BatchSpec {
  uint32_t sequences_per_step = 8;  // samples of one inner step of one worker
  uint32_t micro_batch = 0;         // samples of one forward pass; 0: chosen by the worker
};
template <>
inline constexpr auto kNumbers<BatchSpec> =
    std::tuple{NumberField("sequences_per_step", &BatchSpec::sequences_per_step, Bounds::Within(1, 1'048'576)),
               NumberField("micro_batch", &BatchSpec::micro_batch)};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_TRAINING_SPEC_H_
