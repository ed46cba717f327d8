// SPDX-License-Identifier: Apache-2.0
// Tokenizers: text <-> ids. Text is taken as it is: no Unicode normalisation, no trimming. SentencePiece stays inside
// sentencepiece_tokenizer.cc.
#ifndef ATOLL_COMMON_TEXT_TOKENIZER_H_
#define ATOLL_COMMON_TEXT_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

enum class TokenizerKind { kBytes, kSentencePiece };
std::string TokenizerKindName(TokenizerKind kind);  // "bytes", "sentencepiece"

inline constexpr char kSentencePieceFileName[] = "tokenizer.model";

// Immutable and thread-safe after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual TokenizerKind kind() const = 0;
  // Ids are below it.
  virtual uint32_t vocab_size() const = 0;
  // Marks the end of a document; never produced by Encode.
  virtual std::optional<uint32_t> eot_id() const = 0;
  // Ids of `text`, appended to `ids`. No begin or end token is added. `text` must be valid UTF-8 for SentencePiece; the
  // byte tokenizer takes any bytes.
  virtual absl::Status Encode(const std::string& text, std::vector<uint32_t>& ids) const = 0;
  // Bytes of `ids`; special tokens (end of text and the like) give nothing. InvalidArgument for an id that is not below
  // vocab_size(). May end inside a UTF-8 sequence.
  virtual absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids) const = 0;
  // The file that makes this tokenizer again; empty for bytes.
  virtual const std::string& file_bytes() const = 0;
};

// 256 bytes and end-of-text: vocabulary 257, id of byte b is b, end-of-text is 256. Needs no file.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// A SentencePiece model (BPE or unigram) from the bytes of its file. eot is its </s>. InvalidArgument when it does not
// parse.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePiece(std::string model_bytes);

// By the name in a manifest: "bytes" (no file) or "sentencepiece".
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& kind, std::string file_bytes);

// The next sentence to learn from in `text`, false at the end.
using TextSource = std::function<bool(std::string& text)>;

constexpr uint32_t kLeastTrainedVocabulary = 300;  // byte fallback needs as many

struct SentencePieceTraining {
  uint32_t vocab_size = 8192;  // from kLeastTrainedVocabulary
  // Text beyond this is not read. The trainer takes up to 40 times as much memory.
  uint64_t max_text_bytes = uint64_t{64} << 20;
  // Called after the text was read, for each piece that was made.
  std::function<void(uint64_t made, uint64_t wanted)> progress;
};

// Trains a BPE model with byte fallback, identity normalisation, no dummy prefix, single-threaded: same text, same
// model on one machine and library version. Ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 bytes. InvalidArgument when the text is
// too small for the vocabulary (the message says the largest that works) or empty.
absl::StatusOr<std::string> TrainSentencePiece(const SentencePieceTraining& options, const TextSource& source);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_TOKENIZER_H_
