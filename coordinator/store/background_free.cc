// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/background_free.h"

#include <atomic>
#include <string>
#include <utility>

#include "common/base/forwarded_files.h"

namespace atl {
namespace {

class BackgroundFreeing final : public ForwardedFiles {
 public:
  BackgroundFreeing(std::unique_ptr<Files> files, Executor& executor)
      : ForwardedFiles(std::move(files)), executor_(executor) {}

  absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill) override {
    return inner().WriteNewFile(path, file, fill);
  }
  absl::Status Remove(const std::string& path) override {
    // While this descriptor is open, Remove only unlinks the name. Its close, in the task below, frees the blocks.
    std::shared_ptr<File> last = waiting_->load() < kBackgroundFreeFiles ? OpenLarge(path) : nullptr;
    const absl::Status removed = inner().Remove(path);
    if (last == nullptr) return removed;
    waiting_->fetch_add(1);
    executor_.Post([last = std::move(last), waiting = waiting_]() mutable {
      last.reset();
      waiting->fetch_sub(1);
    });
    return removed;
  }

 private:
  // Null if the file is small or cannot be opened. Remove is called in either case and reports its own error.
  std::shared_ptr<File> OpenLarge(const std::string& path) const {
    absl::StatusOr<std::unique_ptr<File>> file = inner().OpenForRead(path);
    if (!file.ok()) return nullptr;
    const absl::StatusOr<uint64_t> size = (*file)->Size();
    if (!size.ok() || *size < kBackgroundFreeBytes) return nullptr;
    return *std::move(file);
  }

  Executor& executor_;
  const std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace

std::unique_ptr<Files> FreeInBackground(std::unique_ptr<Files> files, Executor& executor) {
  return std::make_unique<BackgroundFreeing>(std::move(files), executor);
}

}  // namespace atl
