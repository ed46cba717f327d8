// SPDX-License-Identifier: Apache-2.0
// Our reader, encoder and trainer of SentencePiece models against the library itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/hash.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"
#include "tests/unit/common/text/sentencepiece_reference.h"
#include "tests/unit/common/text/test_texts.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> SomeLines() {
  std::vector<std::string> lines;
  const std::string text = MadeUpText(1, 20000);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> Texts() {
  std::vector<std::string> texts = AwkwardTexts();
  texts.push_back(MadeUpText(2, 2000));
  return texts;
}

void ExpectSameIds(const std::string& model, const std::vector<std::string>& texts) {
  const auto ours = LoadSentencePiece(model);
  ASSERT_TRUE(ours.ok()) << ours.status();
  const auto reference = SentencePieceReference::Load(model);
  ASSERT_NE(reference, nullptr);
  for (const std::string& text : texts) {
    std::vector<uint32_t> ids;
    ASSERT_TRUE((*ours)->Encode(text, ids).ok());
    const std::vector<uint32_t> expected = reference->Encode(text);
    ASSERT_EQ(ids, expected) << text.substr(0, 200);
    const auto decoded = (*ours)->Decode(ids);
    ASSERT_TRUE(decoded.ok());
    ASSERT_EQ(*decoded, reference->Decode(ids)) << text.substr(0, 200);
  }
}

TEST(SentencePiece, BpeGivesTheLibrarysIds) {
  const std::string common = "--model_type=bpe --vocab_size=700 --normalization_rule_name=identity ";
  for (const char* extra : {"--byte_fallback=true --remove_extra_whitespaces=false", "--byte_fallback=false",
                            "--byte_fallback=true --add_dummy_prefix=false --remove_extra_whitespaces=false",
                            "--user_defined_symbols=ba,fo --byte_fallback=true", "--treat_whitespace_as_suffix=true"}) {
    SCOPED_TRACE(extra);
    const std::string model = SentencePieceReference::Train(SomeLines(), common + extra);
    ASSERT_FALSE(model.empty());
    ExpectSameIds(model, Texts());
  }
}

TEST(SentencePiece, UnigramGivesTheLibrarysIds) {
  const std::string common = "--model_type=unigram --vocab_size=600 --normalization_rule_name=identity ";
  for (const char* extra : {"--byte_fallback=true --remove_extra_whitespaces=false", "--byte_fallback=false",
                            "--user_defined_symbols=ba,fo"}) {
    SCOPED_TRACE(extra);
    const std::string model = SentencePieceReference::Train(SomeLines(), common + extra);
    ASSERT_FALSE(model.empty());
    ExpectSameIds(model, Texts());
  }
}

TEST(SentencePiece, Llama2) {
  const std::string model = TestData("tokenizer/llama2-32k.model");
  if (model.empty()) GTEST_SKIP() << "llama2-32k.model is not in $ATOLL_TEST_DATA/tokenizer";
  std::vector<std::string> texts = Texts();
  for (const char* name : {"corpus/tinyshakespeare.txt", "corpus/wikitext2-test.jsonl", "corpus/rfcs.jsonl"}) {
    const std::string text = TestData(name);
    for (size_t at = 0; at < std::min<size_t>(text.size(), 300000); at += 10000) {
      std::string part = text.substr(at, 10000);
      while (!part.empty() && (static_cast<uint8_t>(part.front()) & 0xc0) == 0x80) part.erase(0, 1);
      while (!part.empty() && static_cast<uint8_t>(part.back()) >= 0x80) part.pop_back();
      texts.push_back(part);
    }
  }
  ExpectSameIds(model, texts);
  const auto tokenizer = LoadSentencePiece(model);
  EXPECT_EQ((*tokenizer)->vocab_size(), 32000u);
  EXPECT_EQ((*tokenizer)->eot_id(), std::optional<uint32_t>(2));
  std::vector<uint32_t> ids;
  ASSERT_TRUE((*tokenizer)->Encode("Hello world", ids).ok());
  EXPECT_EQ(ids, (std::vector<uint32_t>{15043, 3186}));  // as published
}

class Trained : public ::testing::Test {
 protected:
  static absl::StatusOr<std::string> Train(const std::string& text, uint32_t vocab_size) {
    bool given = false;
    return TrainSentencePiece({.vocab_size = vocab_size}, [&](std::string& out) {
      if (given) return false;
      given = true;
      out = text;
      return true;
    });
  }
};

TEST_F(Trained, TheLibraryTakesItAndAgrees) {
  const auto model = Train(MadeUpText(3, 30000), 1000);
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectSameIds(*model, Texts());
  const auto tokenizer = LoadSentencePiece(*model);
  EXPECT_EQ((*tokenizer)->vocab_size(), 1000u);
  EXPECT_EQ((*tokenizer)->eot_id(), std::optional<uint32_t>(2));
}

TEST_F(Trained, EveryTextSurvives) {
  const auto model = Train(MadeUpText(3, 30000), 1000);
  const auto tokenizer = LoadSentencePiece(*model);
  for (const std::string& text : Texts()) {
    std::vector<uint32_t> ids;
    ASSERT_TRUE((*tokenizer)->Encode(text, ids).ok());
    // A real U+2581 is the only character that is decoded as a space, as in every SentencePiece
    // model.
    if (text.find(kSpaceSymbol) != std::string::npos) continue;
    EXPECT_EQ(*(*tokenizer)->Decode(ids), text);
  }
}

TEST_F(Trained, SameTextSameModel) {
  const std::string text = MadeUpText(4, 20000);
  EXPECT_EQ(*Train(text, 800), *Train(text, 800));
  EXPECT_NE(*Train(text, 800), *Train(MadeUpText(5, 20000), 800));
}

// Every user of a model trains it again from the same text, so all versions of this program must
// agree on it.
TEST_F(Trained, ModelStaysTheSameFromVersionToVersion) {
  EXPECT_EQ(Sha256Of(AsBytes(*Train(MadeUpText(6, 30000), 1000))).Hex(),
            "57f40456c6cc400565241011fa7b226d9f2b5aa009a65ebc2df0b86193d16160");
}

TEST_F(Trained, CompressesAsTheLibraryDoes) {
  const std::string text = MadeUpText(6, 30000);
  const auto ours = LoadSentencePiece(*Train(text, 1000));
  std::vector<uint32_t> ids;
  ASSERT_TRUE((*ours)->Encode(text, ids).ok());
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto theirs = SentencePieceReference::Load(SentencePieceReference::Train(
      lines,
      "--model_type=bpe --vocab_size=1000 --normalization_rule_name=identity --byte_fallback=true "
      "--split_digits=true --remove_extra_whitespaces=false"));
  ASSERT_NE(theirs, nullptr);
  EXPECT_LT(static_cast<double>(ids.size()), 1.05 * static_cast<double>(theirs->Encode(text).size()));
}

TEST_F(Trained, TooLittleTextIsRefusedWithTheLargestVocabulary) {
  EXPECT_THAT(std::string(Train("ababab ababab", 4000).status().message()), HasSubstr("it gives at most 2"));
  EXPECT_THAT(std::string(Train("", 4000).status().message()), HasSubstr("no text"));
  EXPECT_THAT(std::string(Train("abc", 299).status().message()), HasSubstr("300 to"));
  EXPECT_THAT(std::string(Train("ab\xff", 4000).status().message()), HasSubstr("UTF-8"));
}

TEST(SentencePieceModelFile, BadFilesAreRefused) {
  EXPECT_FALSE(LoadSentencePiece("").ok());
  EXPECT_FALSE(LoadSentencePiece("not a model").ok());
  const std::string nfkc =
      SentencePieceReference::Train(SomeLines(), "--model_type=bpe --vocab_size=400 --normalization_rule_name=nfkc");
  ASSERT_FALSE(nfkc.empty());
  EXPECT_THAT(std::string(LoadSentencePiece(nfkc).status().message()), HasSubstr("normalises text (nfkc)"));
  const std::string words = SentencePieceReference::Train(
      SomeLines(), "--model_type=word --vocab_size=100 --normalization_rule_name=identity");
  ASSERT_FALSE(words.empty());
  EXPECT_THAT(std::string(LoadSentencePiece(words).status().message()), HasSubstr("unigram and BPE are supported"));
  std::vector<Piece> pieces = {{"a", 0, PieceType::kNormal}};
  EXPECT_THAT(std::string(LoadSentencePiece(SerializeBpeModel(pieces)).status().message()),
              HasSubstr("no unknown piece"));
  pieces = {{"<unk>", 0, PieceType::kUnknown}};
  EXPECT_THAT(std::string(LoadSentencePiece(SerializeBpeModel(pieces)).status().message()), HasSubstr("<0x00>"));
  pieces = {{"<unk>", 0, PieceType::kUnknown}, {"a", 0, PieceType::kNormal}, {"a", 0, PieceType::kNormal}};
  EXPECT_THAT(std::string(LoadSentencePiece(SerializeBpeModel(pieces)).status().message()), HasSubstr("two pieces"));
}

// For any bytes the reader returns, and an accepted model encodes within its vocabulary.
TEST(SentencePieceModelFile, MutatedFilesNeverEscape) {
  const std::string good = SentencePieceReference::Train(
      SomeLines(), "--model_type=bpe --vocab_size=400 --normalization_rule_name=identity");
  Rng rng(9);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Below(256));
    if (rng.Below(4) == 0) bytes.resize(rng.Below(bytes.size()));
    const auto tokenizer = LoadSentencePiece(bytes);
    if (!tokenizer.ok()) continue;
    std::vector<uint32_t> ids;
    ASSERT_TRUE((*tokenizer)->Encode("bado fonu \xe4\xbd\xa0 12", ids).ok());
    for (const uint32_t id : ids) ASSERT_LT(id, (*tokenizer)->vocab_size());
    ASSERT_TRUE((*tokenizer)->Decode(ids).ok());
  }
}

TEST(SentencePieceModelFile, InvalidTextAndIdsAreRefused) {
  const auto tokenizer = LoadSentencePiece(SentencePieceReference::Train(
      SomeLines(), "--model_type=bpe --vocab_size=400 --normalization_rule_name=identity"));
  std::vector<uint32_t> ids;
  EXPECT_THAT(std::string((*tokenizer)->Encode("ab\xff", ids).message()), HasSubstr("at byte 2"));
  EXPECT_FALSE((*tokenizer)->Decode(std::vector<uint32_t>{400}).ok());
}

}  // namespace
}  // namespace atl
