// SPDX-License-Identifier: Apache-2.0
// A second implementation of the codecs, element by element, from docs/formats/codecs.md alone. Uses neither
// the kernels nor the scalar reference of common/codec. Pure; deliberately simple and slow.
#ifndef ATOLL_COORDINATOR_AUDIT_CODECS_H_
#define ATOLL_COORDINATOR_AUDIT_CODECS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "atoll/v1/job.pb.h"
#include "common/base/hash.h"

namespace atl::audit {

// The unit of encoding and decoding: whole blocks of every codec.
constexpr uint64_t kPieceElements = 4096;

// Encoded size of `elements` elements; nothing for a codec unknown to this revision, or sizes
// beyond 2^43 bytes.
std::optional<uint64_t> EncodedBytes(v1::CodecKind codec, uint64_t elements);

// Decodes the elements [first, first + out.size()) of an encoding of `elements` elements; `first` is a multiple
// of kPieceElements. Requires `encoded` to have EncodedBytes, and the range to be inside.
void DecodePiece(v1::CodecKind codec, Bytes encoded, uint64_t first, std::span<float> out);
// Writes the encoding of `in`, which begins at element `first`, into the complete encoding `encoded`.
void EncodePiece(v1::CodecKind codec, std::span<const float> in, uint64_t first, std::span<std::byte> encoded);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_CODECS_H_
