// SPDX-License-Identifier: Apache-2.0
#include "common/text/choice_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/text/sentencepiece_reference.h"
#include "tests/unit/common/text/test_texts.h"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One token per byte, and one for "ab"; drops spaces, as some SentencePiece models do at the ends.
class Pairs final : public Tokenizer {
 public:
  explicit Pairs(std::optional<uint32_t> eot) : eot_(eot) {}
  TokenizerKind kind() const override { return TokenizerKind::kSentencePiece; }
  uint32_t vocab_size() const override { return 258; }
  std::optional<uint32_t> eot_id() const override { return eot_; }
  absl::Status Encode(const std::string& text, std::vector<uint32_t>& ids) const override {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ') continue;
      const bool pair = text.compare(i, 2, "ab") == 0;
      ids.push_back(pair ? 257 : static_cast<uint8_t>(text[i]));
      if (pair) ++i;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Decode(std::span<const uint32_t>) const override { return absl::UnimplementedError(""); }
  const std::string& file_bytes() const override { return file_; }

 private:
  const std::optional<uint32_t> eot_;
  const std::string file_;
};

constexpr uint32_t kEnd = 256;

TEST(ChoiceTokens, AreTheTokensAfterTheContext) {
  const Pairs tokenizer(kEnd);
  auto tokens = TokensOfChoice(tokenizer, "xy", " zz");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->ids, ElementsAre('x', 'y', 'z', 'z'));
  EXPECT_EQ(tokens->from, 2u);
  EXPECT_EQ(tokens->scored(), 2u);
  tokens = TokensOfChoice(tokenizer, "", "z");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->ids, ElementsAre(kEnd, 'z'));
  EXPECT_EQ(tokens->from, 1u);
  EXPECT_FALSE(TokensOfChoice(Pairs(std::nullopt), "", "z").ok());
}

TEST(ChoiceTokens, ChoiceMergedWithItsContextHasTheLastToken) {
  const auto tokens = TokensOfChoice(Pairs(kEnd), "xa", "b");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->ids, ElementsAre('x', 257));
  EXPECT_EQ(tokens->from, 1u);
}

TEST(ChoiceTokens, AChoiceWithNoneOfItsOwnIsRefused) {
  const std::pair<const char*, const char*> without[] = {{"", "  "}, {"x", "  "}, {"xy", " "}, {"a", "b"}};
  for (const auto& [context, choice] : without) {
    const auto tokens = TokensOfChoice(Pairs(kEnd), context, choice);
    ASSERT_TRUE(absl::IsInvalidArgument(tokens.status())) << "'" << context << "', '" << choice << "'";
    EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("no separate token"));
  }
}

TEST(ChoiceTokens, AModelThatDropsSpacesLeavesNothingOfThem) {
  const std::string text = MadeUpText(1, 20000);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at += 100) lines.push_back(text.substr(at, 100));
  const std::string model =
      SentencePieceReference::Train(lines, "--model_type=bpe --vocab_size=300 --normalization_rule_name=identity");
  const auto tokenizer = LoadSentencePiece(model);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const char* context : {"", "ba"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(TokensOfChoice(**tokenizer, context, "   ").status())) << context;
  }
}

}  // namespace
}  // namespace atl
