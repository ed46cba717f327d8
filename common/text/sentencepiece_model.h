// SPDX-License-Identifier: Apache-2.0
// The file of a SentencePiece model: the part of its protobuf message ModelProto that encoding
// needs, parsed and written by hand (CMakeLists.txt explains why). Field numbers are
// SentencePiece's, part of its format.
#ifndef ATOLL_COMMON_TEXT_SENTENCEPIECE_MODEL_H_
#define ATOLL_COMMON_TEXT_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"

namespace atl {

constexpr size_t kSentencePieces = size_t{1} << 20;     // pieces of a vocabulary; more are refused
constexpr size_t kPieceBytes = 1024;                    // of one piece; longer is refused
inline constexpr char kSpaceSymbol[] = "\xe2\x96\x81";  // U+2581, stands for a space inside pieces

enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

enum class SentencePieceKind { kUnigram = 1, kBpe = 2 };

// Finds pieces by a view of the text, without a copy.
struct PieceHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using PieceIds = std::unordered_map<std::string, uint32_t, PieceHash, std::equal_to<>>;

struct SentencePieceModel {
  std::vector<Piece> pieces;  // by id
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
  // Ids of the special pieces, found by piece type and name as the library does; the trainer's ids are ignored.
  uint32_t unk_id = 0;
  std::optional<uint32_t> bos_id, eos_id;
  PieceIds normal;                 // normal, user-defined and unused pieces
  std::vector<uint32_t> byte_ids;  // 256 with byte fallback, otherwise empty
};

// InvalidArgument: not a SentencePiece model, a word or char model, one that normalises text (only
// identity is supported), or an inconsistent one (duplicate or empty pieces, no unknown piece, byte
// fallback without 256 bytes).
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(const std::string& bytes);

// Returns the file of a BPE model with byte fallback, identity normalisation and no dummy prefix,
// with these pieces.
std::string SerializeBpeModel(const std::vector<Piece>& pieces);

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_SENTENCEPIECE_MODEL_H_
