// SPDX-License-Identifier: Apache-2.0
#include "common/codec/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/families.h"
#include "common/vecmath/vecmath.h"

namespace atl {
namespace {

static_assert(std::endian::native == std::endian::little, "codecs write little-endian words");
static_assert(kCodecBlock % kCodecPiece == 0 && kCodecPiece % codec::kInt8Block == 0 &&
              kCodecPiece % codec::kFp4Block == 0);

uint64_t BlockedSize(uint64_t elements, uint64_t block, uint64_t full_bytes, uint64_t tail_bytes) {
  return elements / block * full_bytes + (elements % block == 0 ? 0 : tail_bytes);
}

}  // namespace

uint64_t EncodedSize(CodecKind kind, uint64_t elements) {
  switch (kind) {
    case CodecKind::kFp32: return elements * 4;
    case CodecKind::kFp16:
    case CodecKind::kBf16: return elements * 2;
    case CodecKind::kInt8:
      return BlockedSize(elements, codec::kInt8Block, codec::Int8Bytes(codec::kInt8Block),
                         codec::Int8Bytes(elements % codec::kInt8Block));
    case CodecKind::kMxfp4:
    case CodecKind::kE3m0:
      return BlockedSize(elements, codec::kFp4Block, codec::Fp4Bytes(codec::kFp4Block),
                         codec::Fp4Bytes(elements % codec::kFp4Block));
  }
  ATOLL_CHECK(false, "a codec outside the enumeration");
}

void Encode(CodecKind kind, std::span<const float> in, std::span<std::byte> out) {
  ATOLL_CHECK(out.size() == EncodedSize(kind, in.size()), "the output of Encode has another size than EncodedSize");
  if (in.empty()) return;
  switch (kind) {
    case CodecKind::kFp32: std::memcpy(out.data(), in.data(), out.size()); return;
    case CodecKind::kFp16: return codec::EncodeHalf(in, out.data());
    case CodecKind::kBf16: return codec::EncodeBfloat16(in, out.data());
    case CodecKind::kInt8: return codec::EncodeInt8(in, out.data());
    case CodecKind::kMxfp4: return codec::EncodeMxfp4(in, out.data());
    case CodecKind::kE3m0: return codec::EncodeE3m0(in, out.data());
  }
}

void Decode(CodecKind kind, Bytes encoded, std::span<float> out) {
  ATOLL_CHECK(encoded.size() == EncodedSize(kind, out.size()), "the input of Decode has another size than EncodedSize");
  if (out.empty()) return;
  switch (kind) {
    case CodecKind::kFp32: std::memcpy(out.data(), encoded.data(), encoded.size()); return;
    case CodecKind::kFp16: return codec::DecodeHalf(encoded.data(), out);
    case CodecKind::kBf16: return codec::DecodeBfloat16(encoded.data(), out);
    case CodecKind::kInt8: return codec::DecodeInt8(encoded.data(), out);
    case CodecKind::kMxfp4: return codec::DecodeMxfp4(encoded.data(), out);
    case CodecKind::kE3m0: return codec::DecodeE3m0(encoded.data(), out);
  }
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

const char* CodecName(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32: return "fp32";
    case CodecKind::kFp16: return "fp16";
    case CodecKind::kBf16: return "bf16";
    case CodecKind::kInt8: return "int8";
    case CodecKind::kMxfp4: return "mxfp4";
    case CodecKind::kE3m0: return "e3m0";
  }
  ATOLL_CHECK(false, "a codec outside the enumeration");
}

}  // namespace atl
