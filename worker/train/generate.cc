// SPDX-License-Identifier: Apache-2.0
#include "worker/train/generate.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "worker/model/model.h"
#include "worker/train/checkpoint.h"
#include "worker/train/sampling.h"

namespace atl {
namespace {

constexpr uint32_t kMaxTokens = 65536;
// For a smaller model, waking more threads takes longer than computing a token.
constexpr uint64_t kManyThreadsElements = uint64_t{32} << 20;

absl::Status CheckOptions(const GenerateOptions& options) {
  if (options.checkpoint.empty()) return absl::InvalidArgumentError("--checkpoint names no directory");
  if (options.max_tokens == 0 || options.max_tokens > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-tokens is ", options.max_tokens, ", must be 1 to ", kMaxTokens));
  }
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    return absl::InvalidArgumentError(absl::StrCat("--temperature is ", options.temperature, ", must be 0 to 100"));
  }
  return absl::OkStatus();
}

// True if the text ends inside a UTF-8 sequence, or with a decoder's replacement character for one.
bool EndsInside(const std::string& text) {
  if (text.size() >= 3 && text.compare(text.size() - 3, 3, "\xef\xbf\xbd") == 0) return true;
  for (size_t back = 1; back <= std::min<size_t>(4, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0u) == 0x80u) continue;
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return back < length;
  }
  return false;
}

// Prints the text of a growing token sequence as soon as it is certain.
class Printer {
 public:
  Printer(const Tokenizer& tokenizer, std::ostream& out) : tokenizer_(tokenizer), out_(out) {}

  absl::Status Show(const std::vector<uint32_t>& ids, bool last) {
    ATOLL_ASSIGN_OR_RETURN(const std::string text, tokenizer_.Decode(ids));
    if (!last && EndsInside(text)) return absl::OkStatus();
    if (text.size() > shown_) out_ << text.substr(shown_) << std::flush;
    shown_ = std::max(shown_, text.size());
    return absl::OkStatus();
  }

 private:
  const Tokenizer& tokenizer_;
  std::ostream& out_;
  size_t shown_ = 0;
};

absl::StatusOr<std::vector<uint32_t>> PromptIds(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<uint32_t> ids;
  ATOLL_RETURN_IF_ERROR(tokenizer.Encode(prompt, ids));
  if (!ids.empty()) return ids;
  if (!tokenizer.eot_id().has_value()) {
    return absl::InvalidArgumentError("--prompt is empty, and the tokenizer has no end-of-text token to begin after");
  }
  return std::vector<uint32_t>{*tokenizer.eot_id()};
}

// Draws the token after `ids`.
absl::StatusOr<uint32_t> NextToken(const GenerateOptions& options, const Checkpoint& checkpoint, uint32_t token_ids,
                                   const std::vector<uint32_t>& ids, Model& model, Rng& rng) {
  const size_t window = std::min<size_t>(ids.size(), checkpoint.config.max_positions);
  const std::vector<int32_t> tokens(ids.end() - static_cast<ptrdiff_t>(window), ids.end());
  std::vector<float> scores(checkpoint.config.model.vocab_size);
  ATOLL_RETURN_IF_ERROR(model.LastLogits({.tokens = tokens, .sequences = 1}, scores));
  // Rows that only pad the vocabulary have no token.
  return DrawToken(std::span(scores).first(token_ids), options.temperature, options.top_k, rng);
}

}  // namespace

absl::Status RunGenerate(const GenerateOptions& options, std::ostream& out, std::ostream& talk) {
  ATOLL_RETURN_IF_ERROR(CheckOptions(options));
  const std::unique_ptr<Files> files = MakePosixFiles();
  if (options.threads > 0) SetTensorThreads(options.threads);
  ATOLL_ASSIGN_OR_RETURN(const Checkpoint checkpoint, LoadCheckpoint(*files, options.checkpoint));
  if (options.threads == 0 && checkpoint.layout.elements < kManyThreadsElements) SetTensorThreads(1);
  ATOLL_ASSIGN_OR_RETURN(const auto tokenizer, LoadCheckpointTokenizer(*files, options.checkpoint));
  ATOLL_ASSIGN_OR_RETURN(
      const auto model, Model::Create(checkpoint.config.model, checkpoint.layout, {}, *checkpoint.parameters, nullptr));
  const uint32_t rows = checkpoint.config.model.vocab_size, token_ids = std::min(tokenizer->vocab_size(), rows);
  talk << checkpoint.layout.elements << " parameters, " << checkpoint.config.model.layers << " layers, vocabulary of "
       << rows << (rows > token_ids ? absl::StrCat(", ", token_ids, " of them tokens and the rest padding") : "")
       << "\n";
  ATOLL_ASSIGN_OR_RETURN(std::vector<uint32_t> ids, PromptIds(*tokenizer, options.prompt));
  Rng rng(StreamKey(options.seed, "generate"));
  Printer printer(*tokenizer, out);
  for (uint32_t i = 0; i < options.max_tokens; ++i) {
    ATOLL_RETURN_IF_ERROR(printer.Show(ids, false));
    ATOLL_ASSIGN_OR_RETURN(const uint32_t next, NextToken(options, checkpoint, token_ids, ids, *model, rng));
    if (next == tokenizer->eot_id()) break;
    ids.push_back(next);
  }
  ATOLL_RETURN_IF_ERROR(printer.Show(ids, true));
  out << "\n";
  return absl::OkStatus();
}

}  // namespace atl
