// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding with a SentencePiece model (Kudo & Richardson 2018; BPE: Sennrich et al.
// 2016; unigram: Kudo 2018). Produces the library's ids, including its rules for ties and unknown
// pieces; tests compare both.
#include <algorithm>
#include <cfloat>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "common/base/utf8.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"

namespace atl {
namespace {

constexpr size_t kSpaceSymbolBytes = 3;
constexpr float kUnknownPenalty = 10.0f;        // the library's kUnkPenalty
constexpr size_t kTextBytes = size_t{1} << 30;  // limit of one Encode call: positions are int32

// A stretch of the normalised text in a doubly linked list; empty after a merge into its left
// neighbour.
struct Symbol {
  int previous = -1, next = -1;
  size_t begin = 0, size = 0;
  bool frozen = false;  // a user-defined piece: never merged
};

// A candidate merge. `size` shows whether it is still current when it is dequeued.
struct Merge {
  int left = 0, right = 0;
  float score = 0;
  size_t size = 0;
  bool operator<(const Merge& other) const {  // top of the queue: highest score, then leftmost
    return score < other.score || (score == other.score && left > other.left);
  }
};

// The best path to one end position of the unigram lattice: its last piece, score and where that piece begins.
struct PathEnd {
  uint32_t id = 0;
  float score = 0;
  int64_t begin = -1;  // -1: not reached yet
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(SentencePieceModel model, std::string bytes)
      : model_(std::move(model)), bytes_(std::move(bytes)) {
    min_score_ = FLT_MAX;
    max_score_ = -FLT_MAX;
    for (const Piece& piece : model_.pieces) {
      if (piece.type == PieceType::kNormal) {
        min_score_ = std::min(min_score_, piece.score);
        max_score_ = std::max(max_score_, piece.score);
      }
      if (piece.type == PieceType::kUserDefined) user_defined_.push_back(piece.text);
      longest_piece_ = std::max(longest_piece_, piece.text.size());
    }
    // Longest first, so that the first match is the longest.
    std::sort(user_defined_.begin(), user_defined_.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }

  TokenizerKind kind() const override { return TokenizerKind::kSentencePiece; }
  uint32_t vocab_size() const override { return static_cast<uint32_t>(model_.pieces.size()); }
  std::optional<uint32_t> eot_id() const override { return model_.eos_id; }
  const std::string& file_bytes() const override { return bytes_; }

  absl::Status Encode(const std::string& text, std::vector<uint32_t>& ids) const override {
    if (text.size() > kTextBytes)
      return absl::InvalidArgumentError("a text of more than 1 GiB cannot be tokenized at once");
    if (const size_t bad = FirstInvalidUtf8(text); bad != text.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", bad));
    }
    const std::string normalised = Normalise(text);
    if (normalised.empty()) return absl::OkStatus();
    if (model_.kind == SentencePieceKind::kBpe) {
      EncodeBpe(normalised, ids);
    } else {
      EncodeUnigram(normalised, ids);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Decode(std::span<const uint32_t> ids) const override {
    std::string text;
    bool at_start = true;
    for (const uint32_t id : ids) {
      if (id >= model_.pieces.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token id ", id, " is not below the vocabulary size ", model_.pieces.size()));
      }
      const Piece& piece = model_.pieces[id];
      if (piece.type == PieceType::kControl) continue;
      if (piece.type == PieceType::kByte) {
        text.push_back(static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16)));
      } else if (piece.type == PieceType::kUnknown) {
        text += " \xe2\x81\x87 ";  // U+2047, the library's text for an unknown piece
      } else {
        AppendPiece(piece.text, at_start, text);
      }
      // With trimming, a piece that consisted only of the stripped prefix keeps the position at the
      // start.
      at_start = at_start && model_.remove_extra_spaces && text.empty();
    }
    return text;
  }

 private:
  // Replaces spaces by U+2581, with the model's prefix and trimming. Changes nothing else.
  std::string Normalise(const std::string& text) const {
    size_t begin = 0, end = text.size();
    if (model_.remove_extra_spaces) {
      while (begin < end && text[begin] == ' ') ++begin;
      while (end > begin && text[end - 1] == ' ') --end;
    }
    std::string out;
    if (begin == end) return out;
    const std::string space = model_.escape_spaces ? kSpaceSymbol : " ";
    if (model_.add_dummy_prefix && !model_.space_as_suffix) out = space;
    for (size_t i = begin; i < end; ++i) {
      if (text[i] != ' ') {
        out.push_back(text[i]);
      } else if (!model_.remove_extra_spaces || text[i - 1] != ' ') {
        out += space;
      }
    }
    if (model_.add_dummy_prefix && model_.space_as_suffix) out += space;
    return out;
  }

  void AppendPiece(const std::string& piece, bool at_start, std::string& text) const {
    size_t at = 0;
    const bool strips = at_start && (model_.add_dummy_prefix || model_.remove_extra_spaces);
    if (strips && piece.rfind(kSpaceSymbol, 0) == 0) at = kSpaceSymbolBytes;
    while (at < piece.size()) {
      if (piece.compare(at, kSpaceSymbolBytes, kSpaceSymbol) == 0) {
        text.push_back(' ');
        at += kSpaceSymbolBytes;
      } else {
        text.push_back(piece[at++]);
      }
    }
  }

  // Length of the longest user-defined piece at `at`, or 0.
  size_t UserDefinedAt(const std::string& text, size_t at) const {
    for (const std::string& piece : user_defined_) {
      if (text.compare(at, piece.size(), piece) == 0) return piece.size();
    }
    return 0;
  }

  // Appends an id for text[begin, +size), or the unknown piece: as bytes, or as one id for a whole
  // run of unknown pieces.
  void Emit(const std::string& text, size_t begin, size_t size, bool& after_unknown, std::vector<uint32_t>& ids) const {
    const auto found = model_.normal.find(std::string_view(text).substr(begin, size));
    if (found != model_.normal.end()) {
      ids.push_back(found->second);
      after_unknown = false;
    } else if (model_.byte_fallback) {
      for (size_t i = begin; i < begin + size; ++i) ids.push_back(model_.byte_ids[static_cast<uint8_t>(text[i])]);
    } else {
      if (!after_unknown) ids.push_back(model_.unk_id);
      after_unknown = true;
    }
  }

  std::vector<Symbol> Split(const std::string& text) const {
    std::vector<Symbol> symbols;
    for (size_t at = 0; at < text.size();) {
      const size_t fixed = UserDefinedAt(text, at);
      const size_t size = fixed > 0 ? fixed : Utf8Length(text[at]);
      const int index = static_cast<int>(symbols.size());
      symbols.push_back(Symbol{index - 1, at + size < text.size() ? index + 1 : -1, at, size, fixed > 0});
      at += size;
    }
    return symbols;
  }

  // Records which symbols were joined to an unused piece, so that the piece can be split again.
  using Unmerge = std::unordered_map<std::string, size_t>;  // piece -> size of its left part

  void Consider(const std::string& text, const std::vector<Symbol>& symbols, int left, int right,
                std::priority_queue<Merge>& queue, Unmerge& unmerge) const {
    if (left < 0 || right < 0) return;
    const Symbol &a = symbols[static_cast<size_t>(left)], &b = symbols[static_cast<size_t>(right)];
    if (a.frozen || b.frozen || a.size + b.size > longest_piece_) return;
    const std::string_view piece = std::string_view(text).substr(a.begin, a.size + b.size);
    const auto found = model_.normal.find(piece);
    if (found == model_.normal.end()) return;
    const Piece& merged = model_.pieces[found->second];
    queue.push(Merge{left, right, merged.score, piece.size()});
    if (merged.type == PieceType::kUnused) unmerge[std::string(piece)] = a.size;
  }

  void EmitMerged(const std::string& text, size_t begin, size_t size, const Unmerge& unmerge, bool& after_unknown,
                  std::vector<uint32_t>& ids) const {
    if (!unmerge.empty()) {
      const auto parts = unmerge.find(text.substr(begin, size));
      if (parts != unmerge.end()) {
        EmitMerged(text, begin, parts->second, unmerge, after_unknown, ids);
        return EmitMerged(text, begin + parts->second, size - parts->second, unmerge, after_unknown, ids);
      }
    }
    Emit(text, begin, size, after_unknown, ids);
  }

  // Repeatedly joins the two neighbours with the highest-scoring piece.
  void EncodeBpe(const std::string& text, std::vector<uint32_t>& ids) const {
    std::vector<Symbol> symbols = Split(text);
    std::priority_queue<Merge> queue;
    Unmerge unmerge;
    for (int i = 1; i < static_cast<int>(symbols.size()); ++i) Consider(text, symbols, i - 1, i, queue, unmerge);
    while (!queue.empty()) {
      const Merge merge = queue.top();
      queue.pop();
      Symbol &left = symbols[static_cast<size_t>(merge.left)], &right = symbols[static_cast<size_t>(merge.right)];
      if (left.size == 0 || right.size == 0 || left.size + right.size != merge.size) continue;
      left.size = merge.size;
      left.next = right.next;
      if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = merge.left;
      right.size = 0;
      Consider(text, symbols, left.previous, merge.left, queue, unmerge);
      Consider(text, symbols, merge.left, left.next, queue, unmerge);
    }
    bool after_unknown = false;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const Symbol& symbol = symbols[static_cast<size_t>(i)];
      EmitMerged(text, symbol.begin, symbol.size, unmerge, after_unknown, ids);
    }
  }

  // Extends the best path that ends at `begin` by every piece that begins there.
  void Extend(const std::string& text, size_t begin, std::vector<PathEnd>& ends) const {
    const float score_here = ends[begin].score;
    const size_t character = Utf8Length(text[begin]);
    bool has_character = false;
    const size_t longest = std::min(longest_piece_, text.size() - begin);
    for (size_t size = character; size <= longest; size += Utf8Length(text[begin + size])) {
      if (const auto found = model_.normal.find(std::string_view(text).substr(begin, size));
          found != model_.normal.end()) {
        const Piece& piece = model_.pieces[found->second];
        if (piece.type != PieceType::kUnused) {
          const float score = piece.type == PieceType::kUserDefined
                                  ? static_cast<float>(static_cast<float>(size) * max_score_ - 0.1)
                                  : piece.score;
          Improve(ends[begin + size], found->second, score + score_here, begin);
          has_character |= size == character;
        }
      }
      if (begin + size == text.size()) break;
    }
    if (!has_character) {
      Improve(ends[begin + character], model_.unk_id, min_score_ - kUnknownPenalty + score_here, begin);
    }
  }

  static void Improve(PathEnd& end, uint32_t id, float score, size_t begin) {
    if (end.begin < 0 || score > end.score) end = PathEnd{id, score, static_cast<int64_t>(begin)};
  }

  // Finds the sequence of pieces with the highest sum of scores (Viterbi).
  void EncodeUnigram(const std::string& text, std::vector<uint32_t>& ids) const {
    std::vector<PathEnd> ends(text.size() + 1);
    for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) Extend(text, at, ends);
    std::vector<size_t> cuts = {text.size()};
    while (cuts.back() > 0) cuts.push_back(static_cast<size_t>(ends[cuts.back()].begin));
    bool after_unknown = false;
    for (size_t i = cuts.size() - 1; i > 0; --i) {
      Emit(text, cuts[i], cuts[i - 1] - cuts[i], after_unknown, ids);
    }
  }

  SentencePieceModel model_;
  std::string bytes_;
  std::vector<std::string> user_defined_;
  size_t longest_piece_ = 0;
  float min_score_ = 0, max_score_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePiece(std::string model_bytes) {
  ATOLL_ASSIGN_OR_RETURN(auto model, ParseSentencePieceModel(model_bytes));
  return std::make_unique<SentencePieceTokenizer>(std::move(model), std::move(model_bytes));
}

}  // namespace atl
