// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/disk_budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/forwarded_files.h"

namespace atl {
namespace {

constexpr uint64_t kBlockBytes = 512;  // unit of st_blocks

class BudgetedFiles : public ForwardedFiles {
 public:
  BudgetedFiles(std::unique_ptr<Files> files, std::string root, uint64_t budget_bytes)
      : ForwardedFiles(std::move(files)), root_(std::move(root)), budget_bytes_(budget_bytes) {}

  absl::Status WriteNewFile(const std::string& path, const NewFile& file, const FillPiece& fill) override {
    return inner().WriteNewFile(path, file, fill);
  }

  absl::StatusOr<Space> SpaceAt(const std::string& path) const override {
    ATOLL_ASSIGN_OR_RETURN(const Space disk, inner().SpaceAt(path));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t used, DiskUseBelow(root_));
    const uint64_t left = budget_bytes_ - std::min(budget_bytes_, used);
    return Space{std::min(disk.free_bytes, left), std::min(disk.total_bytes, budget_bytes_)};
  }

 private:
  const std::string root_;
  const uint64_t budget_bytes_;
};

}  // namespace

absl::StatusOr<uint64_t> DiskUseBelow(const std::string& root) {
  uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> linked;  // files with several hard links that were counted
  const auto count = [&](const std::string& path) {
    struct stat s {};
    if (::lstat(path.c_str(), &s) != 0) return;  // deleted during the walk
    if (S_ISREG(s.st_mode) && s.st_nlink > 1 && !linked.emplace(s.st_dev, s.st_ino).second) return;
    bytes += static_cast<uint64_t>(s.st_blocks) * kBlockBytes;
  };
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(root, error);
  if (error) return absl::InternalError(absl::StrCat("reading ", root, ": ", error.message()));
  count(root);
  while (at != std::filesystem::recursive_directory_iterator()) {
    count(at->path().string());
    at.increment(error);
    if (error) break;  // a directory was deleted during the walk, or cannot be read: return the sum so far
  }
  return bytes;
}

std::unique_ptr<Files> WithDiskBudget(std::unique_ptr<Files> files, std::string root, uint64_t budget_bytes) {
  return std::make_unique<BudgetedFiles>(std::move(files), std::move(root), budget_bytes);
}

}  // namespace atl
