// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_schema.h"

#include <array>
#include <span>
#include <string>

#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl {
namespace {

// Revision 0 (an empty file) to 1. Numbers are signed 64-bit with the bits of the unsigned ones;
// digests are 16 bytes (high half first, big-endian), version vectors 8 bytes for each version
// (big-endian). `seq` is the order of commits over all history tables. The last column of every
// table is the checksum of its row, computed below.
constexpr char kRevision1[] = R"sql(
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), boot INTEGER NOT NULL, next_seq INTEGER NOT NULL,
  next_lease INTEGER NOT NULL, next_incarnation INTEGER NOT NULL, next_job_sequence INTEGER NOT NULL,
  crc INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES (1, 0, 1, 1, 1, 1, 0);
CREATE TABLE jobs (job TEXT PRIMARY KEY, sequence INTEGER NOT NULL, spec BLOB NOT NULL, spec_revision INTEGER NOT NULL,
  state INTEGER NOT NULL, reason TEXT NOT NULL, request_id TEXT NOT NULL, stop_step INTEGER NOT NULL,
  dataset_samples INTEGER NOT NULL, held_out_samples INTEGER NOT NULL, fragments INTEGER NOT NULL, epoch INTEGER NOT NULL,
  parameters_ready INTEGER NOT NULL, draining INTEGER NOT NULL, next_evaluation INTEGER NOT NULL,
  create_wall_nanos INTEGER NOT NULL, start_wall_nanos INTEGER NOT NULL, end_wall_nanos INTEGER NOT NULL,
  crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE pools (job TEXT PRIMARY KEY REFERENCES jobs, frontier INTEGER NOT NULL, consumed INTEGER NOT NULL,
  abandoned INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE pool_ranges (job TEXT NOT NULL REFERENCES pools, first INTEGER NOT NULL, last INTEGER NOT NULL,
  crc INTEGER NOT NULL, PRIMARY KEY (job, first)) STRICT, WITHOUT ROWID;
CREATE TABLE workers (worker TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, start_nonce INTEGER NOT NULL, job TEXT NOT NULL,
  evaluate_only INTEGER NOT NULL, device TEXT NOT NULL, leases_from INTEGER NOT NULL, quarantine TEXT NOT NULL,
  cordoned INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE leases (lease INTEGER PRIMARY KEY, job TEXT NOT NULL, worker TEXT NOT NULL, incarnation INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL, consumed_to INTEGER NOT NULL, request INTEGER NOT NULL,
  revoked INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE rounds (job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL, fragment INTEGER NOT NULL,
  version INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE, record BLOB NOT NULL, crc INTEGER NOT NULL,
  PRIMARY KEY (job, epoch, fragment, version)) STRICT, WITHOUT ROWID;
CREATE TABLE screened (job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL, fragment INTEGER NOT NULL,
  version INTEGER NOT NULL, worker TEXT NOT NULL, digest BLOB NOT NULL, crc INTEGER NOT NULL,
  PRIMARY KEY (job, fragment, worker)) STRICT, WITHOUT ROWID;
CREATE TABLE evaluations (job TEXT NOT NULL REFERENCES jobs, evaluation INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE,
  clock_step INTEGER NOT NULL, versions BLOB NOT NULL, nll_micro_nats INTEGER NOT NULL, tokens INTEGER NOT NULL,
  text_bytes INTEGER NOT NULL, trained_tokens INTEGER NOT NULL, wall_nanos INTEGER NOT NULL, tasks BLOB NOT NULL,
  crc INTEGER NOT NULL, PRIMARY KEY (job, evaluation)) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (seq INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, step INTEGER NOT NULL,
  dropped INTEGER NOT NULL, versions BLOB NOT NULL, hashes BLOB NOT NULL, complete INTEGER NOT NULL,
  pool_consumed INTEGER NOT NULL, pool_frontier INTEGER NOT NULL, wall_nanos INTEGER NOT NULL, kept INTEGER NOT NULL,
  crc INTEGER NOT NULL) STRICT;
CREATE TABLE rollbacks (seq INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL,
  versions BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE tokens (id TEXT PRIMARY KEY, secret_sha256 BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
  uses INTEGER NOT NULL, used INTEGER NOT NULL, create_s INTEGER NOT NULL, end_s INTEGER NOT NULL,
  revoked INTEGER NOT NULL, issue_s INTEGER NOT NULL, holders BLOB NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE revocations (name TEXT PRIMARY KEY, revoke_s INTEGER NOT NULL, revoked_by TEXT NOT NULL,
  crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
)sql";

constexpr std::array<const char*, kLedgerRevision> kSteps = {kRevision1};

absl::Status TakeStep(Database& database, const char* step, size_t reached) {
  ATOLL_RETURN_IF_ERROR(database.Run(absl::StrCat("BEGIN IMMEDIATE;", step)));
  ATOLL_RETURN_IF_ERROR(SealRows(database));
  return database.Run(
      absl::StrCat("PRAGMA application_id=", kLedgerApplicationId, "; PRAGMA user_version=", reached, "; COMMIT;"));
}

absl::Status TakeAlone(Database& database) {
  // With exclusive locking SQLite keeps the lock from the first transaction on; another process
  // gets FailedPrecondition.
  ATOLL_RETURN_IF_ERROR(database.Run("PRAGMA locking_mode=EXCLUSIVE; PRAGMA busy_timeout=0;"));
  return database.Run("BEGIN EXCLUSIVE; COMMIT;");
}

absl::Status CheckOwner(Database& database, const std::string& path, int64_t revision, size_t newest) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  ATOLL_ASSIGN_OR_RETURN(const int64_t tables, database.Number("SELECT count(*) FROM sqlite_schema"));
  if (application != kLedgerApplicationId && (application != 0 || tables != 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a database of another program: choose another directory"));
  }
  if (revision < 0 || static_cast<size_t>(revision) > newest) {
    return absl::FailedPreconditionError(absl::StrCat("the ledger ", path, " has format revision ", revision,
                                                      ", this program supports ", newest, ": use the newer program"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareLedgerSchema(Database& database, const std::string& path) {
  return PrepareSchema(database, path, kSteps);
}

absl::Status PrepareSchema(Database& database, const std::string& path, std::span<const char* const> steps) {
  ATOLL_RETURN_IF_ERROR(TakeAlone(database));
  ATOLL_ASSIGN_OR_RETURN(const int64_t revision, database.Number("PRAGMA user_version"));
  ATOLL_RETURN_IF_ERROR(CheckOwner(database, path, revision, steps.size()));
  ATOLL_RETURN_IF_ERROR(database.Run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF;"));
  size_t reached = static_cast<size_t>(revision);
  // A step recomputes all checksums, so damaged rows must be found before.
  if (reached > 0 && reached < steps.size()) ATOLL_RETURN_IF_ERROR(CheckRows(database));
  for (; reached < steps.size(); ++reached) ATOLL_RETURN_IF_ERROR(TakeStep(database, steps[reached], reached + 1));
  return absl::OkStatus();
}

}  // namespace atl
