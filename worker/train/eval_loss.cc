// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/plan/limits.h"
#include "worker/data/local_blocks.h"
#include "worker/data/sample_reader.h"
#include "worker/train/checkpoint.h"
#include "worker/train/generate.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

constexpr uint32_t kSamplesPerRead = 64;
constexpr uint32_t kLeastSequence = 8, kMostSequence = 1'048'576;

// The path of a corpus's manifest. The corpus may be named by its directory, as in all commands.
std::string ManifestPath(const std::string& given) {
  const std::string ending = ".json";
  const bool file =
      given.size() >= ending.size() && given.compare(given.size() - ending.size(), ending.size(), ending) == 0;
  return file ? given : JoinPath(given, kManifestName);
}

absl::StatusOr<CorpusManifests> LoadManifest(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(files, path, limits::kManifestBytes));
  auto manifest = ParseManifest(json);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  return std::make_shared<const std::vector<CorpusManifest>>(1, *std::move(manifest));
}

absl::StatusOr<ModelOptions> OptionsFor(const EvalLossOptions& options, const CorpusManifest& manifest,
                                        uint32_t vocab_size) {
  if (manifest.tokenizer.vocab_size > vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(options.manifest, " was prepared with a vocabulary of ",
                                                   manifest.tokenizer.vocab_size, ", the model in ", options.checkpoint,
                                                   " has ", vocab_size));
  }
  const std::optional<uint32_t> eot = manifest.tokenizer.eot_id;
  return ModelOptions{.separate_documents = options.separate_documents,
                      .end_of_text = eot.has_value() ? static_cast<int32_t>(*eot) : -1};
}

absl::StatusOr<LossSum> SumLoss(HeldOutReader& reader, uint64_t samples, Evaluator& evaluator) {
  LossSum sum;
  for (uint64_t first = 0; first < samples; first += kSamplesPerRead) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(kSamplesPerRead, samples - first));
    ATOLL_ASSIGN_OR_RETURN(const SampleBatch batch, reader.Read(first, count));
    ATOLL_ASSIGN_OR_RETURN(const LossSum part, evaluator.Evaluate({.tokens = batch.tokens, .sequences = count}));
    sum.nll += part.nll;
    sum.targets += part.targets;
  }
  return sum;
}

std::string JsonLine(const LossSum& sum, double bytes_per_token) {
  const double loss = sum.nll / static_cast<double>(sum.targets);
  std::string line = absl::StrFormat("{\"nll\":%.9g,\"tokens\":%d,\"loss\":%.9g,\"perplexity\":%.9g", sum.nll,
                                     sum.targets, loss, std::exp(loss));
  if (bytes_per_token > 0)
    absl::StrAppendFormat(&line, ",\"bits_per_byte\":%.9g", loss / std::log(2.0) / bytes_per_token);
  return line + "}";
}

}  // namespace

absl::Status RunEvalLoss(const EvalLossOptions& options, std::ostream& out, std::ostream& talk) {
  if (options.sequence_length < kLeastSequence || options.sequence_length > kMostSequence) {
    return absl::InvalidArgumentError(absl::StrCat("--sequence-length is ", options.sequence_length, ", must be ",
                                                   kLeastSequence, " to ", kMostSequence, ", as in a job file"));
  }
  const std::unique_ptr<Files> files = MakePosixFiles();
  if (options.threads > 0) SetTensorThreads(options.threads);
  const std::string manifest = ManifestPath(options.manifest);
  ATOLL_ASSIGN_OR_RETURN(const CorpusManifests manifests, LoadManifest(*files, manifest));
  ATOLL_ASSIGN_OR_RETURN(const auto source, LocalBlockSource::Create(*files, DirectoryOf(manifest), manifests, {"."}));
  const CorpusSplit split = options.train_split ? CorpusSplit::kTrain : CorpusSplit::kHeldOut;
  ATOLL_ASSIGN_OR_RETURN(const auto reader, HeldOutReader::Create(options.sequence_length, manifests, *source, split));
  ATOLL_ASSIGN_OR_RETURN(const Checkpoint checkpoint, LoadCheckpoint(*files, options.checkpoint));
  const ModelSpec& model = checkpoint.config.model;
  ATOLL_ASSIGN_OR_RETURN(const ModelOptions model_options, OptionsFor(options, manifests->front(), model.vocab_size));
  ATOLL_ASSIGN_OR_RETURN(const auto evaluator,
                         Evaluator::Create(model, checkpoint.layout, model_options, {}, checkpoint.parameters->host()));
  const uint64_t length = options.sequence_length;
  const uint64_t wanted = options.max_tokens / length + (options.max_tokens % length != 0 ? 1 : 0);
  const uint64_t samples = options.max_tokens == 0 ? reader->samples() : std::min(reader->samples(), wanted);
  talk << checkpoint.layout.elements << " parameters, " << samples << " of " << reader->samples()
       << " samples of split " << SplitName(split) << "\n";
  ATOLL_ASSIGN_OR_RETURN(const LossSum sum, SumLoss(*reader, samples, *evaluator));
  out << JsonLine(sum, reader->BytesPerToken(0, samples)) << "\n";
  return absl::OkStatus();
}

}  // namespace atl
