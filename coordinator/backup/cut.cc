// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/cut.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "coordinator/backup/ledger_copy.h"

namespace atl::backup {
namespace {

constexpr int kLooks = 3000;  // each takes as long as listing the directories

class HeldFiles {
 public:
  HeldFiles(const Files& files, const std::string& root, size_t most_open)
      : files_(files), root_(root), most_open_(most_open) {}

  // True if there is no new name since the previous call. Otherwise holds the present files.
  absl::StatusOr<bool> NothingNew() {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListStateFiles(root_));
    const bool nothing =
        std::all_of(paths.begin(), paths.end(), [&](const std::string& path) { return held_.contains(path); });
    if (nothing && looked_) return true;
    looked_ = true;
    std::erase_if(held_, [&](const auto& held) { return !std::binary_search(paths.begin(), paths.end(), held.first); });
    open_ = static_cast<size_t>(
        std::count_if(held_.begin(), held_.end(), [](const auto& held) { return held.second.file != nullptr; }));
    for (const std::string& path : paths) {
      if (!held_.contains(path)) ATOLL_RETURN_IF_ERROR(Hold(path));
    }
    return false;
  }

  absl::Status TakeLengths() {
    for (auto& [path, held] : held_) {
      if (!IsAppendedTo(path)) continue;
      if (held.file != nullptr) {
        ATOLL_ASSIGN_OR_RETURN(held.bytes, held.file->Size());
      } else {
        struct stat s {};
        if (::stat(JoinPath(root_, path).c_str(), &s) == 0) held.bytes = static_cast<uint64_t>(s.st_size);
      }
    }
    return absl::OkStatus();
  }

  std::vector<CutFile> Release() {
    std::vector<CutFile> out;
    for (auto& [path, held] : held_) out.push_back(std::move(held));
    std::stable_partition(out.begin(), out.end(), [](const CutFile& held) { return IsAppendedTo(held.path); });
    return out;
  }

 private:
  absl::Status Hold(const std::string& path) {
    const std::string full = JoinPath(root_, path);
    struct stat s {};
    if (::stat(full.c_str(), &s) != 0) return absl::OkStatus();  // dropped since the listing
    CutFile held{
        .path = path, .bytes = static_cast<uint64_t>(s.st_size), .inode = {s.st_dev, s.st_ino}, .file = nullptr};
    if (open_ < most_open_) {
      auto file = files_.OpenForRead(full);
      if (absl::IsNotFound(file.status())) return absl::OkStatus();
      if (!file.ok()) return file.status();
      held.file = *std::move(file);
      ++open_;
    }
    held_.emplace(path, std::move(held));
    return absl::OkStatus();
  }

  const Files& files_;
  const std::string root_;
  const size_t most_open_;
  size_t open_ = 0;
  bool looked_ = false;
  std::map<std::string, CutFile> held_;
};

}  // namespace

bool IsAppendedTo(const std::string& path) { return path.starts_with("events/") || path.ends_with(".seg"); }

std::string StartOf(const Files& files, const std::string& state_dir) {
  const std::string path = JoinPath(state_dir, "LOCK");
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return "none";
  const auto holder = ReadWholeFile(files, path, 64);
  return absl::StrCat(s.st_mtim.tv_sec, ".", s.st_mtim.tv_nsec, " ", holder.ok() ? *holder : "");
}

absl::StatusOr<Cut> TakeCut(Files& files, const std::string& state_dir, const std::string& target, size_t most_open) {
  HeldFiles held(files, state_dir, most_open);
  LedgerCopy ledger(files, state_dir, target);
  for (int i = 0; i < kLooks; ++i) {
    ATOLL_RETURN_IF_ERROR(ledger.CopyDatabase());
    const std::string start = StartOf(files, state_dir);
    ATOLL_ASSIGN_OR_RETURN(bool stands, ledger.GoOn());
    if (stands) {
      ATOLL_RETURN_IF_ERROR(held.TakeLengths());
      ATOLL_ASSIGN_OR_RETURN(stands, ledger.StandsStill());
    }
    ATOLL_ASSIGN_OR_RETURN(const bool nothing_new, held.NothingNew());
    if (!stands || !nothing_new) continue;
    Cut cut{.files = held.Release(), .manifest = {}, .start = start};
    ATOLL_RETURN_IF_ERROR(ledger.Finish(cut.manifest));
    return cut;
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator of ", state_dir, " writes faster than its files can be listed; try again later"));
}

}  // namespace atl::backup
