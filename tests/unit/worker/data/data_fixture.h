// SPDX-License-Identifier: Apache-2.0
// Two small corpora on disk, and readers for them.
#ifndef ATOLL_TESTS_UNIT_WORKER_DATA_DATA_FIXTURE_H_
#define ATOLL_TESTS_UNIT_WORKER_DATA_DATA_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/format/corpus_writer.h"
#include "worker/data/local_blocks.h"
#include "worker/data/sample_reader.h"

namespace atl {

inline constexpr uint32_t kLength = 64;
inline constexpr Duration kLong = Seconds(60);

// A corpus of random bytes as tokens: 1.3 million in one shard (three blocks), and held-out tokens.
class DataTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/atoll_data_" + std::to_string(getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    manifests_ = std::make_shared<std::vector<CorpusManifest>>(
        std::vector<CorpusManifest>{WriteCorpus("one", 1, 26, 50'000), WriteCorpus("two", 2, 3, 4'000)});
    data_.sequence_length = kLength;
    data_.corpora = {CorpusSpec{.name = "one", .manifest = {}, .weight = 3},
                     CorpusSpec{.name = "two", .manifest = {}, .weight = 1}};
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  CorpusManifest WriteCorpus(const std::string& name, uint64_t key, int documents, size_t tokens) {
    CorpusWriterOptions options;
    options.name = name;
    options.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
    auto writer = CorpusWriter::Create(*files_, root_ + "/" + name, options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    Rng rng(key);
    for (int d = 0; d < documents; ++d) {
      std::vector<uint32_t> ids(tokens);
      for (uint32_t& id : ids) id = static_cast<uint32_t>(rng.Below(256));
      EXPECT_TRUE((*writer)->Add(CorpusSplit::kTrain, ids, 2 * tokens).ok());
      ids.resize(300);
      EXPECT_TRUE((*writer)->Add(CorpusSplit::kHeldOut, ids, 600).ok());
    }
    auto manifest = (*writer)->Finish();
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }

  std::unique_ptr<LocalBlockSource> Local() {
    auto source = LocalBlockSource::Create(*files_, root_, manifests_, {"one", "two"});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<SampleReader> Reader(BlockSource& source, size_t prefetch = 8, size_t ahead = 0) {
    auto reader = SampleReader::Create(data_, manifests_, source, clock_,
                                       {.prefetch_samples = prefetch, .memory_blocks = 0, .ahead_blocks = ahead});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  // The expected result of the reader, computed without blocks.
  std::vector<int32_t> Expected(const SampleReader& reader, uint64_t position) {
    const SampleLocation at = reader.order().At(position);
    const CorpusFile* file = (*manifests_)[at.corpus].FilesOf(CorpusSplit::kTrain)[at.shard];
    auto shard = TokenShard::Open(*files_, root_ + "/" + (at.corpus == 0 ? "one/" : "two/") + file->name);
    EXPECT_TRUE(shard.ok()) << shard.status();
    std::vector<uint32_t> ids(kLength + 1);
    EXPECT_TRUE((*shard)->Read(at.token, ids).ok());
    return {ids.begin(), ids.end()};
  }
  std::string TrainShard() { return root_ + "/one/" + (*manifests_)[0].FilesOf(CorpusSplit::kTrain)[0]->name; }
  // Changes a byte of the training shard's block `block`.
  void Damage(uint64_t block) {
    std::fstream f(TrainShard(), std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(kShardHeaderBytes + block * kBlockBytes + 77);
    f.seekg(at);
    const char byte = static_cast<char>(f.get());
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 1));
  }

  const std::unique_ptr<Files> files_ = MakePosixFiles();
  const SystemClock clock_{};
  std::string root_;
  std::shared_ptr<std::vector<CorpusManifest>> manifests_;
  DataSpec data_;
};

// Counts fetches, and fails on demand.
class Fetcher final : public BlockSource {
 public:
  explicit Fetcher(BlockSource& inner) : inner_(inner) {}
  absl::StatusOr<std::string> FetchBlock(const BlockId& id) override {
    const MutexLock lock(mutex_);
    ++fetched_;
    changed_.NotifyAll();
    if (failures_ > 0) {
      --failures_;
      return failure_;
    }
    return inner_.FetchBlock(id);
  }
  void FailNext(int times, absl::Status status) {
    const MutexLock lock(mutex_);
    failures_ = times;
    failure_ = std::move(status);
  }
  int fetched() {
    const MutexLock lock(mutex_);
    return fetched_;
  }
  // Waits until `fetches` blocks were requested.
  void WaitFor(int fetches) {
    const MutexLock lock(mutex_);
    while (fetched_ < fetches) changed_.Wait(mutex_);
  }

 private:
  BlockSource& inner_;
  Mutex mutex_;
  CondVar changed_;
  int fetched_ ATOLL_GUARDED_BY(mutex_) = 0, failures_ ATOLL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_DATA_DATA_FIXTURE_H_
