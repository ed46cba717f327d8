// A file system in memory for harnesses: what was not synced is gone after Crash. Names are durable once their
// directory was synced; contents once the file was. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_MEMORY_FILES_H_
#define ATOLL_TESTS_SIM_MEMORY_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"

namespace atl {

class MemoryFiles final : public Files {
 public:
  struct Node {
    std::vector<std::byte> content;  // as processes see it
    std::vector<std::byte> durable;  // as of the last Sync
  };

  absl::StatusOr<std::unique_ptr<File>> OpenForAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path) const override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status HardLink(const std::string& from, const std::string& to) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override;
  bool Exists(const std::string& path) const override;
  absl::StatusOr<Space> SpaceAt(const std::string& path) const override;

  // For damage: what is on the disk of a file, and every file's name.
  std::vector<std::byte> Content(const std::string& path) const { return names_.at(path)->durable; }
  void SetContent(const std::string& path, std::vector<std::byte> content);
  std::vector<std::string> Paths() const;

  // The power goes: unsynced content and unsynced names are lost.
  void Crash();

 private:
  std::map<std::string, std::shared_ptr<Node>> names_;          // as processes see it
  std::map<std::string, std::shared_ptr<Node>> durable_names_;  // as of the last sync of each directory
  std::map<std::string, bool> directories_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_MEMORY_FILES_H_
