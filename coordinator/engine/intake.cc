// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/intake.h"

#include <algorithm>
#include <utility>

#include "common/codec/codec.h"
#include "common/format/eval_task.h"
#include "common/format/job_corpora.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr uint64_t kManifestsBytes = uint64_t{512} << 20;  // manifests of a job: 1.5 trillion tokens of four bytes

// Reads the manifests, without the hashes of their blocks; a missing or faulty one becomes a violation.
absl::Status ReadManifests(const JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < spec.data.corpora.size(); ++i) {
    const CorpusSpec& corpus = spec.data.corpora[i];
    const std::string field = absl::StrCat("data.corpora[", i, "].manifest");
    const auto text = blobs(corpus.manifest);
    if (absl::IsNotFound(text.status())) {
      result.violations.push_back({field, absl::StrCat("the manifest ", corpus.manifest.Hex(),
                                                       " is not stored at the coordinator; upload it before the job")});
      continue;
    }
    ATOLL_RETURN_IF_ERROR(text.status());
    bytes += text->size();
    if (bytes > kManifestsBytes) {
      result.violations.push_back({"data.corpora", absl::StrCat("has manifests of more than ", kManifestsBytes,
                                                                " bytes in all; use fewer or smaller corpora")});
      return absl::OkStatus();
    }
    auto manifest = ParseManifest(*text);
    if (!manifest.ok()) {
      result.violations.push_back({field, std::string(manifest.status().message())});
      continue;
    }
    for (CorpusFile& file : manifest->files) std::vector<Sha256>().swap(file.blocks);
    result.plan.manifests.push_back(*std::move(manifest));
  }
  return absl::OkStatus();
}

// Reads the files that evaluations score. Every missing or faulty file becomes a violation, and
// `examples` of each task becomes the number of examples that are scored.
absl::Status ReadTasks(JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < spec.evaluation.tasks.size(); ++i) {
    EvaluationTaskSpec& task = spec.evaluation.tasks[i];
    const auto refuse = [&](std::string problem) {
      result.violations.push_back({absl::StrCat("evaluation.tasks[", i, "].file"), std::move(problem)});
    };
    const auto text = blobs(task.file);
    if (absl::IsNotFound(text.status())) {
      refuse(absl::StrCat("the file ", task.file.Hex(), " is not stored at the coordinator; upload it before the job"));
      continue;
    }
    ATOLL_RETURN_IF_ERROR(text.status());
    bytes += text->size();
    if (bytes > limits::kEvalTasksBytes) {
      result.violations.push_back({"evaluation.tasks", absl::StrCat("has files of more than ", limits::kEvalTasksBytes,
                                                                    " bytes in all, the most that a job scores")});
      return absl::OkStatus();
    }
    const auto parsed = ParseEvalTask(*text);
    if (!parsed.ok()) {
      refuse(absl::StrCat("of task ", task.name, " is not a task file: ", std::string(parsed.status().message())));
      continue;
    }
    const auto all = static_cast<uint32_t>(std::min<size_t>(parsed->examples.size(), limits::kEvalExamples + 1));
    task.examples = task.examples == 0 ? all : std::min(task.examples, all);
  }
  return absl::OkStatus();
}

// Adds a violation if the corpora's tokenizer is not stored: task files are text, so scoring them needs it.
void CheckTaskTokenizer(const JobSpec& spec, const BlobReader& blobs, IntakeResult& result) {
  if (spec.evaluation.tasks.empty() || result.plan.manifests.empty()) return;
  const CorpusTokenizer& tokenizer = result.plan.manifests[0].tokenizer;
  if (tokenizer.file.empty() || blobs(tokenizer.sha256).ok()) return;
  result.violations.push_back(
      {"evaluation.tasks", absl::StrCat("cannot be scored without the corpora's ", tokenizer.file,
                                        ", which is not stored at the coordinator; upload it before the job")});
}

absl::Status TakeCounts(IntakeResult& result) {
  JobPlan& plan = result.plan;
  ATOLL_ASSIGN_OR_RETURN(SampleCounts counts, CountSamples(plan.spec, plan.manifests));
  result.violations = std::move(counts.violations);
  if (!result.violations.empty()) return absl::OkStatus();
  for (size_t i = 0; i < plan.spec.data.corpora.size(); ++i)
    plan.spec.data.corpora[i].samples = plan.spec.data.pin_shards ? counts.epoch[i] : 0;
  plan.dataset_samples = counts.dataset;
  plan.held_out_samples = counts.held_out;
  if (counts.held_out == 0)
    plan.notes.push_back("the corpora have no held-out split of at least one sample: the job will not be evaluated");
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
  for (Violation& v : CheckTokenizers(spec, result.plan.manifests)) result.violations.push_back(std::move(v));
  for (size_t i = 0; i < spec.data.tokenizer_files.size(); ++i) {
    if (blobs(spec.data.tokenizer_files[i]).ok()) continue;
    result.violations.push_back({absl::StrCat("data.tokenizer_sha256[", i, "]"),
                                 "the tokenizer file is not stored at the coordinator; upload it before the job"});
  }
  CheckTaskTokenizer(spec, blobs, result);
  ATOLL_RETURN_IF_ERROR(ReadTasks(spec, blobs, result));
  if (!result.violations.empty()) return result;
  result.plan.notes = ResolveDefaults(spec, result.plan.manifests[0].tokenizer.vocab_size);
  // Checked again: a default can be unstable together with a given value.
  result.violations = ValidateJobSpec(spec, /*before_submit=*/false);
  if (!result.violations.empty()) return result;
  result.plan.layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  result.plan.stop_step = PlannedInnerSteps(spec);
  result.plan.spec = std::move(spec);
  ATOLL_RETURN_IF_ERROR(TakeCounts(result));
  return result;
}

}  // namespace atl
