// SPDX-License-Identifier: Apache-2.0
#include "cli/data_summary.h"

#include "absl/strings/str_format.h"
#include "cli/progress_line.h"

namespace atl::cli {
namespace {

constexpr CorpusSplit kSplits[] = {CorpusSplit::kTrain, CorpusSplit::kHeldOut};

double BytesPerToken(const CorpusTotals& totals) {
  return totals.tokens == 0 ? 0 : static_cast<double>(totals.text_bytes) / static_cast<double>(totals.tokens);
}

void PrintTable(const std::string& directory, const CorpusManifest& manifest, std::ostream& out) {
  out << "corpus     " << manifest.name << " in " << directory << "\n";
  out << "tokenizer  " << manifest.tokenizer.kind << ", vocabulary " << HumanCount(manifest.tokenizer.vocab_size);
  if (manifest.tokenizer.eot_id) {
    out << ", end of text " << *manifest.tokenizer.eot_id << (manifest.eot_appended ? "" : " (not appended)");
  }
  out << "\n\n"
      << absl::StrFormat("%-9s %12s %15s %12s %12s %7s\n", "SPLIT", "DOCUMENTS", "TOKENS", "TEXT", "BYTES/TOKEN",
                         "SHARDS");
  for (const CorpusSplit split : kSplits) {
    const CorpusTotals& totals = manifest.Totals(split);
    out << absl::StrFormat("%-9s %12s %15s %12s %12.2f %7d\n", SplitName(split), HumanCount(totals.documents),
                           HumanCount(totals.tokens), HumanBytes(totals.text_bytes), BytesPerToken(totals),
                           manifest.FilesOf(split).size());
  }
  if (manifest.bigram) {
    out << absl::StrFormat("\nbigram baseline on held_out: perplexity %.2f, %.3f bits per byte\n",
                           manifest.bigram->perplexity, manifest.bigram->bits_per_byte);
  }
}

}  // namespace

nlohmann::ordered_json SummaryJson(const std::string& directory, const CorpusManifest& manifest) {
  nlohmann::ordered_json root;
  root["directory"] = directory;
  root["name"] = manifest.name;
  root["tokenizer"] = {{"kind", manifest.tokenizer.kind}, {"vocab_size", manifest.tokenizer.vocab_size}};
  if (manifest.tokenizer.eot_id) root["tokenizer"]["eot_id"] = *manifest.tokenizer.eot_id;
  if (!manifest.tokenizer.file.empty()) root["tokenizer"]["sha256"] = manifest.tokenizer.sha256.Hex();
  root["token_type"] = TokenTypeName(manifest.token_type);
  root["eot_appended"] = manifest.eot_appended;
  for (const CorpusSplit split : kSplits) {
    const CorpusTotals& totals = manifest.Totals(split);
    root["splits"][SplitName(split)] = {{"documents", totals.documents},
                                        {"tokens", totals.tokens},
                                        {"text_bytes", totals.text_bytes},
                                        {"bytes_per_token", BytesPerToken(totals)},
                                        {"shards", manifest.FilesOf(split).size()}};
  }
  if (manifest.bigram) {
    root["bigram"] = {{"perplexity", manifest.bigram->perplexity}, {"bits_per_byte", manifest.bigram->bits_per_byte}};
  }
  return root;
}

void PrintSummary(const std::string& directory, const CorpusManifest& manifest, bool json, std::ostream& out,
                  std::optional<uint64_t> left_out) {
  if (!json) {
    PrintTable(directory, manifest, out);
    if (left_out)
      out << "\nskipped: " << HumanCount(*left_out) << (*left_out == 1 ? " bad document\n" : " bad documents\n");
    return;
  }
  nlohmann::ordered_json root = SummaryJson(directory, manifest);
  if (left_out) root["left_out_documents"] = *left_out;
  out << root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace atl::cli
