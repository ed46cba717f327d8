// SPDX-License-Identifier: Apache-2.0
// A copy of a ledger that a running coordinator has open. SQLite lets no other process read it (exclusive locking), so
// its two files are read by their published format: the database, which only changes by what is in the write-ahead log,
// and the log up to its last commit. As long as the log is of the same generation, whatever a checkpoint of SQLite
// writes over while the database is read stands in the log as well, and the log wins.
#ifndef ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_
#define ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "coordinator/audit/wal_prefix.h"
#include "coordinator/backup/manifest.h"

namespace atl::backup {

// Not for the coordinator's own process: closing a descriptor of the database there gives up SQLite's locks of it. Not
// thread-safe.
class LedgerCopy {
 public:
  // Of `source`/ledger.sqlite, to `target`. `files` must outlive it.
  LedgerCopy(Files& files, const std::string& source, const std::string& target);

  // Copies the database, unless there is a copy that goes with the log of now. Unavailable: SQLite has begun its log
  // anew each time while the database was copied.
  absl::Status CopyDatabase();
  // Goes on to the newest commit. False: the database must be copied again.
  absl::StatusOr<bool> GoOn();
  // Whether GoOn, if it were called now, would find nothing new.
  absl::StatusOr<bool> StandsStill();
  // Writes the log beside the database, flushes it and adds both to `manifest`. DataLoss: the log has a broken frame
  // that had been durable, or the database cannot be read.
  absl::Status Finish(Manifest& manifest);

 private:
  // What tells one committed state of the files from another.
  struct Mark {
    std::string generation;
    std::string database;  // where there is no log: what changes with each write to the database
    uint64_t log_bytes = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  absl::StatusOr<Mark> Look();
  bool GoesWithCopy(const Mark& mark) const;

  Files& files_;
  const std::string source_, target_;
  audit::WalPrefix log_;
  std::optional<Mark> copied_;  // when the database was
  Mark cut_;
  Sha256 hash_;         // of the database
  uint64_t bytes_ = 0;  // likewise
};

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_LEDGER_COPY_H_
