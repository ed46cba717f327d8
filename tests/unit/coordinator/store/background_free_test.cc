// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/background_free.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

class BackgroundFreeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        JoinPath(std::filesystem::canonical(testing::TempDir()).string(), absl::StrCat("freed-beside-", ::getpid()));
    ASSERT_EQ(files_->MakeDirectory(folder_), absl::OkStatus());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Make(const std::string& name, uint64_t bytes) {
    const std::string path = JoinPath(folder_, name);
    const std::vector<std::byte> content(bytes, std::byte{1});
    EXPECT_EQ((*files_->OpenForAppend(path))->Append(content), absl::OkStatus());
    return path;
  }

  ManualExecutor freeing_;
  std::unique_ptr<Files> files_ = FreeInBackground(MakePosixFiles(), freeing_);
  std::string folder_;
};

// The number of descriptors that this process still has of the unlinked file.
size_t OpenWithoutAName(const std::string& path) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    count += std::filesystem::read_symlink(entry.path(), error).string() == path + " (deleted)";
  }
  return count;
}

TEST_F(BackgroundFreeTest, ALargeFileLosesItsNameAtOnceAndItsRoomLater) {
  const std::string path = Make("large", kBackgroundFreeBytes);
  ASSERT_EQ(files_->Remove(path), absl::OkStatus());
  EXPECT_FALSE(files_->Exists(path));
  EXPECT_EQ(OpenWithoutAName(path), 1u);
  EXPECT_EQ(freeing_.RunAll(), 1u);
  EXPECT_EQ(OpenWithoutAName(path), 0u);
}

TEST_F(BackgroundFreeTest, FewDescriptorsWait) {
  std::vector<std::string> paths;
  for (int i = 0; i <= kBackgroundFreeFiles; ++i)
    paths.push_back(Make(absl::StrCat("large-", i), kBackgroundFreeBytes));
  for (const std::string& path : paths) ASSERT_EQ(files_->Remove(path), absl::OkStatus());
  EXPECT_EQ(OpenWithoutAName(paths[kBackgroundFreeFiles - 1]), 1u);
  EXPECT_EQ(OpenWithoutAName(paths[kBackgroundFreeFiles]), 0u);
  EXPECT_EQ(freeing_.RunAll(), static_cast<size_t>(kBackgroundFreeFiles));
  const std::string next = Make("next", kBackgroundFreeBytes);
  ASSERT_EQ(files_->Remove(next), absl::OkStatus());
  EXPECT_EQ(freeing_.RunAll(), 1u);
}

TEST_F(BackgroundFreeTest, OtherThingsGoAtOnce) {
  const std::string small = Make("small", kBackgroundFreeBytes - 1), directory = JoinPath(folder_, "directory");
  ASSERT_EQ(files_->MakeDirectory(directory), absl::OkStatus());
  for (const std::string& path : {small, directory, JoinPath(folder_, "absent")}) {
    EXPECT_EQ(files_->Remove(path), absl::OkStatus()) << path;
    EXPECT_FALSE(files_->Exists(path));
  }
  EXPECT_EQ(freeing_.pending(), 0u);
}

TEST_F(BackgroundFreeTest, UnremovableFileIsReported) {
  ASSERT_EQ(files_->MakeDirectory(JoinPath(folder_, "full")), absl::OkStatus());
  Make("full/file", 1);
  const absl::Status refused = files_->Remove(JoinPath(folder_, "full"));
  EXPECT_NE(refused.message().find(JoinPath(folder_, "full")), absl::string_view::npos) << refused;
}

}  // namespace
}  // namespace atl
