// SPDX-License-Identifier: Apache-2.0
#include "common/codec/codec.h"

#include <algorithm>
#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/families.h"
#include "common/vecmath/vecmath.h"

namespace atl {
namespace {

static_assert(std::endian::native == std::endian::little, "codecs write little-endian words");
static_assert(kCodecBlock % kCodecPiece == 0 && kCodecPiece % codec::kLargestBlock == 0);

}  // namespace

uint64_t EncodedSize(CodecKind kind, uint64_t elements) {
  const codec::CodecForm& form = codec::FormOf(kind);
  const uint64_t tail = elements % form.block;
  return elements / form.block * form.BytesOf(form.block) + (tail == 0 ? 0 : form.BytesOf(tail));
}

void Encode(CodecKind kind, std::span<const float> in, std::span<std::byte> out) {
  ATOLL_CHECK(out.size() == EncodedSize(kind, in.size()), "the output of Encode has another size than EncodedSize");
  if (!in.empty()) codec::FormOf(kind).encode(in, out.data());
}

void Decode(CodecKind kind, Bytes encoded, std::span<float> out) {
  ATOLL_CHECK(encoded.size() == EncodedSize(kind, out.size()), "the input of Decode has another size than EncodedSize");
  if (!out.empty()) codec::FormOf(kind).decode(encoded.data(), out);
}

ByteRange EncodedRange(CodecKind kind, uint64_t begin, uint64_t elements) {
  ATOLL_CHECK(begin % kCodecPiece == 0, "a range of an encoding begins inside a piece");
  return {EncodedSize(kind, begin), EncodedSize(kind, elements)};
}

void DecodeRange(CodecKind kind, Bytes encoded, uint64_t begin, std::span<float> out) {
  ATOLL_CHECK(begin % kCodecBlock == 0, "a range of an encoding begins inside a block");
  const ByteRange range = EncodedRange(kind, begin, out.size());
  ATOLL_CHECK(range.offset <= encoded.size() && range.bytes <= encoded.size() - range.offset,
              "a range ends beyond the encoding");
  ATOLL_CHECK(out.size() % kCodecBlock == 0 || range.offset + range.bytes == encoded.size(),
              "a range of an encoding ends inside a block");
  Decode(kind, encoded.subspan(range.offset, range.bytes), out);
}

void DecodeAdd(CodecKind kind, Bytes encoded, std::span<float> target) {
  ATOLL_CHECK(encoded.size() == EncodedSize(kind, target.size()), "the input of DecodeAdd has another size");
  std::array<float, kCodecBlock> decoded;
  for (size_t at = 0; at < target.size(); at += kCodecBlock) {
    const std::span<float> part = target.subspan(at, std::min(kCodecBlock, target.size() - at));
    const std::span<float> values = std::span(decoded).first(part.size());
    DecodeRange(kind, encoded, at, values);
    vecmath::Add(values, part);
  }
}

absl::Status CheckEncodedSize(CodecKind kind, uint64_t elements, uint64_t encoded_bytes) {
  const uint64_t wanted = EncodedSize(kind, elements);
  if (encoded_bytes == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(encoded_bytes, " encoded bytes given, but ", elements, " elements of ",
                                                 CodecName(kind), " take ", wanted,
                                                 "; encode the whole fragment with the job's codec"));
}

const char* CodecName(CodecKind kind) { return codec::FormOf(kind).name; }

}  // namespace atl
