// SPDX-License-Identifier: Apache-2.0
// Tokenizers: text <-> ids. Text is used unchanged: no Unicode normalisation, no trimming. Only
// sentencepiece_tokenizer.cc knows SentencePiece.
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
  // All ids are below this.
  virtual uint32_t vocab_size() const = 0;
  // Id of the token that marks the end of a document, never produced by Encode; nullopt: there is none.
  virtual std::optional<uint32_t> eot_id() const = 0;
  // Appends the ids of `text`. Adds no begin or end token. SentencePiece requires valid UTF-8; the
  // byte tokenizer accepts any bytes.
  virtual absl::Status Encode(const std::string& text, std::vector<uint32_t>& ids) const = 0;
  // Returns the bytes of `ids`; special tokens such as end-of-text produce none. InvalidArgument
  // for an id that is not below vocab_size(). The result may end within a UTF-8 sequence.
  virtual absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids) const = 0;
  // File from which this tokenizer can be loaded; empty for bytes.
  virtual const std::string& file_bytes() const = 0;
};

// 256 bytes and end-of-text: vocabulary size 257, byte b has id b, end-of-text has id 256. Needs no
// file.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// Loads a SentencePiece model (BPE or unigram) from the bytes of its file. The end-of-text token is
// its </s>. InvalidArgument when it cannot be parsed.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePiece(std::string model_bytes);

// Loads a tokenizer by its name in a manifest: "bytes" (no file) or "sentencepiece".
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& kind, std::string file_bytes);

// Returns the next text to train on in `text`; false at the end.
using TextSource = std::function<bool(std::string& text)>;

constexpr uint32_t kLeastTrainedVocabulary = 300;  // minimum for byte fallback

struct SentencePieceTraining {
  uint32_t vocab_size = 8192;  // from kLeastTrainedVocabulary
  // Limit of the training text; further text is not read. The trainer needs up to 40 times this memory.
  uint64_t max_text_bytes = uint64_t{64} << 20;
  // Called for each new piece, after the text was read.
  std::function<void(uint64_t made, uint64_t wanted)> progress;
};

// Trains a BPE model with byte fallback, identity normalisation and no dummy prefix. The same text gives the same
// model. Ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 bytes. InvalidArgument for a vocabulary size out of range or text that
// is not UTF-8. FailedPrecondition when the text is empty or too small for the vocabulary (the message states the
// largest possible size).
absl::StatusOr<std::string> TrainSentencePiece(const SentencePieceTraining& options, const TextSource& source);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_TOKENIZER_H_
