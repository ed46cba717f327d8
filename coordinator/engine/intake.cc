#include "coordinator/engine/intake.h"

#include <algorithm>
#include <utility>

#include "common/codec/codec.h"
#include "common/format/corpus_shapes.h"
#include "common/format/eval_task.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

uint64_t SamplesIn(const std::vector<CorpusShape>& shapes, uint32_t sequence_length) {
  uint64_t samples = 0;
  for (const CorpusShape& shape : shapes) {
    for (const uint64_t tokens : shape.shard_tokens) samples += tokens > 0 ? (tokens - 1) / sequence_length : 0;
  }
  return samples;
}

// Reads the manifests; problems become violations.
absl::Status ReadManifests(const JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  for (size_t i = 0; i < spec.data.corpora.size(); ++i) {
    const CorpusSpec& corpus = spec.data.corpora[i];
    const std::string field = absl::StrCat("data.corpora[", i, "].manifest");
    const auto text = blobs(corpus.manifest);
    if (absl::IsNotFound(text.status())) {
      result.violations.push_back({field, absl::StrCat("the manifest ", corpus.manifest.Hex(),
                                                       " is not stored here; upload it before the job")});
      continue;
    }
    ATOLL_RETURN_IF_ERROR(text.status());
    auto manifest = ParseManifest(*text);
    if (!manifest.ok()) {
      result.violations.push_back({field, std::string(manifest.status().message())});
      continue;
    }
    result.plan.manifests.push_back(*std::move(manifest));
  }
  return absl::OkStatus();
}

// All corpora must speak the same tokenizer, and the model must know its tokens.
void CheckTokenizers(const JobSpec& spec, IntakeResult& result) {
  const auto& manifests = result.plan.manifests;
  for (size_t i = 1; i < manifests.size(); ++i) {
    const CorpusTokenizer &first = manifests[0].tokenizer, &other = manifests[i].tokenizer;
    if (first.kind == other.kind && first.sha256 == other.sha256 && first.vocab_size == other.vocab_size) continue;
    result.violations.push_back({absl::StrCat("data.corpora[", i, "].manifest"),
                                 absl::StrCat("its tokenizer (", other.kind, ", ", other.vocab_size,
                                              " tokens) is not that of '", manifests[0].name, "' (", first.kind, ", ",
                                              first.vocab_size, " tokens); prepare both corpora with one tokenizer")});
  }
  const uint32_t vocab = manifests.empty() ? 0 : manifests[0].tokenizer.vocab_size;
  if (spec.model.vocab_size != 0 && spec.model.vocab_size < vocab) {
    result.violations.push_back(
        {"model.vocab_size", absl::StrCat("is ", spec.model.vocab_size, ", but the corpus has tokens up to ", vocab - 1,
                                          "; give at least ", vocab, " or leave it out")});
  }
}

// The files that evaluations score: all of their faults become violations, `examples` becomes their number.
absl::Status ReadTasks(JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < spec.evaluation.tasks.size(); ++i) {
    EvaluationTaskSpec& task = spec.evaluation.tasks[i];
    const auto refuse = [&](std::string problem) {
      result.violations.push_back({absl::StrCat("evaluation.tasks[", i, "].file"), std::move(problem)});
    };
    const auto text = blobs(task.file);
    if (absl::IsNotFound(text.status())) {
      refuse(absl::StrCat("the file ", task.file.Hex(), " is not stored here; upload it before the job"));
      continue;
    }
    ATOLL_RETURN_IF_ERROR(text.status());
    bytes += text->size();
    const auto parsed = ParseEvalTask(*text);
    if (!parsed.ok()) {
      refuse(absl::StrCat("of task ", task.name, " is no task file: ", std::string(parsed.status().message())));
      continue;
    }
    const auto all = static_cast<uint32_t>(std::min<size_t>(parsed->examples.size(), limits::kEvalExamples + 1));
    task.examples = task.examples == 0 ? all : std::min(task.examples, all);
  }
  if (bytes > limits::kEvalTasksBytes) {
    result.violations.push_back({"evaluation.tasks", absl::StrCat("has files of ", bytes, " bytes; at most ",
                                                                  limits::kEvalTasksBytes, " are scored by a job")});
  }
  return absl::OkStatus();
}

// Task files are text, so whoever scores them needs the tokenizer.
void CheckTaskTokenizer(const JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  if (spec.evaluation.tasks.empty() || result.plan.manifests.empty()) return;
  const CorpusTokenizer& tokenizer = result.plan.manifests[0].tokenizer;
  if (tokenizer.file.empty() || blobs(tokenizer.sha256).ok()) return;
  result.violations.push_back(
      {"evaluation.tasks", absl::StrCat("cannot be scored without the corpora's ", tokenizer.file,
                                        ", which is not stored here; upload it before the job")});
}

absl::Status CountSamples(IntakeResult& result) {
  JobPlan& plan = result.plan;
  ATOLL_ASSIGN_OR_RETURN(const auto train, ShapesOf(plan.spec.data, plan.manifests, CorpusSplit::kTrain));
  ATOLL_ASSIGN_OR_RETURN(const auto held_out_shapes, ShapesOf(plan.spec.data, plan.manifests, CorpusSplit::kHeldOut));
  const auto order = DataOrder::Create(plan.spec.data, train);
  if (!order.ok()) {
    result.violations.push_back({"data", std::string(order.status().message())});
    return absl::OkStatus();
  }
  for (uint32_t i = 0; i < plan.spec.data.corpora.size(); ++i)
    plan.spec.data.corpora[i].samples = plan.spec.data.pin_shards ? order->SamplesPerEpoch(i) : 0;
  plan.dataset_samples =
      plan.spec.data.max_epochs > 0 ? order->PositionsForEpochs(plan.spec.data.max_epochs) : UINT64_MAX;
  const uint64_t held_out = SamplesIn(held_out_shapes, plan.spec.data.sequence_length);
  const uint64_t wanted = std::max<uint64_t>(1, plan.spec.evaluation.max_tokens / plan.spec.data.sequence_length);
  plan.held_out_samples = std::min(held_out, wanted);
  if (held_out == 0 && !plan.spec.evaluation.tasks.empty()) {
    result.violations.push_back(
        {"evaluation.tasks",
         "are scored beside the held-out loss, and the corpora have no held-out split of a whole "
         "sample; prepare them with --held-out"});
  }
  if (held_out == 0)
    plan.notes.push_back("the corpora have no held-out split of a whole sample: the run will not be evaluated");
  return absl::OkStatus();
}

}  // namespace

JobSizes SizesOf(const JobSpec& spec, const ModelLayout& layout) {
  JobSizes sizes{.parameters = layout.elements, .fragments = static_cast<uint32_t>(layout.fragments.size())};
  for (const FragmentInfo& fragment : layout.fragments) {
    const uint64_t contribution = EncodedSize(spec.sync.upload_codec, fragment.elements);
    sizes.contribution_bytes += contribution;
    sizes.largest_contribution_bytes = std::max(sizes.largest_contribution_bytes, contribution);
    sizes.update_bytes += EncodedSize(spec.sync.download_codec, fragment.elements);
  }
  return sizes;
}

absl::StatusOr<IntakeResult> PlanJob(JobSpec spec, const BlobReader& blobs) {
  IntakeResult result;
  result.violations = ValidateJobSpec(spec, /*before_submit=*/false);
  if (!result.violations.empty()) return result;
  ATOLL_RETURN_IF_ERROR(ReadManifests(spec, blobs, result));
  CheckTokenizers(spec, result);
  for (size_t i = 0; i < spec.data.tokenizer_files.size(); ++i) {
    if (blobs(spec.data.tokenizer_files[i]).ok()) continue;
    result.violations.push_back({absl::StrCat("data.tokenizer_sha256[", i, "]"),
                                 "the tokenizer file is not stored here; upload it before the job"});
  }
  CheckTaskTokenizer(spec, blobs, result);
  ATOLL_RETURN_IF_ERROR(ReadTasks(spec, blobs, result));
  if (!result.violations.empty()) return result;
  result.plan.notes = ResolveDefaults(spec, result.plan.manifests[0].tokenizer.vocab_size);
  // What was resolved must still hold: a default can be unstable together with a given value.
  result.violations = ValidateJobSpec(spec, /*before_submit=*/false);
  if (!result.violations.empty()) return result;
  result.plan.layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  result.plan.stop_step = PlannedInnerSteps(spec);
  result.plan.spec = std::move(spec);
  ATOLL_RETURN_IF_ERROR(CountSamples(result));
  return result;
}

}  // namespace atl
