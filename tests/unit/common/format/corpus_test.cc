// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/format/corpus_manifest.h"
#include "common/format/corpus_verify.h"
#include "common/format/corpus_writer.h"
#include "common/plan/data_order.h"
#include "common/plan/limits.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

// The page docs/formats/corpus.md prints these bytes.
constexpr char kGolden[] = R"({
  "format": "atoll-corpus",
  "format_revision": 1,
  "name": "tiny",
  "token_type": "uint16",
  "block_bytes": 1048576,
  "tokenizer": {
    "kind": "bytes",
    "vocab_size": 257,
    "eot_id": 256
  },
  "eot_appended": true,
  "held_out_fraction": 0.5,
  "split_seed": 1,
  "train": {
    "documents": 1,
    "tokens": 4,
    "text_bytes": 3
  },
  "held_out": {
    "documents": 1,
    "tokens": 3,
    "text_bytes": 2
  },
  "bigram": {
    "perplexity": 22.760281594280656,
    "bits_per_byte": 6.762669752885601,
    "train_tokens": 4,
    "scored_tokens": 2
  },
  "files": [
    {
      "name": "train-00000.bin",
      "split": "train",
      "bytes": 1032,
      "sha256": "480bdc5e1afb65b5963dcf2882f351ca4fc6974dce920309da80d406515ddae4",
      "tokens": 4,
      "documents": 1,
      "blocks": [
        "fc8ee0c357b31c463174b47f5362f7474dac3514bb72c9be77f42c6216ff70c5"
      ]
    },
    {
      "name": "held_out-00000.bin",
      "split": "held_out",
      "bytes": 1030,
      "sha256": "ee1926a1c90fb4d2a20d9dcfe97cc0e939ea31c56d2736dcfddb1f43171b79a6",
      "tokens": 3,
      "documents": 1,
      "blocks": [
        "28bfc1eab2d6bc763812ff79ad260cfefc9a2c5147c324ef030c965f19c547b1"
      ]
    }
  ]
}
)";

CorpusWriterOptions Options() {
  CorpusWriterOptions options;
  options.name = "tiny";
  options.tokenizer.kind = "bytes";
  options.tokenizer.vocab_size = 257;
  options.tokenizer.eot_id = 256;
  options.held_out_fraction = 0.5;
  options.split_seed = 1;
  return options;
}

std::vector<uint32_t> Ids(const std::string& text) { return std::vector<uint32_t>(text.begin(), text.end()); }

class Corpus : public ::testing::Test {
 protected:
  absl::StatusOr<CorpusManifest> Make(const CorpusWriterOptions& options) {
    ATOLL_ASSIGN_OR_RETURN(const auto writer, CorpusWriter::Create(*files_, dir_ / "c", options));
    ATOLL_RETURN_IF_ERROR(writer->Add(CorpusSplit::kTrain, Ids("abc"), 3));
    ATOLL_RETURN_IF_ERROR(writer->Add(CorpusSplit::kHeldOut, Ids("ab"), 2));
    return writer->Finish();
  }
  TempDir dir_;
  std::unique_ptr<Files> files_ = MakePosixFiles();
};

TEST_F(Corpus, GoldenManifest) {
  ASSERT_TRUE(Make(Options()).ok());
  EXPECT_EQ(dir_.Read("c/manifest.json"), kGolden);
}

TEST_F(Corpus, ManifestSurvivesARoundTrip) {
  const auto made = Make(Options());
  ASSERT_TRUE(made.ok()) << made.status();
  const auto read = ReadManifest(*files_, dir_ / "c");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(SerializeManifest(*read), SerializeManifest(*made));
  EXPECT_EQ(read->train.text_bytes, 3u);
  EXPECT_EQ(read->FilesOf(CorpusSplit::kHeldOut).at(0)->name, "held_out-00000.bin");
  EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "c").ok());
}

TEST_F(Corpus, TokensAndEndOfTextLieInTheShard) {
  ASSERT_TRUE(Make(Options()).ok());
  const auto shard = TokenShard::Open(*files_, dir_ / "c/train-00000.bin");
  std::vector<uint32_t> ids(4);
  ASSERT_TRUE((*shard)->Read(0, ids).ok());
  EXPECT_EQ(ids, (std::vector<uint32_t>{'a', 'b', 'c', 256}));
}

TEST_F(Corpus, BadManifestsAreRefusedWithTheKey) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"atoll-corpus", "other", "format must be atoll-corpus"},
      {"\"format_revision\": 1", "\"format_revision\": 2", "format_revision is 2; this program reads revision 1"},
      {"\"name\": \"tiny\"", "\"name\": \"a/b\"", "name must be"},
      {"\"name\": \"tiny\"", "\"nome\": \"tiny\"", "nome is not a known key"},
      {"\"eot_appended\": true", "\"eot_appended\": 1", "eot_appended must be true or false"},
      {"uint16", "int8", "token_type must be"},
      {"1048576", "4096", "block_bytes must be 1048576"},
      {"\"kind\": \"bytes\"", "\"kind\": \"words\"", "tokenizer.kind is \"words\""},
      {"\"eot_id\": 256", "\"eot_id\": 257", "tokenizer.eot_id must be below vocab_size"},
      {"\"vocab_size\": 257", "\"vocab_size\": 70000", "uint16 does not hold"},
      {"\"held_out_fraction\": 0.5", "\"held_out_fraction\": 1.5", "held_out_fraction must be"},
      {"\"tokens\": 4,\n    \"text", "\"tokens\": 5,\n    \"text", "train has 5 tokens"},
      {"\"bytes\": 1032", "\"bytes\": 1034", "files[0].bytes is 1034"},
      {"train-00000.bin", "../train.bin", "must be a plain file name"},  // S21
      {"train-00000.bin", "%2e%2e%2ftrain.bin", "must be a plain file name"},
      {"train-00000.bin", "held_out-00000.bin", "names held_out-00000.bin twice"},
      {"\"split\": \"train\"", "\"split\": \"test\"", "split must be train or held_out"},
      {"\"blocks\": [", "\"blocks\": [ \"\",", "blocks has 2 hashes where 4 tokens need 1"},
      {"\"scored_tokens\": 2", "\"scored_tokens\": -2", "bigram.scored_tokens must be a whole number"},
      {"{\n  \"format\"", "{\n  \"name\": \"x\", \"format\"", "occurs twice"},
      {"]\n}\n", "]\n", "JSON is invalid"},
  };
  const std::string good = kGolden;
  ASSERT_TRUE(ParseManifest(good).ok()) << ParseManifest(good).status();
  for (const auto& c : cases) {
    std::string bad = good;
    const size_t at = bad.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    bad.replace(at, std::string(c.from).size(), c.to);
    const absl::Status status = ParseManifest(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.to;
  }
}

// S39: two bytes of text may become a hundred of memory.
TEST(CorpusManifest, BoundsTheMemoryOfItsText) {
  const auto refusal = [](const std::string& text) { return std::string(ParseManifest(text).status().message()); };
  const std::string tail = "0]}";
  for (const char* element : {"{},", "[],", "\"\",", "0,"}) {
    std::string many = "{\"files\":[";
    while (many.size() < 12 << 20) many += element;
    EXPECT_EQ(refusal(many + tail), "the JSON has more elements than 160 MiB of memory hold") << element;
  }
  std::string keys = "{";
  for (int i = 0; i < 1'000'000; ++i) keys += absl::StrCat("\"", i, "\":0,");
  EXPECT_EQ(refusal(keys + "\"\":0}"), "the JSON has more elements than 160 MiB of memory hold");
}

TEST(CorpusManifest, TheLongestIsRead) {
  CorpusManifest manifest;
  manifest.name = "a";
  manifest.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
  while (manifest.files.size() < 244) {  // of 4 GiB
    const uint64_t tokens = kShardTokens;
    manifest.files.push_back({.name = absl::StrCat("train-", manifest.files.size(), ".bin"),
                              .split = CorpusSplit::kTrain,
                              .bytes = kShardHeaderBytes + 2 * tokens,
                              .sha256 = {},
                              .tokens = tokens,
                              .documents = 1,
                              .blocks = std::vector<Sha256>((2 * tokens + kBlockBytes - 1) / kBlockBytes)});
    manifest.train.tokens += tokens;
    manifest.train.documents += 1;
  }
  manifest.train.text_bytes = manifest.train.tokens;
  std::string text = SerializeManifest(manifest);
  std::erase(text, '\n');
  std::erase(text, ' ');  // without them a byte of text takes the most memory
  EXPECT_GT(text.size(), limits::kManifestBytes / 100 * 99);
  const auto read = ParseManifest(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->files.size(), manifest.files.size());
  EXPECT_EQ(read->files.back().blocks.size(), 4096u);
}

TEST_F(Corpus, ShardsEndAtDocuments) {
  CorpusWriterOptions options = Options();
  options.held_out_fraction = 0;
  options.shard_tokens = 5;
  const auto writer = CorpusWriter::Create(*files_, dir_ / "s", options);
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*writer)->Add(CorpusSplit::kTrain, Ids("ab"), 2).ok());
  const auto manifest = (*writer)->Finish();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->files.size(), 3u);
  EXPECT_EQ(manifest->files[0].tokens, 6u);
  EXPECT_EQ(manifest->files[0].documents, 2u);
  EXPECT_EQ(manifest->files[2].tokens, 3u);
  EXPECT_FALSE(manifest->bigram.has_value());
  EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "s").ok());
}

TEST_F(Corpus, OtherContentIsNeverTouched) {
  std::filesystem::create_directory(dir_ / "c");
  dir_.Write("c/thesis.txt", "precious");
  CorpusWriterOptions options = Options();
  EXPECT_EQ(Make(options).status().code(), absl::StatusCode::kAlreadyExists);
  options.replace = true;
  EXPECT_EQ(Make(options).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(dir_.Read("c/thesis.txt"), "precious");
  EXPECT_EQ(files_->List(dir_ / "c")->size(), 1u);
}

TEST_F(Corpus, ReplaceSwapsAnEarlierCorpusOnlyWhenTheNewOneIsWhole) {
  CorpusWriterOptions options = Options();
  ASSERT_TRUE(Make(options).ok());
  EXPECT_EQ(Make(options).status().code(), absl::StatusCode::kAlreadyExists);
  dir_.Write("c/notes.txt", "mine");
  options.replace = true;
  options.name = "second";
  {
    const auto writer = CorpusWriter::Create(*files_, dir_ / "c", options);
    ASSERT_TRUE((*writer)->Add(CorpusSplit::kTrain, Ids("xyz"), 3).ok());
  }  // abandoned
  EXPECT_EQ(ReadManifest(*files_, dir_ / "c")->name, "tiny");
  EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "c").ok());
  EXPECT_EQ(files_->List(dir_ / "c")->size(), 4u);  // manifest, two shards, notes
  ASSERT_TRUE(Make(options).ok());
  EXPECT_EQ(ReadManifest(*files_, dir_ / "c")->name, "second");
  EXPECT_TRUE(VerifyCorpus(*files_, dir_ / "c").ok());
  EXPECT_EQ(dir_.Read("c/notes.txt"), "mine");
}

TEST_F(Corpus, LeftoversOfAKilledRunAreClearedAway) {
  std::filesystem::create_directory(dir_ / "c");
  dir_.Write("c/train-00000.bin.new.area", "half");
  dir_.Write("c/held_out-00000.bin.new", "half");
  EXPECT_TRUE(Make(Options()).ok());
  EXPECT_EQ(files_->List(dir_ / "c")->size(), 3u);
}

TEST_F(Corpus, EmptySplitsAreRefused) {
  const auto empty = CorpusWriter::Create(*files_, dir_ / "e", Options());
  EXPECT_THAT(std::string((*empty)->Finish().status().message()), HasSubstr("no text to train on"));
  const auto no_held_out = CorpusWriter::Create(*files_, dir_ / "f", Options());
  ASSERT_TRUE((*no_held_out)->Add(CorpusSplit::kTrain, Ids("a"), 1).ok());
  EXPECT_THAT(std::string((*no_held_out)->Finish().status().message()), HasSubstr("raise --held-out"));
}

TEST_F(Corpus, EndOfTextNeedsAToken) {
  CorpusWriterOptions options = Options();
  options.tokenizer.eot_id.reset();
  EXPECT_THAT(std::string(Make(options).status().message()), HasSubstr("--no-eot"));
  options.append_eot = false;
  EXPECT_TRUE(Make(options).ok());
}

TEST_F(Corpus, SplitDependsOnContentAndSeedAlone) {
  int held_out = 0, moved = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string document = absl::StrCat("document ", i);
    const CorpusSplit split = SplitOf(AsBytes(document), 0.1, 1);
    EXPECT_EQ(split, SplitOf(AsBytes(document), 0.1, 1));
    held_out += split == CorpusSplit::kHeldOut;
    moved += split != SplitOf(AsBytes(document), 0.1, 2);
    EXPECT_EQ(SplitOf(AsBytes(document), 0, 1), CorpusSplit::kTrain);
  }
  EXPECT_NEAR(held_out, 400, 60);
  EXPECT_GT(moved, 400);
}

class CorpusDamage : public Corpus {
 protected:
  // A corpus of three blocks; the byte at `offset` of its shard is changed.
  absl::Status DamagedAt(size_t offset) {
    CorpusWriterOptions options = Options();
    options.held_out_fraction = 0;
    options.replace = true;
    const auto writer = CorpusWriter::Create(*files_, dir_ / "d", options);
    ATOLL_RETURN_IF_ERROR(writer.status());
    ATOLL_RETURN_IF_ERROR((*writer)->Add(CorpusSplit::kTrain, std::vector<uint32_t>(1100000, 65), 1100000));
    ATOLL_RETURN_IF_ERROR((*writer)->Finish().status());
    std::string bytes = dir_.Read("d/train-00000.bin");
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    dir_.Write("d/train-00000.bin", bytes);
    return VerifyCorpus(*files_, dir_ / "d").status();
  }
};

TEST_F(CorpusDamage, TheFirstBadBlockIsNamed) {
  const absl::Status status = DamagedAt(1024 + kBlockBytes + 7);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("train-00000.bin is damaged: block 1 (bytes 1048576 to 2097152"));
}

TEST_F(CorpusDamage, HeaderWordsAreCoveredByTheFileHash) {
  EXPECT_THAT(std::string(DamagedAt(500).message()), HasSubstr("its header or the manifest was changed"));
}

// S15.
TEST_F(CorpusDamage, MissingShardAndForeignTokenizer) {
  ASSERT_TRUE(Make(Options()).ok());
  ASSERT_TRUE(files_->Remove(dir_ / "c/held_out-00000.bin").ok());
  EXPECT_EQ(VerifyCorpus(*files_, dir_ / "c").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadManifest(*files_, dir_ / "nowhere").status().message()), HasSubstr("atoll data prepare"));
}

TEST_F(CorpusDamage, IdsBeyondTheVocabularyAreNamed) {
  CorpusWriterOptions options = Options();
  options.held_out_fraction = 0;
  const auto writer = CorpusWriter::Create(*files_, dir_ / "v", options);
  ASSERT_TRUE((*writer)->Add(CorpusSplit::kTrain, std::vector<uint32_t>{1, 300}, 2).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const absl::Status status = VerifyCorpus(*files_, dir_ / "v").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 1 is 300, not below the vocabulary size 257"));
}

}  // namespace
}  // namespace atl
