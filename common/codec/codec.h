// SPDX-License-Identifier: Apache-2.0
// Encoding of fp32 spans for transfer: Encode, Decode, and sizes known before encoding. No state,
// no allocation. Each family of codecs has one file (float_codecs.cc, block_codecs.cc) and a SIMD
// form (word_kernels.cc, block_kernels.cc). docs/formats/codecs.md specifies the byte layouts.
//
// For every codec:
// - Decoding an element is one correctly rounded fp32 multiplication of its code and its block's
//   scale (scale 1 for the plain formats). Scalar, SIMD and CUDA forms therefore produce the same
//   bits.
// - Encoding rounds to nearest, ties to even. A finite value beyond the format's range becomes the
//   largest finite value of its sign (error memory holds the remainder). NaN decodes to NaN.
//   Infinity stays infinity in fp32, fp16 and bf16. In the block formats one non-finite element
//   turns its whole block into NaN. A check of the decoded values thus detects non-finite input.
// - Encoding depends only on the values of a block: encoding in pieces that begin at multiples of
//   kCodecPiece gives the same bytes as encoding at once.
//
// Thread rule: pure functions, safe everywhere.
#ifndef ATOLL_COMMON_CODEC_CODEC_H_
#define ATOLL_COMMON_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

// In elements; multiples of every codec's own block (128, 32). Decoding is addressed in blocks,
// encoding in pieces.
constexpr size_t kCodecBlock = 4096;
constexpr size_t kCodecPiece = 256;

// Exact encoded size of `elements` elements; 0 for 0. Valid for elements <= limits::kParameters.
uint64_t EncodedSize(CodecKind codec, uint64_t elements);

// Writes EncodedSize(codec, in.size()) bytes; `out` must have exactly that size.
void Encode(CodecKind codec, std::span<const float> in, std::span<std::byte> out);

// Requires encoded.size() == EncodedSize(codec, out.size()). Every bit pattern decodes to some
// value, possibly NaN.
void Decode(CodecKind codec, Bytes encoded, std::span<float> out);

// Decodes elements [begin, begin + out.size()) of a longer encoding. Requires begin % kCodecBlock == 0, and out.size()
// a multiple of kCodecBlock unless the range reaches the end of the encoding.
void DecodeRange(CodecKind codec, Bytes encoded, uint64_t begin, std::span<float> out);

// Byte range of elements [begin, begin + elements), which must be whole pieces unless they reach the encoding's end.
struct ByteRange {
  uint64_t offset = 0, bytes = 0;
};
ByteRange EncodedRange(CodecKind codec, uint64_t begin, uint64_t elements);

// Adds element i of the decoded encoding to target[i]. The decoded element is rounded to fp32 before the addition.
// Requires the same sizes as Decode. Uses kCodecBlock floats on the stack.
void DecodeAdd(CodecKind codec, Bytes encoded, std::span<float> target);

// InvalidArgument, with both sizes, unless `encoded_bytes` is the encoded size of `elements`
// elements.
absl::Status CheckEncodedSize(CodecKind codec, uint64_t elements, uint64_t encoded_bytes);

// Names as in the job file: "fp32", "fp16", "bf16", "int8", "mxfp4", "e3m0".
const char* CodecName(CodecKind codec);

}  // namespace atl

#endif  // ATOLL_COMMON_CODEC_CODEC_H_
