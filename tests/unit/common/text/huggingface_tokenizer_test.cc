// SPDX-License-Identifier: Apache-2.0
#include "common/text/huggingface_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/text/sentencepiece_model.h"
#include "tests/unit/common/text/test_texts.h"

namespace atl {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> TrainedTokenizer() {
  bool given = false;
  ATOLL_ASSIGN_OR_RETURN(std::string model, TrainSentencePiece({.vocab_size = 1000}, [&](std::string& out) {
                           out = MadeUpText(3, 30000);
                           return !std::exchange(given, true);
                         }));
  return LoadSentencePiece(std::move(model));
}

TEST(HuggingFaceTokenizer, BytesHave256EntriesAndNoMerges) {
  const auto files = HuggingFaceTokenizerFiles(*MakeByteTokenizer());
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->size(), 3u);
  const auto json = nlohmann::json::parse(files->at("tokenizer.json"));
  EXPECT_EQ(json["model"]["vocab"].size(), 256u);
  EXPECT_TRUE(json["model"]["merges"].empty());
  EXPECT_EQ(json["model"]["vocab"]["A"], 65);
  EXPECT_EQ(json["model"]["vocab"]["\xc4\xa0"], 32);  // GPT-2's sign for a space, U+0120
  EXPECT_EQ(json["model"]["vocab"]["\xc3\xbf"], 255);
  EXPECT_EQ(json["added_tokens"][0]["id"], 256);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|endoftext|>");
  const auto config = nlohmann::json::parse(files->at("tokenizer_config.json"));
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_EQ(nlohmann::json::parse(files->at("special_tokens_map.json"))["eos_token"], "<|endoftext|>");
}

// A type that is not a string once ended the program.
TEST(HuggingFaceTokenizer, TheByteTokenizerIsKnownByItsFile) {
  const std::string bytes = HuggingFaceTokenizerFiles(*MakeByteTokenizer())->at("tokenizer.json");
  EXPECT_TRUE(IsHuggingFaceByteTokenizer(bytes));
  auto other = nlohmann::json::parse(bytes);
  for (const nlohmann::json& type : {nlohmann::json(3), nlohmann::json(nullptr), nlohmann::json("Unigram")}) {
    other["model"]["type"] = type;
    EXPECT_FALSE(IsHuggingFaceByteTokenizer(other.dump())) << type;
  }
  for (const char* no : {"", "{", "[]", "{}", "{\"model\": []}", "{\"model\": {\"type\": [\"BPE\"]}}"})
    EXPECT_FALSE(IsHuggingFaceByteTokenizer(no)) << no;
}

TEST(HuggingFaceTokenizer, SentencePieceKeepsItsFileAndItsIds) {
  const auto tokenizer = TrainedTokenizer();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto files = HuggingFaceTokenizerFiles(**tokenizer);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->at("tokenizer.model"), (*tokenizer)->file_bytes());
  const auto json = nlohmann::json::parse(files->at("tokenizer.json"));
  EXPECT_EQ(json["model"]["vocab"].size(), 1000u);
  EXPECT_EQ(json["model"]["vocab"]["</s>"], 2);
  EXPECT_GT(json["model"]["merges"].size(), 600u);
  EXPECT_EQ(json["model"]["byte_fallback"], true);
}

// Writes directories and expected ids for tests/integration/oracle_tokenizer.py to
// $ATOLL_ORACLE_OUT if it is set.
TEST(HuggingFaceTokenizer, WritesOracleInputs) {
  const char* out = std::getenv("ATOLL_ORACLE_OUT");
  if (out == nullptr) GTEST_SKIP() << "$ATOLL_ORACLE_OUT is not set";
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers["bytes"] = MakeByteTokenizer();
  tokenizers["trained"] = *TrainedTokenizer();
  if (const std::string llama = TestData("tokenizer/llama2-32k.model"); !llama.empty()) {
    tokenizers["llama2"] = *LoadSentencePiece(llama);
  }
  std::vector<std::string> texts = AwkwardTexts();
  for (uint64_t seed = 0; seed < 20; ++seed) texts.push_back(MadeUpText(seed, 100));
  const std::string shakespeare = TestData("corpus/tinyshakespeare.txt");
  for (size_t at = 0; at + 1000 < shakespeare.size(); at += 50000) texts.push_back(shakespeare.substr(at, 1000));
  for (const auto& [name, tokenizer] : tokenizers) {
    const std::string directory = std::string(out) + "/" + name;
    std::filesystem::create_directories(directory);
    const auto files = HuggingFaceTokenizerFiles(*tokenizer);
    ASSERT_TRUE(files.ok()) << files.status();
    for (const auto& [file, content] : *files) std::ofstream(directory + "/" + file, std::ios::binary) << content;
    std::ofstream expected(directory + "/expected.jsonl");
    for (const std::string& text : texts) {
      std::vector<uint32_t> ids;
      ASSERT_TRUE(tokenizer->Encode(text, ids).ok());
      expected << nlohmann::json({{"text", text}, {"ids", ids}}).dump() << "\n";
    }
  }
}

}  // namespace
}  // namespace atl
