// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/draws.h"

#include "common/base/hash.h"
#include "common/plan/job_validation.h"
#include "common/plan/model_layout.h"

namespace atl {

void DrawSync(Rng& rng, SyncSpec& sync) {
  if (rng.Below(3) > 0) {
    sync.pattern = OneOf(rng, {FragmentPattern::kStrided, FragmentPattern::kSequential, FragmentPattern::kBalanced});
    sync.layers_per_fragment = 1 + static_cast<uint32_t>(rng.Below(2));
  }
  sync.overlap_steps = static_cast<uint32_t>(rng.Below(4));
  sync.mix = OneOf(rng, {0.0, 0.0, 0.5});
  const CodecKind codecs[] = {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kInt8, CodecKind::kMxfp4,
                              CodecKind::kE3m0};
  const ErrorMemory memories[] = {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco};
  sync.upload_codec = OneOf(rng, codecs);
  sync.download_codec = OneOf(rng, codecs);
  sync.upload_error_memory = OneOf(rng, memories);
  sync.download_error_memory = OneOf(rng, memories);
}

JobSpec DrawJob(Rng& rng, const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.priority = static_cast<int32_t>(rng.Below(3));
  spec.model = {.vocab_size = 16, .hidden_size = 8, .intermediate_size = 8, .layers = 2, .heads = 1};
  spec.data.corpora = {{.name = "toy", .manifest = Sha256Of(AsBytes(std::string("toy"))), .weight = 1}};
  spec.data.sequence_length = 8;
  spec.batch.sequences_per_step = 1 + static_cast<uint32_t>(rng.Below(4));
  spec.inner.learning_rate = 0.05;
  SyncSpec& sync = spec.sync;
  sync.inner_steps = 8 + static_cast<uint32_t>(rng.Below(33));
  DrawSync(rng, sync);
  sync.pace = OneOf(rng, {Pace::kUniform, Pace::kBalanced});
  spec.workers = {.min = 1 + static_cast<uint32_t>(rng.Below(2)), .max = 8, .planned = 3};
  spec.checkpoint.every_rounds = static_cast<uint32_t>(rng.Below(5));
  spec.checkpoint.keep_last = 1 + static_cast<uint32_t>(rng.Below(3));
  spec.checkpoint.keep_contributions = rng.Below(4) == 0;
  spec.evaluation.max_tokens = 64;  // the time of an evaluation grows with it
  spec.evaluation.every_rounds = static_cast<uint32_t>(rng.Below(4));
  spec.screens.norm = OneOf(rng, {ScreenMode::kReport, ScreenMode::kClip, ScreenMode::kEnforce, ScreenMode::kEnforce});
  spec.stop.inner_steps = rng.Below(3) == 0 ? 200 + rng.Below(1500) : kWithoutEnd;
  spec.inner.schedule.total_steps = spec.stop.inner_steps;
  (void)ResolveDefaults(spec, 16);
  return spec;
}

JobSubmitted SubmissionOf(const JobId& job, const JobSpec& spec, uint64_t samples, int64_t wall_nanos) {
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  return {.request_id = job.value,
          .spec = spec,
          .fragments = static_cast<uint32_t>(layout.fragments.size()),
          .stop_step = PlannedInnerSteps(spec),
          .dataset_samples = samples,
          .held_out_samples = 8,
          .wall_nanos = wall_nanos};
}

}  // namespace atl
