// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/epochs_on_disk.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace atl {
namespace {

std::string NameOf(uint64_t epoch) { return absl::StrFormat("e%010d", epoch); }

// Removes e<epoch>/f<fragment>/*; decrements `most` by the number of removed files.
absl::StatusOr<bool> RemoveEpoch(Files& files, const std::string& path, size_t& most) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> fragments, files.List(path));
  for (const std::string& fragment : fragments) {
    const std::string directory = JoinPath(path, fragment);
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
    for (const std::string& name : names) {
      if (most == 0) return false;
      ATOLL_RETURN_IF_ERROR(files.Remove(JoinPath(directory, name)));
      --most;
    }
    ATOLL_RETURN_IF_ERROR(files.Remove(directory));
  }
  ATOLL_RETURN_IF_ERROR(files.Remove(path));
  return true;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> EpochsOnDisk(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
  std::vector<uint64_t> epochs;
  for (const std::string& name : names) {
    uint64_t epoch = 0;
    if (name.size() > 1 && absl::SimpleAtoi(name.substr(1), &epoch) && name == NameOf(epoch)) epochs.push_back(epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

absl::StatusOr<bool> RemoveEpochsBefore(Files& files, const std::string& path, uint64_t epoch, size_t most) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<uint64_t> epochs, EpochsOnDisk(files, path));
  for (const uint64_t older : epochs) {
    if (older >= epoch) break;
    ATOLL_ASSIGN_OR_RETURN(const bool gone, RemoveEpoch(files, JoinPath(path, NameOf(older)), most));
    if (!gone) return false;
  }
  return true;
}

}  // namespace atl
