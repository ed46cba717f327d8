// SPDX-License-Identifier: Apache-2.0
// A job as requested by the user: the domain form of atoll.v1.JobSpec. common/wire converts it from
// and to the message; rooms below never see protobuf. Plain values; copies are cheap. The defaults
// here are those of the job file. ValidateJobSpec (job_validation.h) alone defines which values are
// allowed.
#ifndef ATOLL_COMMON_PLAN_JOB_SPEC_H_
#define ATOLL_COMMON_PLAN_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/time.h"

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
  uint32_t head_dim = 0;  // 0: the tokenizer's size, rounded up to a multiple of 64
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-5;
  bool tie_embeddings = true;
  bool qk_norm = false;    // RMSNorm of queries and keys over head_dim, before rotation
  double z_loss = 0;       // weight of mean(logsumexp(logits)^2) in the training loss
  double init_std = 0.02;  // normal; output projections of attention and MLP scaled by 1/sqrt(2 layers)
  Precision precision = Precision::kFp32;
};

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

enum class ScheduleKind { kConstant, kCosine, kLinear, kWsd };
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
  uint64_t warmup_steps = 0;  // linear from 0 to the peak
  uint64_t decay_steps = 0;   // WSD: length of the final decay (0: 20 % of total)
  double final_ratio = 0.1;   // learning rate at the end / peak
  uint64_t total_steps = 0;   // 0: the job's planned inner steps
};

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

struct BatchSpec {
  uint32_t sequences_per_step = 8;  // samples of one inner step of one worker
  uint32_t micro_batch = 0;         // samples of one forward pass; 0: chosen by the worker
};

enum class OuterKind { kNesterov, kMomentum, kSgd };
struct OuterOptimizerSpec {
  OuterKind kind = OuterKind::kNesterov;
  double learning_rate = 0;  // 0: set at submit from planned workers and outer steps (docs/design.md section 3)
  double momentum = -1;      // < 0: set at submit
};

// In the order of the wire's numbers. common/codec/block_codecs.cc has the form of each.
enum class CodecKind { kFp32, kFp16, kBf16, kInt8, kMxfp4, kE3m0 };
inline constexpr CodecKind kCodecKinds[] = {CodecKind::kFp32, CodecKind::kFp16,  CodecKind::kBf16,
                                            CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};
enum class ErrorMemory { kOff, kFeedback, kLoco };
enum class FragmentPattern { kWhole, kStrided, kSequential, kBalanced };
enum class WeightRule { kUniform, kTokens, kTokensSquaredOverSteps, kShardSize };
enum class Pace { kUniform, kBalanced };
enum class MergeRule { kMean, kTrimmedMean, kMedian, kCenteredClip };

// How the contributions of a round are combined (docs/formats/outer-step.md, "Merge"). Every rule
// but kMean counts all contributions with steps equally, whatever the weights.
struct MergeSpec {
  MergeRule rule = MergeRule::kMean;
  double trim_share = 0.25;  // kTrimmedMean: share dropped at each end, in [0, 0.5)
  double clip_radius = 1;    // kCenteredClip: relative to the median distance from the median, > 0
};

// LoCo's moving average (2407.04480): memory := beta * memory + (1 - beta) * error, cleared every `reset_syncs` syncs.
struct LocoSpec {
  double beta = 0.8;
  uint32_t reset_syncs = 64;
};

struct SyncSpec {
  uint32_t inner_steps = 100;  // H
  uint32_t overlap_steps = 0;  // tau, 0 <= tau < H
  double mix = 0;              // alpha in [0, 1]: share of own parameters kept in a merge
  FragmentPattern pattern = FragmentPattern::kWhole;
  uint32_t layers_per_fragment = 3;
  CodecKind upload_codec = CodecKind::kFp32;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  ErrorMemory download_error_memory = ErrorMemory::kFeedback;
  LocoSpec loco;  // for directions with error memory kLoco
  WeightRule weights = WeightRule::kTokens;
  MergeSpec merge;
  Pace pace = Pace::kUniform;
  uint32_t quorum = 0;                // contributions that suffice after the grace window; 0: majority of expected
  Duration deadline{};                // of a round's collection; 0: derived, at least membership timeout + grace
  uint32_t max_missed = 3;            // consecutive missed syncs before a worker takes the outer copy
  uint32_t max_unsynced_periods = 2;  // steps since the last applied update, in periods of H
  uint32_t join_warmup_steps = 0;     // ramp of a joining worker's inner rate; 0: H / 2
  // Caps on the bulk bytes of each worker, in addition to its own; 0: none.
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

struct WorkersSpec {
  uint32_t min = 1;
  uint32_t max = 64;
  uint32_t planned = 0;  // for the outer defaults; 0: min
};

// The run ends at the first rule met; at least one is set.
struct StopSpec {
  uint64_t inner_steps = 0;  // job clock
  uint64_t tokens = 0;       // consumed tokens
};

// A file of examples that evaluations score (docs/formats/eval-tasks.md).
struct EvaluationTaskSpec {
  std::string name;       // unique in the job; for people and metrics
  Sha256 file;            // blob, stored at submit
  uint32_t examples = 0;  // number scored, from the first; 0: all, replaced by their number at submit
};

struct EvaluationSpec {
  uint32_t every_rounds = 0;    // outer steps of fragment 0 between evaluations; 0: only first and last
  uint64_t max_tokens = 65536;  // held-out tokens read by one evaluation
  std::vector<EvaluationTaskSpec> tasks;
  uint32_t tasks_every_rounds = 0;  // like every_rounds, for evaluations that also score the tasks
};

struct CheckpointSpec {
  uint32_t every_rounds = 0;        // 0: only the final one
  uint32_t keep_last = 3;           // at least 1
  uint32_t keep_every = 0;          // keeps also every n-th permanently; 0: none
  bool keep_contributions = false;  // round logs are not dropped after snapshots (replay)
};

// Deliberate disturbances of a run, to measure their cost.
enum class PoolSchedule { kConstant, kDoubling, kHalving, kRampUp, kRampDown };
struct ExperimentSpec {
  double drop_sync_probability = 0;  // share of each worker's syncs, at least 0 and below 1; see experiment.h
  PoolSchedule pool = PoolSchedule::kConstant;  // number of planned workers that take part, over the job clock
};

// How the norm of a contribution is judged (docs/screens.md). Values that are not finite or could
// overflow are refused in every mode.
enum class ScreenMode { kReport, kClip, kEnforce };
struct ScreensSpec {
  ScreenMode norm = ScreenMode::kEnforce;
  double clip_above = 3;     // norm per step over the running median; a larger contribution is scaled down to it
  double refuse_above = 10;  // same ratio; a larger contribution is refused and its worker quarantined
  uint32_t strikes = 3;      // consecutive clipped contributions to one fragment that quarantine the worker
};

struct JobSpec {
  std::string name;                           // [a-z0-9-]{1,63}; becomes the JobId
  std::map<std::string, std::string> labels;  // at most 32, each at most 256 bytes
  int32_t priority = 0;                       // higher first, -1000 to 1000
  ModelSpec model;
  InitSpec init;
  DataSpec data;
  BatchSpec batch;
  InnerOptimizerSpec inner;
  OuterOptimizerSpec outer;
  SyncSpec sync;
  WorkersSpec workers;
  StopSpec stop;
  EvaluationSpec evaluation;
  CheckpointSpec checkpoint;
  ExperimentSpec experiment;
  ScreensSpec screens;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_JOB_SPEC_H_
