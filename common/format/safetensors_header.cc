// SPDX-License-Identifier: Apache-2.0
// Parsing and writing of the header: JSON text <-> tensors, with all bounds checked. No file
// access.
#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/format/json_object.h"
#include "common/format/safetensors.h"

namespace atl {
namespace {

constexpr size_t kDepth = 4;
constexpr size_t kDtypeBytes = 32;  // length of an unsupported dtype's name
constexpr char kMetadataKey[] = "__metadata__";

absl::Status Bad(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status ReadMetadata(const json::Value& value, std::map<std::string, std::string>& metadata) {
  if (!value.is_object()) return Bad("__metadata__ must be an object of strings");
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) return Bad(absl::StrCat("__metadata__.", item.key(), " must be a string"));
    metadata[item.key()] = item.value().get<std::string>();
  }
  return absl::OkStatus();
}

// Sets the tensor's type; for an unsupported dtype, sets other_dtype to its name.
void SetType(const std::string& dtype, SafetensorsTensor& tensor) {
  for (const NumberType type : {NumberType::kF32, NumberType::kF16, NumberType::kBF16}) {
    tensor.type = type;
    if (dtype == NumberTypeName(type)) return;
  }
  tensor.other_dtype = dtype.substr(0, kDtypeBytes);
}

// Sets elements and size_bytes from shape and type; false on overflow.
bool SetSizes(SafetensorsTensor& tensor) {
  uint64_t elements = 1;
  for (const uint64_t n : tensor.shape) {
    if (__builtin_mul_overflow(elements, n, &elements)) return false;
  }
  tensor.elements = elements;
  return !__builtin_mul_overflow(elements, uint64_t{NumberBytes(tensor.type)}, &tensor.size_bytes);
}

absl::Status ReadShape(const json::Value& shape, SafetensorsTensor& tensor) {
  if (shape.size() > kSafetensorsRank) {
    return Bad(absl::StrCat("tensor \"", tensor.name, "\" has ", shape.size(), " dimensions; at most ",
                            kSafetensorsRank, " are read"));
  }
  for (const auto& n : shape) {
    if (!n.is_number_unsigned())
      return Bad(absl::StrCat("the shape of tensor \"", tensor.name, "\" must be whole numbers"));
    tensor.shape.push_back(n.get<uint64_t>());
  }
  if (!SetSizes(tensor)) return Bad(absl::StrCat("the shape of tensor \"", tensor.name, "\" overflows 64 bits"));
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsTensor> ReadOne(const std::string& name, const json::Value& value) {
  absl::Status status;
  json::Reader reader(value, name, status);
  reader.Only({"dtype", "shape", "data_offsets"});
  const std::string dtype = reader.String("dtype");
  const json::Value& shape = reader.Array("shape", SIZE_MAX);
  const json::Value& offsets = reader.Array("data_offsets", 2);
  ATOLL_RETURN_IF_ERROR(status);
  SafetensorsTensor tensor;
  tensor.name = name;
  if (dtype.empty()) return Bad(absl::StrCat("the dtype of tensor \"", name, "\" is empty"));
  SetType(dtype, tensor);
  ATOLL_RETURN_IF_ERROR(ReadShape(shape, tensor));
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Bad(absl::StrCat("data_offsets of tensor \"", name, "\" must be two whole numbers"));
  }
  tensor.offset_bytes = offsets[0].get<uint64_t>();
  const uint64_t end = offsets[1].get<uint64_t>();
  if (!tensor.other_dtype.empty() && end >= tensor.offset_bytes) tensor.size_bytes = end - tensor.offset_bytes;
  if (end < tensor.offset_bytes || end - tensor.offset_bytes != tensor.size_bytes) {
    return Bad(absl::StrCat("tensor \"", name, "\" needs ", tensor.size_bytes, " bytes but data_offsets are [",
                            tensor.offset_bytes, ", ", end, "]"));
  }
  return tensor;
}

// Tensors must be contiguous from 0 without gap or overlap, with nothing after the last one.
absl::Status CheckCover(const std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes) {
  uint64_t at = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset_bytes != at) {
      return Bad(absl::StrCat("tensor \"", tensor.name, "\" begins at byte ", tensor.offset_bytes, " where ", at,
                              " was expected: tensors must follow each other without gap or overlap"));
    }
    at += tensor.size_bytes;  // cannot overflow: data_offsets[1] had this value
  }
  if (at == data_bytes) return absl::OkStatus();
  return Bad(absl::StrCat("the tensors cover ", at, " bytes but the file holds ", data_bytes, " after its header",
                          at > data_bytes ? "; the copy is incomplete: copy it again" : ""));
}

std::string Dump(const json::Ordered& value) {
  return value.dump(-1, ' ', false, json::Ordered::error_handler_t::replace);
}
std::string Quoted(const std::string& text) { return Dump(json::Ordered(text)); }

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& text, uint64_t data_bytes) {
  if (text.empty() || text[0] != '{') return Bad("the header does not begin with '{'");
  if (text.size() > kSafetensorsHeaderBytes) {
    return Bad(absl::StrCat("the header has ", text.size(), " bytes; at most ", kSafetensorsHeaderBytes, " are read"));
  }
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(text, kDepth));
  const size_t count = root.size() - root.count(kMetadataKey);
  if (count > kSafetensorsTensors) {
    return Bad(absl::StrCat("the header names ", count, " tensors; at most ", kSafetensorsTensors, " are read"));
  }
  SafetensorsHeader header;
  for (const auto& item : root.items()) {
    if (item.key() == kMetadataKey) {
      ATOLL_RETURN_IF_ERROR(ReadMetadata(item.value(), header.metadata));
      continue;
    }
    ATOLL_ASSIGN_OR_RETURN(auto tensor, ReadOne(item.key(), item.value()));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset_bytes, a.size_bytes, a.name) < std::tie(b.offset_bytes, b.size_bytes, b.name);
  });
  ATOLL_RETURN_IF_ERROR(CheckCover(header.tensors, data_bytes));
  header.data_bytes = data_bytes;
  header.data_offset_bytes = 8 + text.size();
  return header;
}

std::string SerializeSafetensorsHeader(std::vector<SafetensorsTensor>& tensors,
                                       std::map<std::string, std::string> metadata) {
  metadata["format"] = "pt";
  std::string text = absl::StrCat("{", Quoted(kMetadataKey), ":", Dump(metadata));
  uint64_t at = 0;
  for (SafetensorsTensor& tensor : tensors) {
    ATOLL_CHECK(SetSizes(tensor), "declared shapes fit 64 bits");
    tensor.offset_bytes = at;
    at += tensor.size_bytes;
    const json::Ordered entry = {
        {"dtype", NumberTypeName(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset_bytes, at}}};
    absl::StrAppend(&text, ",", Quoted(tensor.name), ":", Dump(entry));
  }
  text += "}";
  const uint64_t unpadded = 8 + text.size();
  const uint64_t padded = (unpadded + kSafetensorsAlignment - 1) / kSafetensorsAlignment * kSafetensorsAlignment;
  text.append(padded - unpadded, ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  return out + text;
}

}  // namespace atl
