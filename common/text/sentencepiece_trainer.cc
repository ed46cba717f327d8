// SPDX-License-Identifier: Apache-2.0
// Trains a model: text -> words with counts -> pieces -> the file of a SentencePiece model.
#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "absl/strings/str_format.h"
#include "common/base/utf8.h"
#include "common/text/bpe_trainer.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"

namespace atl {
namespace {

constexpr uint32_t kReserved = 3 + 256;             // <unk>, <s>, </s> and the bytes
constexpr double kCharacterCoverage = 0.9995;       // rarer characters are encoded as bytes
constexpr size_t kWordBytes = 256;                  // longer stretches without a space are split
constexpr size_t kDistinctWords = size_t{1} << 21;  // further words are ignored

using WordCounts = std::unordered_map<std::string, uint64_t>;

enum class CharacterClass { kSpace, kBreak, kDigit, kLetter, kOther };

CharacterClass ClassOf(char c) {
  if (c == ' ') return CharacterClass::kSpace;
  if (static_cast<uint8_t>(c) < 0x20) return CharacterClass::kBreak;
  if (c >= '0' && c <= '9') return CharacterClass::kDigit;
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
  return letter ? CharacterClass::kLetter : CharacterClass::kOther;
}

// Splits text into words, which merges never cross: one space and the following letters or signs,
// runs of further spaces, runs of control characters, single digits. Spaces are escaped as in the
// model.
class WordCounter {
 public:
  void Count(const std::string& text) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) {
      if (at > begin && (Boundary(text, begin, at) || at - begin >= kWordBytes)) {
        Add(text, begin, at);
        begin = at;
      }
    }
    if (begin < text.size()) Add(text, begin, text.size());
  }
  // Returns the words so far, in no particular order, and clears the counter.
  std::vector<CountedWord> Take() {
    std::vector<CountedWord> words;
    words.reserve(counts_.size());
    while (!counts_.empty()) {
      auto node = counts_.extract(counts_.begin());
      words.push_back({std::move(node.key()), node.mapped()});
    }
    return words;
  }

 private:
  static bool Boundary(const std::string& text, size_t begin, size_t at) {
    const CharacterClass before = ClassOf(text[at - 1]), here = ClassOf(text[at]);
    if (before == CharacterClass::kSpace) {
      // The last of several spaces belongs to the next word.
      const bool next_is_word = at + 1 < text.size() && ClassOf(text[at + 1]) != CharacterClass::kSpace;
      if (here == CharacterClass::kSpace) return next_is_word;
      return at - begin > 1 || here == CharacterClass::kBreak || here == CharacterClass::kDigit;
    }
    return before != here || here == CharacterClass::kDigit;
  }

  void Add(const std::string& text, size_t begin, size_t end) {
    std::string word;
    for (size_t i = begin; i < end; ++i) {
      if (text[i] == ' ') {
        word += kSpaceSymbol;
      } else {
        word.push_back(text[i]);
      }
    }
    const auto found = counts_.find(word);
    if (found != counts_.end()) {
      ++found->second;
    } else if (counts_.size() < kDistinctWords) {
      counts_.emplace(std::move(word), 1);
    }
  }

  WordCounts counts_;
};

// Returns the most frequent characters that cover kCharacterCoverage of the text, at most `limit`;
// most frequent first.
std::vector<std::string> CommonCharacters(const std::vector<CountedWord>& words, size_t limit) {
  std::unordered_map<char32_t, uint64_t> counts;
  uint64_t total = 0;
  for (const CountedWord& word : words) {
    for (size_t at = 0; at < word.text.size(); at += Utf8Length(word.text[at])) {
      counts[Utf8At(word.text, at)] += word.count;
      total += word.count;
    }
  }
  std::vector<std::pair<char32_t, uint64_t>> ordered(counts.begin(), counts.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return std::tie(b.second, a.first) < std::tie(a.second, b.first); });
  std::vector<std::string> out;
  uint64_t covered = 0;
  for (const auto& [character, count] : ordered) {
    if (out.size() == limit || static_cast<double>(covered) >= kCharacterCoverage * static_cast<double>(total)) break;
    AppendUtf8(character, out.emplace_back());
    covered += count;
  }
  return out;
}

// Assigns ids in the library's order: specials, bytes, merges in order of creation, characters.
std::string MakeModel(const std::vector<std::string>& merges, const std::vector<std::string>& characters) {
  std::vector<Piece> pieces = {
      {"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl}};
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back(Piece{absl::StrFormat("<0x%02X>", byte), 0, PieceType::kByte});
  float score = 0;  // only the order matters; integers up to 2^24 are exact
  for (const auto* list : {&merges, &characters}) {
    for (const std::string& text : *list) pieces.push_back(Piece{text, score--, PieceType::kNormal});
  }
  return SerializeBpeModel(pieces);
}

}  // namespace

absl::StatusOr<std::string> TrainSentencePiece(const SentencePieceTraining& options, const TextSource& source) {
  if (options.vocab_size < kLeastTrainedVocabulary || options.vocab_size > kSentencePieces) {
    return absl::InvalidArgumentError(absl::StrCat("a trained vocabulary must have ", kLeastTrainedVocabulary, " to ",
                                                   kSentencePieces, " pieces, not ", options.vocab_size));
  }
  WordCounter counter;
  std::string text;
  for (uint64_t read_bytes = 0; read_bytes < options.max_text_bytes && source(text); read_bytes += text.size()) {
    if (FirstInvalidUtf8(text) != text.size()) {
      return absl::InvalidArgumentError("the text to train a tokenizer on is not valid UTF-8");
    }
    counter.Count(text);
  }
  std::vector<CountedWord> words = counter.Take();
  if (words.empty()) return absl::FailedPreconditionError("there is no text to train a tokenizer on");
  const size_t slots = options.vocab_size - kReserved;
  const std::vector<std::string> characters = CommonCharacters(words, slots / 2);
  const size_t wanted = slots - characters.size();
  const auto progress = [&](size_t made) {
    if (options.progress) options.progress(made, wanted);
  };
  progress(0);
  BpeTrainer trainer(std::move(words), characters);
  const std::vector<std::string> merges = trainer.Run(wanted, progress);
  if (merges.size() < wanted) {
    return absl::FailedPreconditionError(absl::StrCat("the text is too small for a vocabulary of ", options.vocab_size,
                                                      " pieces; it gives at most ",
                                                      kReserved + characters.size() + merges.size()));
  }
  return MakeModel(merges, characters);
}

}  // namespace atl
