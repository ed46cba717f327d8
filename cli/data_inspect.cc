// SPDX-License-Identifier: Apache-2.0
// atoll data inspect: prints the manifest's figures and the beginning of each split as text.
#include <algorithm>

#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "common/base/utf8.h"
#include "common/format/corpus_manifest.h"
#include "common/plan/limits.h"
#include "common/text/tokenizer.h"

namespace atl::cli {
namespace {

constexpr uint32_t kSampleTokens = 65536;  // at most

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const std::string& directory, const CorpusManifest& manifest,
                                                       const Files& files) {
  std::string bytes;
  if (!manifest.tokenizer.file.empty()) {
    ATOLL_ASSIGN_OR_RETURN(
        bytes, ReadWholeFile(files, JoinPath(directory, manifest.tokenizer.file), limits::kTokenizerFileBytes));
  }
  return LoadTokenizer(manifest.tokenizer.kind, std::move(bytes));
}

// Decodes the beginning of a split's first shard; empty for an empty split.
absl::StatusOr<std::string> Sample(const std::string& directory, const CorpusManifest& manifest, CorpusSplit split,
                                   const Tokenizer& tokenizer, const Files& files, uint32_t tokens) {
  const auto shards = manifest.FilesOf(split);
  if (shards.empty()) return std::string();
  ATOLL_ASSIGN_OR_RETURN(const auto shard, TokenShard::Open(files, JoinPath(directory, shards[0]->name)));
  std::vector<uint32_t> ids(std::min<uint64_t>({tokens, kSampleTokens, shard->tokens()}));
  ATOLL_RETURN_IF_ERROR(shard->Read(0, ids));
  return tokenizer.Decode(ids);
}

}  // namespace

absl::Status RunDataInspect(const DataInspectOptions& options, const Files& files, std::ostream& out, std::ostream&) {
  ATOLL_ASSIGN_OR_RETURN(const CorpusManifest manifest, ReadManifest(files, options.directory));
  auto json = SummaryJson(options.directory, manifest);
  if (!options.json) PrintSummary(options.directory, manifest, false, out);
  if (options.sample_tokens > 0) {
    ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, TokenizerOf(options.directory, manifest, files));
    for (const CorpusSplit split : {CorpusSplit::kTrain, CorpusSplit::kHeldOut}) {
      ATOLL_ASSIGN_OR_RETURN(const std::string sample,
                             Sample(options.directory, manifest, split, *tokenizer, files, options.sample_tokens));
      json["splits"][SplitName(split)]["sample"] = sample;
      if (!options.json && !sample.empty()) {
        out << "\n" << SplitName(split) << " begins:\n" << Printable(sample, "\n\t") << "\n";
      }
    }
  }
  if (options.json) out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return absl::OkStatus();
}

}  // namespace atl::cli
