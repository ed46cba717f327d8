// SPDX-License-Identifier: Apache-2.0
// The audit log on disk: calls that change something, enrolments, and refused calls. Each line of
// events/audit/NUMBER.jsonl is one JSON object with the SHA-256 of the previous line, so that
// `verify` finds a changed, deleted or inserted line (docs/formats/audit-log.md). The newest
// kKeptFiles files are kept, which outlive the log that the process prints.
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

// Not thread-safe: the caller runs one call at a time on an executor.
class AuditLog {
 public:
  static constexpr uint64_t kFileBytes = uint64_t{16} << 20;  // a file of this size is followed by a new one
  static constexpr uint64_t kKeptFiles = 8;                   // older ones are deleted; part of the format

  // Continues after the last complete line and cuts off an incomplete one. `files` must outlive the
  // log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Files& files, const DataDirectory& directory,
                                                        uint64_t file_bytes = kFileBytes);
  // Appends one line for each record (a JSON object that is not empty) and flushes the file.
  // ResourceExhausted or Internal when the lines cannot be appended: they are lost, and the next
  // line has their count. After a failed flush, which also returns its error, the lines may or may
  // not be on disk; they do not count as lost, and the next lines are written to a new file (I24).
  absl::Status Append(std::span<const std::string> records);
  // Reports that `records` lines were lost before they reached the log: the next line has their
  // count.
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
  uint64_t number_ = 0;         // of the current file
  std::unique_ptr<File> file_;  // null: opened by the next Append
  Sha256 previous_;             // of the last line; zeros before the first line
  uint64_t lost_ = 0;           // lines lost since the last written line
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_AUDIT_LOG_H_
