// SPDX-License-Identifier: Apache-2.0
// How a span of fp32 travels: Encode, Decode and sizes known before encoding. No state, no allocation; one file per
// family of codecs (float_codecs.cc and block_codecs.cc, with their SIMD forms word_kernels.cc and block_kernels.cc).
// The byte layouts are in docs/formats/codecs.md.
//
// What holds for every codec:
//  - Decoding an element is one correctly rounded fp32 multiply of its code and its block's scale (scale 1 for the
//  plain
//    formats), so scalar, SIMD and CUDA forms give the same bits.
//  - Encoding rounds to nearest, ties to even. A finite value beyond the format's range becomes the largest finite
//  value of
//    its sign (error memory keeps the rest). NaN decodes to NaN. Infinity stays infinity in fp32, fp16 and bf16; in the
//    block formats one non-finite element makes its whole block NaN. So a decoded check finds what was not finite.
//  - Encoding is a function of the values of a block alone: encoding in pieces that begin at multiples of kCodecPiece
//    gives the same bytes as encoding at once.
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

// Elements. Multiples of every codec's own block (128, 32). Ranges that are decoded are addressed in blocks, what is
// encoded in pieces.
constexpr size_t kCodecBlock = 4096;
constexpr size_t kCodecPiece = 256;

// Exact bytes of `elements` encoded elements. 0 for 0. Valid for elements <= limits::kParameters.
uint64_t EncodedSize(CodecKind codec, uint64_t elements);

// Writes EncodedSize(codec, in.size()) bytes. Requires out.size() to be exactly that.
void Encode(CodecKind codec, std::span<const float> in, std::span<std::byte> out);

// Requires encoded.size() == EncodedSize(codec, out.size()). Every bit pattern decodes to something (perhaps NaN).
void Decode(CodecKind codec, Bytes encoded, std::span<float> out);

// Decodes elements [begin, begin + out.size()) of a longer encoding. Requires begin % kCodecBlock == 0, and out.size()
// a multiple of kCodecBlock unless the range reaches the end of the encoding.
void DecodeRange(CodecKind codec, Bytes encoded, uint64_t begin, std::span<float> out);

// The bytes of elements [begin, begin + elements) of an encoding (begin % kCodecPiece == 0); first byte and count.
struct ByteRange {
  uint64_t offset = 0, bytes = 0;
};
ByteRange EncodedRange(CodecKind codec, uint64_t begin, uint64_t elements);

// target[i] += D(q)[i]: the product of decoding is rounded before the addition. Sizes as in Decode.
// Stack: kCodecBlock floats.
void DecodeAdd(CodecKind codec, Bytes encoded, std::span<float> target);

// InvalidArgument, with both sizes, unless `encoded_bytes` is what `elements` elements take.
absl::Status CheckEncodedSize(CodecKind codec, uint64_t elements, uint64_t encoded_bytes);

// "fp32", "fp16", "bf16", "int8", "mxfp4", "e3m0": as in the job file.
const char* CodecName(CodecKind codec);

}  // namespace atl

#endif  // ATOLL_COMMON_CODEC_CODEC_H_
