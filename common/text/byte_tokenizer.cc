// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/text/tokenizer.h"

namespace atl {
namespace {

constexpr uint32_t kEot = 256;
constexpr uint32_t kVocabulary = 257;

class ByteTokenizer final : public Tokenizer {
 public:
  TokenizerKind kind() const override { return TokenizerKind::kBytes; }
  uint32_t vocab_size() const override { return kVocabulary; }
  std::optional<uint32_t> eot_id() const override { return kEot; }
  const std::string& file_bytes() const override { return no_file_; }

  absl::Status Encode(const std::string& text, std::vector<uint32_t>& ids) const override {
    const size_t at = ids.size();
    ids.resize(at + text.size());
    std::transform(text.begin(), text.end(), ids.begin() + static_cast<ptrdiff_t>(at),
                   [](char c) { return static_cast<uint32_t>(static_cast<uint8_t>(c)); });
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids) const override {
    std::string text;
    for (const uint32_t id : ids) {
      if (id >= kVocabulary) {
        return absl::InvalidArgumentError(
            absl::StrCat("token id ", id, " is not below the vocabulary size ", kVocabulary));
      }
      if (id != kEot) text.push_back(static_cast<char>(id));
    }
    return text;
  }

 private:
  std::string no_file_;
};

}  // namespace

std::string TokenizerKindName(TokenizerKind kind) { return kind == TokenizerKind::kBytes ? "bytes" : "sentencepiece"; }

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& kind, std::string file_bytes) {
  if (kind == "bytes") return MakeByteTokenizer();
  if (kind == "sentencepiece") return LoadSentencePiece(std::move(file_bytes));
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer kind \"", kind, "\" is not known; bytes and sentencepiece are"));
}

}  // namespace atl
