// SPDX-License-Identifier: Apache-2.0
// Files that forward their calls: a base class for wrappers that change a few calls.
#ifndef ATOLL_COMMON_BASE_FORWARDED_FILES_H_
#define ATOLL_COMMON_BASE_FORWARDED_FILES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"

namespace atl {

// As thread-safe as `files`. Forwards all but WriteNewFile and OpenStream: those use OpenForAppend and OpenForRead.
class ForwardedFiles : public Files {
 public:
  explicit ForwardedFiles(std::shared_ptr<Files> files) : files_(std::move(files)) {}

  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override {
    return files_->OpenForAppend(path);
  }
  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override {
    return files_->OpenForRead(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override { return files_->Rename(from, to); }
  absl::Status Remove(const std::string& path) override { return files_->Remove(path); }
  absl::Status HardLink(const std::string& from, const std::string& to) override { return files_->HardLink(from, to); }
  absl::Status MakeDirectory(const std::string& path) override { return files_->MakeDirectory(path); }
  absl::Status SyncDirectory(const std::string& path) override { return files_->SyncDirectory(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override { return files_->List(path); }
  bool Exists(const std::string& path) const override { return files_->Exists(path); }
  absl::StatusOr<Space> SpaceAt(const std::string& path) const override { return files_->SpaceAt(path); }

 protected:
  Files& inner() const { return *files_; }

 private:
  const std::shared_ptr<Files> files_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_FORWARDED_FILES_H_
