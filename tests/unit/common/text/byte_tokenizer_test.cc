// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/text/tokenizer.h"

namespace atl {
namespace {

TEST(ByteTokenizer, EveryByteIsItsOwnId) {
  const auto tokenizer = MakeByteTokenizer();
  std::string all(256, '\0');
  for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = static_cast<char>(i);
  std::vector<uint32_t> ids = {7};
  ASSERT_TRUE(tokenizer->Encode(all, ids).ok());
  ASSERT_EQ(ids.size(), 257u);
  EXPECT_EQ(ids[0], 7u);  // appended
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(ids[i + 1], i);
  EXPECT_EQ(*tokenizer->Decode(std::span(ids).subspan(1)), all);
}

TEST(ByteTokenizer, SpecialsAndLimits) {
  const auto tokenizer = MakeByteTokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 257u);
  EXPECT_EQ(tokenizer->eot_id(), std::optional<uint32_t>(256));
  EXPECT_EQ(*tokenizer->Decode(std::vector<uint32_t>{'a', 256, 'b'}), "ab");
  EXPECT_EQ(tokenizer->Decode(std::vector<uint32_t>{257}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*LoadTokenizer("bytes", ""))->kind(), TokenizerKind::kBytes);
  EXPECT_FALSE(LoadTokenizer("words", "").ok());
}

}  // namespace
}  // namespace atl
