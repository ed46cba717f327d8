// SPDX-License-Identifier: Apache-2.0
// An update is written into uninitialised memory: all its bytes are written, for every codec and
// size.
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/round_pass.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

using Case = std::tuple<CodecKind, size_t>;
class UpdateBytes : public testing::TestWithParam<Case> {};

std::vector<std::byte> Merged(CodecKind codec, size_t elements, std::byte before) {
  std::vector<float> delta(elements), copy(elements), momentum(elements), residual(elements);
  for (size_t i = 0; i < elements; ++i) {
    delta[i] = 0.01f * NormalAt(1, i);
    copy[i] = NormalAt(2, i);
  }
  std::vector<std::byte> encoded(EncodedSize(CodecKind::kFp32, elements));
  Encode(CodecKind::kFp32, delta, encoded);
  const std::vector<RoundInput> inputs = {{WorkerId{"w"}, CodecKind::kFp32, encoded, 10, 10}};
  const std::vector<float> weights = {1};
  std::vector<float> compared(aggregate::ComparedElements(elements));
  std::vector<std::byte> update(EncodedSize(codec, elements), before);
  aggregate::MergeAll({.inputs = inputs,
                       .weights = weights,
                       .merge = {},
                       .members = {},
                       .outer = {.learning_rate = 0.7f, .momentum = 0.9f},
                       .download_codec = codec,
                       .public_copy = copy,
                       .momentum = momentum,
                       .residual = residual,
                       .compared_step = compared,
                       .update = update,
                       .threads = 2});
  return update;
}

TEST_P(UpdateBytes, AreAllWritten) {
  const auto [codec, elements] = GetParam();
  EXPECT_EQ(Merged(codec, elements, std::byte{0x00}), Merged(codec, elements, std::byte{0xa5}));
}

INSTANTIATE_TEST_SUITE_P(Codecs, UpdateBytes,
                         testing::Combine(testing::Values(CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16,
                                                          CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0),
                                          testing::Values(1, 31, 4096, 70011)));

}  // namespace
}  // namespace atl
