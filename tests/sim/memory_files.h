// SPDX-License-Identifier: Apache-2.0
// A file system in memory for harnesses: what was not synced is gone after Crash. Names are durable once their
// directory was synced; contents once the file was. Every call that changes something is a place where it can fail.
// Not thread-safe.
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

// What happens at one changing call.
enum class DiskFault {
  kNone,
  kKilledBefore,  // the process dies before the call; the disk keeps all that was written
  kKilledAfter,   // likewise after it
  kPowerCut,      // the power goes before the call: what was not synced is gone
  kTornPowerCut,  // likewise, and any part of what was not synced may be there
  kError,         // the call fails without an effect
  kFull,          // likewise, for want of room
  kShortWrite,    // an append writes half, then the disk is full
};

class MemoryFiles final : public Files {
 public:
  struct Node {
    std::vector<std::byte> content;  // as processes see it
    std::vector<std::byte> durable;  // as of the last Sync
    size_t same = 0;                 // bytes at the beginning that are equal in both

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

  // What SpaceAt says.
  Space space{uint64_t{1} << 40, uint64_t{1} << 41};
  // The file of a name, made when it is not there and `create`; null otherwise, or when the fault is met.
  std::shared_ptr<Node> Open(const std::string& path, bool create);
  // Takes all that is on the disk of another; nothing of it is written or failing.
  void CopyDiskOf(const MemoryFiles& other);

  // For damage: what is on the disk of a file, and every file's name.
  std::vector<std::byte> Content(const std::string& path) const { return names_.at(path)->durable; }
  void SetContent(const std::string& path, std::vector<std::byte> content);
  std::vector<std::string> Paths() const;
  // Names of what is open, one for each File that lives.
  const std::multiset<std::string>& open() const { return open_; }

  // The power goes: unsynced content and unsynced names are lost.
  void Crash();

  // Changing calls since the last FailAt, and what they were ("append /state/..."); commits of a ledger too, through
  // Meet.
  uint64_t calls() const { return calls_; }
  const std::string& last_call() const { return last_call_; }
  // The call number `call` from now on (from 0) meets the fault, the others do not.
  void FailAt(uint64_t call, DiskFault fault);
  // A changing call. Not OK: it must have no effect.
  absl::Status Meet(const char* what, const std::string& path);
  // The half of an append that is to be written before it fails.
  bool TakesHalf(const absl::Status& met) const;
  // Of a File that begins or ends.
  void Opened(const std::string& path) { open_.insert(path); }
  void Closed(const std::string& path) { open_.extract(path); }
  // True once a fault was met.
  bool met() const { return met_; }
  // The process is dead: every changing call fails until Survive.
  bool dead() const { return dead_; }
  void Die() { dead_ = true; }
  // What the disk holds when the process is started again; `seed` chooses what of unsynced things is there.
  void Survive(uint64_t seed);
  // The power goes; any part of what was not synced may be there.
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
