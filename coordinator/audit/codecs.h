// SPDX-License-Identifier: Apache-2.0
// The codecs once more, element by element, from docs/formats/codecs.md alone: neither the kernels nor the scalar
// reference of common/codec is behind this. Pure; slow on purpose.
#ifndef ATOLL_COORDINATOR_AUDIT_CODECS_H_
#define ATOLL_COORDINATOR_AUDIT_CODECS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "atoll/v1/job.pb.h"
#include "common/base/hash.h"

namespace atl::audit {

// Elements that are encoded and decoded alone: whole blocks of every codec.
constexpr uint64_t kPieceElements = 4096;

// Bytes of `elements` elements; nothing for a codec that this revision does not have, or sizes beyond 2^43 bytes.
std::optional<uint64_t> EncodedBytes(v1::CodecKind codec, uint64_t elements);

// Elements [first, first + out.size()) of an encoding of `elements` elements; `first` is a multiple of kPieceElements.
// Requires `encoded` to have EncodedBytes and the range to lie within.
void DecodePiece(v1::CodecKind codec, Bytes encoded, uint64_t first, std::span<float> out);
// Writes the encoding of `in`, which stands at `first`, into the whole `encoded`.
void EncodePiece(v1::CodecKind codec, std::span<const float> in, uint64_t first, std::span<std::byte> encoded);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_CODECS_H_
