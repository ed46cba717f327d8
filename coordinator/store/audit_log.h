// SPDX-License-Identifier: Apache-2.0
// The audit log on disk: who changed what and who was refused, for longer than the process's log is kept. One JSON
// object a line in events/audit/NUMBER.jsonl, each of which holds the SHA-256 of the line before it, so that `verify`
// finds a line that was changed, left out or put in (docs/formats/audit-log.md). The newest files are kept.
#ifndef ATOLL_COORDINATOR_STORE_AUDIT_LOG_H_
#define ATOLL_COORDINATOR_STORE_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// Not thread-safe: one after the other on an executor.
class AuditLog {
 public:
  static constexpr uint64_t kFileBytes = uint64_t{16} << 20;  // beyond it the next file is begun
  static constexpr uint64_t kKeptFiles = 8;                   // part of the format

  // Goes on behind the last whole line; what was not written to its end is cut off. `files` must outlive it.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Files& files, const DataDirectory& directory,
                                                        uint64_t file_bytes = kFileBytes);
  // Appends one line for each record, a JSON object that is not empty, and flushes them. Where they cannot be written,
  // ResourceExhausted or Internal, they are lost, and the next line says how many were; after a flush that failed they
  // are as they may be, and the next go to a new file (I24).
  absl::Status Append(std::span<const std::string> records);
  // So many records never came: the next line says so.
  void Lose(uint64_t records) { lost_ += records; }

 private:
  AuditLog(Files& files, std::string root, std::string directory, uint64_t file_bytes)
      : files_(files), root_(std::move(root)), directory_(std::move(directory)), file_bytes_(file_bytes) {}
  absl::Status FindEnd();
  absl::StatusOr<bool> TakeUp(uint64_t number);
  absl::Status OpenFile();
  absl::Status Write(const std::string& text);
  absl::Status DropOld() const;
  std::string PathOf(uint64_t number) const;

  Files& files_;
  const std::string root_, directory_;
  const uint64_t file_bytes_;
  uint64_t number_ = 0;         // of the file that is written
  std::unique_ptr<File> file_;  // null: opened at the next line
  Sha256 previous_;             // of the last line; zeros before the first
  uint64_t lost_ = 0;           // lines since then
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_AUDIT_LOG_H_
