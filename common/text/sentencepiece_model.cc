// SPDX-License-Identifier: Apache-2.0
#include "common/text/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "common/base/utf8.h"

namespace atl {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr uint32_t kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3;
constexpr uint32_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr uint32_t kTrainerModelType = 3, kTrainerVocabSize = 4, kTrainerSuffix = 24, kTrainerByteFallback = 35;
constexpr uint32_t kTrainerBosPiece = 46, kTrainerEosPiece = 47;
constexpr uint32_t kNormalizerName = 1, kNormalizerCharsmap = 2, kNormalizerDummyPrefix = 3, kNormalizerExtraSpaces = 4,
                   kNormalizerEscape = 5;

// A field of a protobuf message: a number (varint or fixed) or bytes.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;
  std::string bytes;
};

// Iterates over the fields of a message in place.
class FieldReader {
 public:
  explicit FieldReader(const std::string& data) : data_(data) {}
  bool AtEnd() const { return at_ == data_.size(); }
  // Returns false when the message is broken.
  bool Next(Field& field) {
    uint64_t tag = 0;
    if (!Varint(tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.value = 0;
    field.bytes.clear();
    switch (tag & 7) {
      case 0: return Varint(field.value);
      case 1: return Fixed(8, field.value);
      case 2: return Delimited(field.bytes);
      case 5: return Fixed(4, field.value);
      default: return false;
    }
  }

 private:
  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ < data_.size(); shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(data_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Fixed(size_t bytes, uint64_t& value) {
    if (data_.size() - at_ < bytes) return false;
    std::memcpy(&value, data_.data() + at_, bytes);
    at_ += bytes;
    return true;
  }
  bool Delimited(std::string& bytes) {
    uint64_t length = 0;
    if (!Varint(length) || length > data_.size() - at_) return false;
    bytes.assign(data_, at_, length);
    at_ += length;
    return true;
  }
  const std::string& data_;
  size_t at_ = 0;
};

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the SentencePiece model ", what));
}
absl::Status Broken() { return Bad("cannot be parsed; it is damaged or another kind of file"); }

struct Names {
  std::string bos = "<s>", eos = "</s>";
};

absl::Status ParsePiece(const std::string& bytes, SentencePieceModel& model) {
  Piece piece;
  FieldReader reader(bytes);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return Broken();
    if (field.number == kPieceText) piece.text = field.bytes;
    if (field.number == kPieceScore) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == kPieceType) {
      if (field.value < 1 || field.value > 6) return Bad(absl::StrCat("has a piece of unknown type ", field.value));
      piece.type = static_cast<PieceType>(field.value);
    }
  }
  if (piece.text.empty() || piece.text.size() > kPieceBytes || FirstInvalidUtf8(piece.text) != piece.text.size() ||
      !std::isfinite(piece.score)) {
    return Bad(
        absl::StrCat("has a piece ", model.pieces.size(), " that is empty, too long, not UTF-8 or without a score"));
  }
  if (model.pieces.size() == kSentencePieces) return Bad(absl::StrCat("has more than ", kSentencePieces, " pieces"));
  model.pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::Status ParseTrainer(const std::string& bytes, SentencePieceModel& model, Names& names) {
  FieldReader reader(bytes);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return Broken();
    if (field.number == kTrainerModelType) {
      if (field.value != 1 && field.value != 2) return Bad("has kind word or char; only unigram and BPE are supported");
      model.kind = static_cast<SentencePieceKind>(field.value);
    }
    if (field.number == kTrainerByteFallback) model.byte_fallback = field.value != 0;
    if (field.number == kTrainerSuffix) model.space_as_suffix = field.value != 0;
    if (field.number == kTrainerBosPiece) names.bos = field.bytes;
    if (field.number == kTrainerEosPiece) names.eos = field.bytes;
  }
  return absl::OkStatus();
}

absl::Status ParseNormalizer(const std::string& bytes, SentencePieceModel& model) {
  FieldReader reader(bytes);
  Field field;
  std::string name;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return Broken();
    if (field.number == kNormalizerName) name = field.bytes;
    if (field.number == kNormalizerCharsmap && !field.bytes.empty()) {
      return Bad(absl::StrCat("normalises text (", name.empty() ? "unnamed rule" : name.substr(0, 64),
                              "); only identity normalisation is supported"));
    }
    if (field.number == kNormalizerDummyPrefix) model.add_dummy_prefix = field.value != 0;
    if (field.number == kNormalizerExtraSpaces) model.remove_extra_spaces = field.value != 0;
    if (field.number == kNormalizerEscape) model.escape_spaces = field.value != 0;
  }
  return absl::OkStatus();
}

absl::Status IndexPieces(SentencePieceModel& model, const Names& names) {
  PieceIds reserved;
  bool has_unknown = false;
  for (uint32_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool normal =
        piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined || piece.type == PieceType::kUnused;
    if (!(normal ? model.normal : reserved).emplace(piece.text, id).second) {
      return Bad(absl::StrCat("has two pieces \"", piece.text, "\""));
    }
    if (piece.type == PieceType::kUnknown) {
      if (has_unknown) return Bad("has two unknown pieces");
      has_unknown = true;
      model.unk_id = id;
    }
    if (piece.type == PieceType::kControl && piece.text == names.bos) model.bos_id = id;
    if (piece.type == PieceType::kControl && piece.text == names.eos) model.eos_id = id;
  }
  if (!has_unknown) return Bad("has no unknown piece");
  for (int byte = 0; model.byte_fallback && byte < 256; ++byte) {
    const auto found = reserved.find(absl::StrFormat("<0x%02X>", byte));
    if (found == reserved.end() || model.pieces[found->second].type != PieceType::kByte) {
      return Bad(absl::StrFormat("falls back to bytes but has no piece <0x%02X>", byte));
    }
    model.byte_ids.push_back(found->second);
  }
  return absl::OkStatus();
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void PutNumber(uint32_t field, uint64_t value, std::string& out) {
  PutVarint(uint64_t{field} << 3, out);
  PutVarint(value, out);
}
void PutBytes(uint32_t field, const std::string& bytes, std::string& out) {
  PutVarint(uint64_t{field} << 3 | 2, out);
  PutVarint(bytes.size(), out);
  out += bytes;
}
void PutFloat(uint32_t field, float value, std::string& out) {
  PutVarint(uint64_t{field} << 3 | 5, out);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(const std::string& bytes) {
  SentencePieceModel model;
  Names names;
  FieldReader reader(bytes);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) return Broken();
    if (field.number == kModelPieces) ATOLL_RETURN_IF_ERROR(ParsePiece(field.bytes, model));
    if (field.number == kModelTrainer) ATOLL_RETURN_IF_ERROR(ParseTrainer(field.bytes, model, names));
    if (field.number == kModelNormalizer) ATOLL_RETURN_IF_ERROR(ParseNormalizer(field.bytes, model));
  }
  if (model.pieces.empty()) return Broken();
  ATOLL_RETURN_IF_ERROR(IndexPieces(model, names));
  return model;
}

std::string SerializeBpeModel(const std::vector<Piece>& pieces) {
  std::string out;
  for (const Piece& piece : pieces) {
    std::string message;
    PutBytes(kPieceText, piece.text, message);
    PutFloat(kPieceScore, piece.score, message);
    if (piece.type != PieceType::kNormal) PutNumber(kPieceType, static_cast<uint64_t>(piece.type), message);
    PutBytes(kModelPieces, message, out);
  }
  std::string trainer;
  PutNumber(kTrainerModelType, static_cast<uint64_t>(SentencePieceKind::kBpe), trainer);
  PutNumber(kTrainerVocabSize, pieces.size(), trainer);
  PutNumber(kTrainerByteFallback, 1, trainer);
  PutBytes(kModelTrainer, trainer, out);
  std::string normalizer;
  PutBytes(kNormalizerName, "identity", normalizer);
  PutNumber(kNormalizerDummyPrefix, 0, normalizer);
  PutNumber(kNormalizerExtraSpaces, 0, normalizer);
  PutNumber(kNormalizerEscape, 1, normalizer);
  PutBytes(kModelNormalizer, normalizer, out);
  return out;
}

}  // namespace atl
