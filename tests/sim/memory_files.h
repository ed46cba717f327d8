// SPDX-License-Identifier: Apache-2.0
// An in-memory file system for harnesses. Crash drops everything unsynced: names are durable once
// their directory was synced, contents once the file was synced. Every call that changes something
// can be made to fail. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_MEMORY_FILES_H_
#define ATOLL_TESTS_SIM_MEMORY_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"

namespace atl {

// The effect of a fault at one changing call.
enum class DiskFault {
  kNone,
  kKilledBefore,  // the process dies before the call; the disk keeps everything written
  kKilledAfter,   // the process dies after the call; the disk keeps everything written
  kPowerCut,      // the power fails before the call; unsynced data is lost
  kTornPowerCut,  // the power fails before the call; any part of unsynced data may survive
  kError,         // the call fails without an effect
  kFull,          // the call fails without an effect: the disk is full
  kShortWrite,    // an append writes half, then the disk is full
};

class MemoryFiles final : public Files {
 public:
  struct Node {
    std::vector<std::byte> content;  // as processes see it
    std::vector<std::byte> durable;  // as of the last Sync
    size_t same = 0;                 // length of the common prefix of both

    void Sync();
    void WriteAt(uint64_t offset, Bytes data);  // grows the content where needed
    void Truncate(uint64_t size);
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

  // The result of SpaceAt.
  Space space{uint64_t{1} << 40, uint64_t{1} << 41};
  // The file with that name, created if missing and `create`. Null if missing or on a fault.
  std::shared_ptr<Node> Open(const std::string& path, bool create);
  // Copies the other disk's contents; the copy has no unsynced data and no pending fault.
  void CopyDiskOf(const MemoryFiles& other);

  // For tests of damage: the durable content of a file, and every file's name.
  std::vector<std::byte> Content(const std::string& path) const { return names_.at(path)->durable; }
  void SetContent(const std::string& path, std::vector<std::byte> content);
  std::vector<std::string> Paths() const;
  // Names of the open files, one entry for each live File.
  const std::multiset<std::string>& open() const { return open_; }

  // The power fails: unsynced content and unsynced names are lost.
  void Crash();

  // The changing calls since the last FailAt and their descriptions ("append /state/..."),
  // including ledger commits, which call Meet.
  uint64_t calls() const { return calls_; }
  const std::string& last_call() const { return last_call_; }
  // The call number `call` (0 is the next) meets the fault; other calls do not.
  void FailAt(uint64_t call, DiskFault fault);
  // Counts a changing call. If the result is not OK, the call must have no effect.
  absl::Status Meet(const char* what, const std::string& path);
  // True if half of an append must be written before it fails.
  bool TakesHalf(const absl::Status& met) const;
  // Called by a File when it opens and closes.
  void Opened(const std::string& path) { open_.insert(path); }
  void Closed(const std::string& path) { open_.extract(path); }
  // True once a fault was met.
  bool met() const { return met_; }
  // The process is dead: every changing call fails until Survive.
  bool dead() const { return dead_; }
  void Die() { dead_ = true; }
  // Sets the disk to the state that the next process finds; `seed` chooses which unsynced data
  // survives.
  void Survive(uint64_t seed);
  // The power fails; any part of unsynced data may survive.
  void TearCrash(uint64_t seed);

 private:
  uint64_t calls_ = 0, fail_at_ = UINT64_MAX;
  DiskFault fault_ = DiskFault::kNone;
  bool met_ = false, dead_ = false;
  std::string last_call_;
  std::map<std::string, std::shared_ptr<Node>> names_;          // as processes see it
  std::map<std::string, std::shared_ptr<Node>> durable_names_;  // as of the last sync of each directory
  std::map<std::string, bool> directories_;
  std::multiset<std::string> open_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_MEMORY_FILES_H_
