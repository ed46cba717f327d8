// SPDX-License-Identifier: Apache-2.0
#include "worker/data/block_cache.h"

#include <filesystem>
#include <fstream>

#include "common/base/forwarded_files.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/data/data_fixture.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

using BlockCache = DataTest;

TEST_F(BlockCache, CacheFetchesOnceAndSurvivesARestart) {
  const auto local = Local();
  Fetcher source(*local);
  const std::string directory = root_ + "/cache";
  {
    auto cache = CachedBlockSource::Create(*files_, directory, 64 << 20, manifests_, source);
    ASSERT_TRUE(cache.ok()) << cache.status();
    EXPECT_EQ(*(*cache)->FetchBlock({0, 0, 0}), *local->FetchBlock({0, 0, 0}));
    EXPECT_TRUE((*cache)->FetchBlock({0, 0, 0}).ok());
    EXPECT_EQ(source.fetched(), 1);
  }
  std::ofstream(directory + "/half.part") << "left by a crash";
  auto cache = CachedBlockSource::Create(*files_, directory, 64 << 20, manifests_, source);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_FALSE(fs::exists(directory + "/half.part"));
  EXPECT_EQ((*cache)->used_bytes(), kBlockBytes);
  EXPECT_TRUE((*cache)->FetchBlock({0, 0, 0}).ok());
  EXPECT_EQ(source.fetched(), 1);

  // A damaged file is found by its hash and fetched again.
  const std::string path = directory + "/" + (*manifests_)[0].files[0].blocks[0].Hex();
  std::ofstream(path, std::ios::binary | std::ios::trunc) << std::string(kBlockBytes, 'x');
  EXPECT_EQ(*(*cache)->FetchBlock({0, 0, 0}), *local->FetchBlock({0, 0, 0}));
  EXPECT_EQ(source.fetched(), 2);
}

// As after a power cut between a rename and its flush.
TEST_F(BlockCache, AnEmptyFileIsNotCountedOn) {
  const auto local = Local();
  Fetcher source(*local);
  const std::string directory = root_ + "/cache";
  fs::create_directories(directory);
  const std::string path = directory + "/" + (*manifests_)[0].files[0].blocks[0].Hex();
  std::ofstream(path).flush();
  const auto cache = CachedBlockSource::Create(*files_, directory, 64 << 20, manifests_, source);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 0}).ok());
  EXPECT_EQ(source.fetched(), 1);
  EXPECT_EQ(fs::file_size(path), kBlockBytes);
  EXPECT_TRUE((*cache)->KeepBlock({0, 0, 0}).ok());
  EXPECT_EQ(source.fetched(), 1);
}

// As when the file belongs to another user, or to another worker with the same cache directory.
TEST_F(BlockCache, ACachedFileThatCannotBeOpenedIsFetchedAgain) {
  class Guarded final : public ForwardedFiles {
   public:
    using ForwardedFiles::ForwardedFiles;
    absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override {
      if (path.find("/cache/") != std::string::npos) return absl::FailedPreconditionError("Permission denied");
      return ForwardedFiles::OpenForRead(path);
    }
    absl::Status Remove(const std::string&) override { return absl::FailedPreconditionError("Permission denied"); }
  };
  const auto local = Local();
  Fetcher source(*local);
  const std::string directory = root_ + "/cache";
  ASSERT_TRUE(
      (*CachedBlockSource::Create(*files_, directory, 64 << 20, manifests_, source))->FetchBlock({0, 0, 0}).ok());
  std::ofstream(directory + "/half.part") << "left by a crash";
  Guarded guarded(MakePosixFiles());
  auto cache = CachedBlockSource::Create(guarded, directory, 64 << 20, manifests_, source);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->used_bytes(), 0U);
  EXPECT_EQ(*(*cache)->FetchBlock({0, 0, 0}), *local->FetchBlock({0, 0, 0}));
  EXPECT_EQ(source.fetched(), 2);
}

TEST_F(BlockCache, CacheStaysWithinItsLimitAndKeepsTheNewest) {
  const auto local = Local();
  Fetcher source(*local);
  const auto cache = CachedBlockSource::Create(*files_, root_ + "/cache", 2 * kBlockBytes, manifests_, source);
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE((*cache)->FetchBlock({0, 0, 0}).ok());
  ASSERT_TRUE((*cache)->FetchBlock({0, 0, 1}).ok());
  ASSERT_TRUE((*cache)->FetchBlock({0, 0, 0}).ok());  // now block 1 is the oldest
  ASSERT_TRUE((*cache)->FetchBlock({1, 0, 0}).ok());
  EXPECT_LE((*cache)->used_bytes(), 2 * kBlockBytes);
  EXPECT_EQ(source.fetched(), 3);
  ASSERT_TRUE((*cache)->FetchBlock({0, 0, 0}).ok());
  EXPECT_EQ(source.fetched(), 3);
  ASSERT_TRUE((*cache)->FetchBlock({0, 0, 1}).ok());
  EXPECT_EQ(source.fetched(), 4);
}

TEST_F(BlockCache, CacheRefusesWrongBytes) {
  class Wrong final : public BlockSource {
    absl::StatusOr<std::string> FetchBlock(const BlockId&) override { return std::string(kBlockBytes, 'x'); }
  } wrong;
  const auto cache = CachedBlockSource::Create(*files_, root_ + "/cache", 64 << 20, manifests_, wrong);
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(absl::IsDataLoss((*cache)->FetchBlock({0, 0, 0}).status()));
  EXPECT_EQ((*cache)->used_bytes(), 0u);
}

}  // namespace
}  // namespace atl
