// SPDX-License-Identifier: Apache-2.0
// Copies a ledger that a running coordinator has open. SQLite lets no other process read it (exclusive
// locking), so its two files are read by their published format: the database, which changes only by content of
// the write-ahead log, and the log up to its last commit. While the log is of the same generation, every page
// that an SQLite checkpoint overwrites during the read is also in the log, and the log has precedence.
#ifndef ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_
#define ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "coordinator/audit/wal.h"
#include "coordinator/backup/manifest.h"

namespace atl::backup {

// Must not be used in the coordinator's own process: closing a descriptor of the database there
// releases SQLite's locks. Not thread-safe.
class LedgerCopy {
 public:
  // The methods copy ledger.sqlite from folder `source` to folder `target`. `files` must outlive the object.
  LedgerCopy(Files& files, const std::string& source, const std::string& target);

  // Copies the database, unless this object's copy still matches the log. Unavailable: SQLite restarted its log
  // during every copy of the database.
  absl::Status CopyDatabase();
  // Reads up to the newest commit. False: the database must be copied again.
  absl::StatusOr<bool> GoOn();
  // Whether GoOn would find nothing new now.
  absl::StatusOr<bool> StandsStill();
  // Writes the log, as of the last GoOn, next to the database, flushes it and adds both to `manifest`. DataLoss: the
  // source's log has a broken frame that had been durable.
  absl::Status Finish(Manifest& manifest);

 private:
  // Identifies one committed state of the files.
  struct Mark {
    std::string generation;
    std::string database;  // without a log: changes with each write to the database
    uint64_t log_bytes = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  absl::StatusOr<Mark> Look();
  bool GoesWithCopy(const Mark& mark) const;

  Files& files_;
  const std::string source_, target_;
  audit::WalPrefix log_;
  std::optional<Mark> copied_;  // state at the time of the database copy
  Mark cut_;
  Sha256 hash_;         // of the database
  uint64_t bytes_ = 0;  // of the database
};

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_
