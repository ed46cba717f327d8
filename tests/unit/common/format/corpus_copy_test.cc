// SPDX-License-Identifier: Apache-2.0
// Checks whether a copy of a corpus is complete, by names and lengths.
#include "common/format/corpus_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

class CorpusCopyTest : public testing::Test {
 protected:
  CorpusCopyTest() {
    manifest_.name = "tiny";
    manifest_.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
    for (const char* name : {"train-00000.bin", "train-00001.bin"}) {
      manifest_.files.push_back({.name = name,
                                 .split = CorpusSplit::kTrain,
                                 .bytes = kShardHeaderBytes + 8,
                                 .sha256 = {},
                                 .tokens = 4,
                                 .documents = 1,
                                 .blocks = std::vector<Sha256>(1)});
    }
    manifest_.train = {.documents = 2, .tokens = 8, .text_bytes = 6};
  }
  void Put(const std::string& path, uint64_t bytes) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / path).parent_path());
    std::ofstream(dir_ / path, std::ios::binary) << std::string(bytes, 'x');
  }
  void PutManifest(const std::string& directory) {
    std::filesystem::create_directories(dir_ / directory);
    std::ofstream(dir_ / (directory + "/manifest.json")) << SerializeManifest(manifest_);
  }
  CorpusCopy Look() {
    return LookBelowDataRoot(*files_, dir_ / ".", manifest_, Sha256Of(AsBytes(SerializeManifest(manifest_))));
  }

  const uint64_t bytes_ = kShardHeaderBytes + 8;
  const std::unique_ptr<Files> files_ = MakePosixFiles();
  CorpusManifest manifest_;
  TempDir dir_;
};

TEST_F(CorpusCopyTest, IsWholeWhereEveryShardHasItsLength) {
  EXPECT_EQ(Look().state, CorpusCopyState::kAbsent);
  Put("tiny/train-00000.bin", bytes_);
  EXPECT_EQ(Look().state, CorpusCopyState::kBroken);
  EXPECT_EQ(Look().problem, "shard train-00001.bin is missing");
  Put("tiny/train-00001.bin", bytes_ + 1);
  EXPECT_EQ(Look().problem, "shard train-00001.bin has 1033 bytes, but its manifest has 1032");
  Put("tiny/train-00000.bin", 0);
  EXPECT_EQ(Look().problem,
            "shard train-00000.bin has 0 bytes, but its manifest has 1032, and 1 more of 2 are incomplete");
  Put("tiny/train-00000.bin", bytes_);
  Put("tiny/train-00001.bin", bytes_);
  EXPECT_EQ(Look().state, CorpusCopyState::kWhole);
  EXPECT_EQ(Look().problem, "");
}

TEST_F(CorpusCopyTest, ShardsMayLieDirectlyInTheDataRoot) {
  Put("train-00000.bin", bytes_);
  Put("train-00001.bin", bytes_);
  EXPECT_EQ(Look().state, CorpusCopyState::kWhole);
  // Another corpus has files of the same names: without a manifest the files' corpus is unknown.
  Put("train-00001.bin", bytes_ + 2);
  EXPECT_EQ(Look().state, CorpusCopyState::kAbsent);
  PutManifest(".");
  EXPECT_EQ(Look().state, CorpusCopyState::kBroken);
}

TEST_F(CorpusCopyTest, AManifestWithoutShardsIsABrokenCopy) {
  PutManifest("tiny");
  EXPECT_EQ(Look().state, CorpusCopyState::kBroken);
  EXPECT_EQ(Look().problem, "shard train-00000.bin is missing, and 1 more of 2 are incomplete");
}

}  // namespace
}  // namespace atl
