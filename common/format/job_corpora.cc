// SPDX-License-Identifier: Apache-2.0
#include "common/format/job_corpora.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/format/corpus_shapes.h"
#include "common/plan/data_order.h"

namespace atl {
namespace {

uint64_t SamplesIn(const std::vector<CorpusShape>& shapes, uint32_t sequence_length) {
  uint64_t samples = 0;
  for (const CorpusShape& shape : shapes) {
    for (const uint64_t tokens : shape.shard_tokens) samples += tokens > 0 ? (tokens - 1) / sequence_length : 0;
  }
  return samples;
}

}  // namespace

std::vector<Violation> CheckTokenizers(const JobSpec& spec, const std::vector<CorpusManifest>& manifests) {
  std::vector<Violation> violations;
  for (size_t i = 1; i < manifests.size(); ++i) {
    const CorpusTokenizer &first = manifests[0].tokenizer, &other = manifests[i].tokenizer;
    if (first.kind == other.kind && first.sha256 == other.sha256 && first.vocab_size == other.vocab_size) continue;
    violations.push_back({absl::StrCat("data.corpora[", i, "].manifest"),
                          absl::StrCat("its tokenizer (", other.kind, ", ", other.vocab_size,
                                       " tokens) is not that of '", manifests[0].name, "' (", first.kind, ", ",
                                       first.vocab_size, " tokens); prepare both corpora with one tokenizer")});
  }
  const uint32_t vocab = manifests.empty() ? 0 : manifests[0].tokenizer.vocab_size;
  if (spec.model.vocab_size != 0 && spec.model.vocab_size < vocab) {
    violations.push_back(
        {"model.vocab_size", absl::StrCat("is ", spec.model.vocab_size, ", but the corpus has tokens up to ", vocab - 1,
                                          "; give at least ", vocab, " or omit it")});
  }
  return violations;
}

absl::StatusOr<SampleCounts> CountSamples(const JobSpec& spec, const std::vector<CorpusManifest>& manifests) {
  ATOLL_ASSIGN_OR_RETURN(const auto train, ShapesOf(spec.data, manifests, CorpusSplit::kTrain));
  ATOLL_ASSIGN_OR_RETURN(const auto held_out_shapes, ShapesOf(spec.data, manifests, CorpusSplit::kHeldOut));
  SampleCounts counts;
  const auto order = DataOrder::Create(spec.data, train);
  if (!order.ok()) {
    counts.violations.push_back({"data", std::string(order.status().message())});
    return counts;
  }
  for (uint32_t i = 0; i < train.size(); ++i) counts.epoch.push_back(order->SamplesPerEpoch(i));
  counts.dataset = spec.data.max_epochs > 0 ? order->PositionsForEpochs(spec.data.max_epochs) : UINT64_MAX;
  const uint64_t held_out = SamplesIn(held_out_shapes, spec.data.sequence_length);
  const uint64_t wanted = std::max<uint64_t>(1, spec.evaluation.max_tokens / spec.data.sequence_length);
  counts.held_out = std::min(held_out, wanted);
  if (held_out == 0 && !spec.evaluation.tasks.empty()) {
    counts.violations.push_back({"evaluation.tasks",
                                 "are scored together with the held-out loss, but no corpus has a held-out split of at "
                                 "least one sample; prepare the corpora with --held-out"});
  }
  return counts;
}

}  // namespace atl
