// Byte-pair encoding by counting (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"):
// the most frequent pair of neighbours becomes a piece, again and again. Everything is counted in whole numbers and
// walked in a fixed order, so the same text gives the same model on every machine.
#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

#include "absl/strings/str_format.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"

namespace atl {
namespace {

constexpr uint32_t kReserved = 3 + 256;        // <unk>, <s>, </s> and the bytes
constexpr double kCharacterCoverage = 0.9995;  // rarer characters are left to the bytes
constexpr size_t kPieceCharacters = 16;
constexpr size_t kWordBytes = 256;                  // longer stretches without a space are cut
constexpr size_t kDistinctWords = size_t{1} << 21;  // further ones are not learnt from

using WordCounts = std::unordered_map<std::string, uint64_t>;
using Pair = std::pair<uint32_t, uint32_t>;

enum class CharacterClass { kSpace, kBreak, kDigit, kLetter, kOther };

CharacterClass ClassOf(char c) {
  if (c == ' ') return CharacterClass::kSpace;
  if (static_cast<uint8_t>(c) < 0x20) return CharacterClass::kBreak;
  if (c >= '0' && c <= '9') return CharacterClass::kDigit;
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
  return letter ? CharacterClass::kLetter : CharacterClass::kOther;
}

// Words are what merges never cross: one space and the letters or signs after it, runs of further spaces, runs of
// control characters, single digits. Spaces are escaped as in the model.
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
  const WordCounts& counts() const { return counts_; }

 private:
  static bool Boundary(const std::string& text, size_t begin, size_t at) {
    const CharacterClass before = ClassOf(text[at - 1]), here = ClassOf(text[at]);
    if (before == CharacterClass::kSpace) {
      // The last of several spaces belongs to the word that follows.
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

struct Word {
  std::vector<uint32_t> symbols;
  uint64_t count = 0;
};

// A pair as it was when it was pushed; stale when the count has changed since.
struct Candidate {
  uint64_t count = 0;
  Pair pair;
  bool operator<(const Candidate& other) const {  // top: most frequent, then the earliest symbols
    return count < other.count || (count == other.count && pair > other.pair);
  }
};

class BpeTrainer {
 public:
  // Symbols begin as `characters`; words are split into them, other characters end a stretch.
  BpeTrainer(const WordCounts& counts, const std::vector<std::string>& characters) {
    for (const std::string& character : characters) SymbolOf(character);
    const std::map<std::string, uint64_t> ordered(counts.begin(), counts.end());
    for (const auto& [word, count] : ordered) AddWord(word, count);
    for (size_t i = 0; i < words_.size(); ++i) CountPairs(i);
    for (const auto& [pair, place] : pairs_) queue_.push(Candidate{place.count, pair});
  }

  // At most `wanted` new pieces, in order of their making.
  std::vector<std::string> Run(size_t wanted) {
    std::vector<std::string> made;
    while (made.size() < wanted && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto place = pairs_.find(best.pair);
      if (place == pairs_.end() || place->second.count != best.count || best.count < 2) continue;
      const std::string text = texts_[best.pair.first] + texts_[best.pair.second];
      if (lengths_[best.pair.first] + lengths_[best.pair.second] > kPieceCharacters) {
        pairs_.erase(place);
        continue;
      }
      const bool is_new = ids_.find(text) == ids_.end();
      Join(best.pair, SymbolOf(text));
      if (is_new) made.push_back(text);
    }
    return made;
  }

 private:
  struct Place {
    uint64_t count = 0;
    std::vector<uint32_t> words;  // that hold or held the pair, possibly more than once
  };
  static constexpr uint32_t kGap = UINT32_MAX;  // a character outside the vocabulary

  uint32_t SymbolOf(const std::string& text) {
    const auto [found, is_new] = ids_.emplace(text, static_cast<uint32_t>(texts_.size()));
    if (is_new) {
      texts_.push_back(text);
      size_t characters = 0;
      for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) ++characters;
      lengths_.push_back(characters);
    }
    return found->second;
  }

  void AddWord(const std::string& text, uint64_t count) {
    Word word{{}, count};
    for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) {
      const auto found = ids_.find(text.substr(at, Utf8Length(text[at])));
      word.symbols.push_back(found == ids_.end() ? kGap : found->second);
    }
    if (word.symbols.size() > 1) words_.push_back(std::move(word));
  }

  void CountPairs(size_t index) {
    const Word& word = words_[index];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) Change(word, i, index, true);
  }

  // Adds or takes away the pair at symbols i, i + 1 of a word.
  void Change(const Word& word, size_t i, size_t index, bool add) {
    const Pair pair(word.symbols[i], word.symbols[i + 1]);
    if (pair.first == kGap || pair.second == kGap) return;
    if (!add) {
      const auto found = pairs_.find(pair);
      if (found == pairs_.end()) return;  // too long a piece: no longer counted
      found->second.count -= std::min(found->second.count, word.count);
      changed_.insert(pair);
      return;
    }
    Place& place = pairs_[pair];
    place.count += word.count;
    if (place.words.empty() || place.words.back() != index) place.words.push_back(static_cast<uint32_t>(index));
    changed_.insert(pair);
  }

  // Replaces the pair by one symbol wherever it stands.
  void Join(const Pair& pair, uint32_t symbol) {
    std::vector<uint32_t> where = std::move(pairs_[pair].words);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    changed_.clear();
    for (const uint32_t index : where) JoinIn(words_[index], index, pair, symbol);
    pairs_.erase(pair);
    for (const Pair& changed : changed_) {
      const auto found = pairs_.find(changed);
      if (found == pairs_.end()) continue;
      if (found->second.count == 0) {
        pairs_.erase(found);
      } else {
        queue_.push(Candidate{found->second.count, changed});
      }
    }
  }

  void JoinIn(Word& word, uint32_t index, const Pair& pair, uint32_t symbol) {
    std::vector<uint32_t> joined;
    for (size_t i = 0; i < word.symbols.size(); ++i) {
      const bool here =
          i + 1 < word.symbols.size() && word.symbols[i] == pair.first && word.symbols[i + 1] == pair.second;
      joined.push_back(here ? symbol : word.symbols[i]);
      if (here) ++i;
    }
    if (joined.size() == word.symbols.size()) return;
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) Change(word, i, index, false);
    word.symbols = std::move(joined);
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) Change(word, i, index, true);
  }

  std::vector<std::string> texts_;
  std::vector<size_t> lengths_;  // in characters
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<Word> words_;
  std::map<Pair, Place> pairs_;
  std::set<Pair> changed_;
  std::priority_queue<Candidate> queue_;
};

// The most frequent characters that make up kCharacterCoverage of the text, at most `limit`; most frequent first.
std::vector<std::string> CommonCharacters(const WordCounts& counts, size_t limit) {
  std::map<std::string, uint64_t> characters;
  uint64_t total = 0;
  for (const auto& [word, count] : counts) {
    for (size_t at = 0; at < word.size(); at += Utf8Length(word[at])) {
      characters[word.substr(at, Utf8Length(word[at]))] += count;
      total += count;
    }
  }
  std::vector<std::pair<std::string, uint64_t>> ordered(characters.begin(), characters.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> out;
  uint64_t covered = 0;
  for (const auto& [character, count] : ordered) {
    if (out.size() == limit || static_cast<double>(covered) >= kCharacterCoverage * static_cast<double>(total)) break;
    out.push_back(character);
    covered += count;
  }
  return out;
}

// Ids in the library's order: specials, bytes, merges by time of making, characters.
std::string MakeModel(const std::vector<std::string>& merges, const std::vector<std::string>& characters) {
  std::vector<Piece> pieces = {
      {"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl}};
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back(Piece{absl::StrFormat("<0x%02X>", byte), 0, PieceType::kByte});
  float score = 0;  // only the order counts; whole numbers up to 2^24 are exact
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
  if (counter.counts().empty()) return absl::FailedPreconditionError("there is no text to train a tokenizer on");
  const size_t slots = options.vocab_size - kReserved;
  const std::vector<std::string> characters = CommonCharacters(counter.counts(), slots / 2);
  const size_t wanted = slots - characters.size();
  const std::vector<std::string> merges = BpeTrainer(counter.counts(), characters).Run(wanted);
  if (merges.size() < wanted) {
    return absl::FailedPreconditionError(absl::StrCat("the text is too small for a vocabulary of ", options.vocab_size,
                                                      " pieces; it gives at most ",
                                                      kReserved + characters.size() + merges.size()));
  }
  return MakeModel(merges, characters);
}

}  // namespace atl
