// SPDX-License-Identifier: Apache-2.0
// A second implementation of what the coordinator computes and reads, from docs/formats alone: codecs, outer step and
// the scan of a round log segment. Uses no kernels, neither scalar nor SIMD, and no reader of the programs. Pure;
// deliberately simple and slow.
#ifndef ATOLL_TESTS_ORACLE_ORACLE_H_
#define ATOLL_TESTS_ORACLE_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "coordinator/aggregate/aggregator.h"

namespace atl::oracle {

// ---- docs/formats/codecs.md

// The unit of encoding and decoding: whole blocks of every codec.
constexpr uint64_t kPieceElements = 4096;

// Encoded size of `elements` elements.
uint64_t EncodedBytes(CodecKind codec, uint64_t elements);
// Decodes the elements [first, first + out.size()) of an encoding; `first` is a multiple of kPieceElements.
void DecodePiece(CodecKind codec, Bytes encoded, uint64_t first, std::span<float> out);
// Writes the encoding of `in`, which begins at element `first`, into the complete encoding `encoded`.
void EncodePiece(CodecKind codec, std::span<const float> in, uint64_t first, std::span<std::byte> encoded);

// ---- docs/formats/outer-step.md

// A fragment with its outer state at a version. The three arrays have the same length.
struct FragmentState {
  uint64_t version = 0;
  std::vector<float> public_copy, momentum, residual;
};

// The Euclidean norm of a contribution as decoded. `encoded` has the size of its codec.
double NormOf(CodecKind codec, Bytes encoded, uint64_t elements);
// Normalised weights, in the order of the inputs.
std::vector<double> WeightsOf(const OuterParameters& rule, const std::vector<RoundInput>& inputs);
// Advances the state by one version and returns the encoded update. Without inputs no step is taken. The inputs
// are in worker-name order and have the size of their codec; weights from WeightsOf.
std::vector<std::byte> TakeOuterStep(const OuterParameters& of_round, const std::vector<RoundInput>& inputs,
                                     const std::vector<double>& weights, FragmentState& state);

// ---- docs/formats/round-log.md

struct Scan {
  uint64_t valid_bytes = 0, records = 0;
  bool torn = false, damaged = false;
};
Scan ScanSegment(const std::string& file);

}  // namespace atl::oracle

#endif  // ATOLL_TESTS_ORACLE_ORACLE_H_
