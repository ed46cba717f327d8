// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_schema.h"

#include <array>
#include <string>
#include <vector>

#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl {
namespace {

// Revision 0 (an empty file) to 1. Numbers are signed 64-bit with the bits of the unsigned ones; digests are 16 bytes
// (high half first, big-endian), version vectors 8 bytes each (big-endian). `seq` is the order of commits over all
// history tables.
constexpr char kRevision1[] = R"sql(
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), boot INTEGER NOT NULL, next_seq INTEGER NOT NULL,
  next_lease INTEGER NOT NULL, next_incarnation INTEGER NOT NULL, next_job_sequence INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES (1, 0, 1, 1, 1, 1);
CREATE TABLE jobs (job TEXT PRIMARY KEY, sequence INTEGER NOT NULL, spec BLOB NOT NULL, spec_revision INTEGER NOT NULL,
  state INTEGER NOT NULL, reason TEXT NOT NULL, request_id TEXT NOT NULL, stop_step INTEGER NOT NULL,
  dataset_samples INTEGER NOT NULL, held_out_samples INTEGER NOT NULL, fragments INTEGER NOT NULL, epoch INTEGER NOT NULL,
  parameters_ready INTEGER NOT NULL, draining INTEGER NOT NULL, next_evaluation INTEGER NOT NULL,
  create_wall_nanos INTEGER NOT NULL, start_wall_nanos INTEGER NOT NULL, end_wall_nanos INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE pools (job TEXT PRIMARY KEY REFERENCES jobs, frontier INTEGER NOT NULL, consumed INTEGER NOT NULL,
  abandoned INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE pool_ranges (job TEXT NOT NULL REFERENCES pools, first INTEGER NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (job, first)) STRICT, WITHOUT ROWID;
CREATE TABLE workers (worker TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, start_nonce INTEGER NOT NULL, job TEXT NOT NULL,
  evaluate_only INTEGER NOT NULL, device TEXT NOT NULL, leases_from INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE leases (lease INTEGER PRIMARY KEY, job TEXT NOT NULL, worker TEXT NOT NULL, incarnation INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL, consumed_to INTEGER NOT NULL, request INTEGER NOT NULL,
  revoked INTEGER NOT NULL) STRICT;
CREATE TABLE rounds (job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL, fragment INTEGER NOT NULL,
  version INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE, record BLOB NOT NULL,
  PRIMARY KEY (job, epoch, fragment, version)) STRICT, WITHOUT ROWID;
CREATE TABLE evaluations (job TEXT NOT NULL REFERENCES jobs, evaluation INTEGER NOT NULL, seq INTEGER NOT NULL UNIQUE,
  clock_step INTEGER NOT NULL, versions BLOB NOT NULL, nll_micro_nats INTEGER NOT NULL, tokens INTEGER NOT NULL,
  text_bytes INTEGER NOT NULL, trained_tokens INTEGER NOT NULL, wall_nanos INTEGER NOT NULL,
  PRIMARY KEY (job, evaluation)) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (seq INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, step INTEGER NOT NULL,
  dropped INTEGER NOT NULL, versions BLOB NOT NULL, hashes BLOB NOT NULL, complete INTEGER NOT NULL,
  pool_consumed INTEGER NOT NULL, pool_frontier INTEGER NOT NULL, wall_nanos INTEGER NOT NULL) STRICT;
CREATE TABLE rollbacks (seq INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL,
  versions BLOB NOT NULL) STRICT;
)sql";

// To 2: `tasks` is TaskScores of record.proto, empty where no task was scored.
constexpr char kRevision2[] = "ALTER TABLE evaluations ADD COLUMN tasks BLOB NOT NULL DEFAULT x'';";

// To 3: join tokens. `secret_sha256` is the hash of id and secret, 32 bytes; times are seconds since 1970.
constexpr char kRevision3[] = R"sql(
CREATE TABLE tokens (id TEXT PRIMARY KEY, secret_sha256 BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
  uses INTEGER NOT NULL, used INTEGER NOT NULL, create_s INTEGER NOT NULL, end_s INTEGER NOT NULL,
  revoked INTEGER NOT NULL) STRICT, WITHOUT ROWID;
)sql";

// To 4: `quarantine` says why nothing is taken from a worker, empty where it is not quarantined.
constexpr char kRevision4[] = "ALTER TABLE workers ADD COLUMN quarantine TEXT NOT NULL DEFAULT '';";

// To 5: `cordoned` is 1 where an operator keeps other jobs from a worker.
constexpr char kRevision5[] = "ALTER TABLE workers ADD COLUMN cordoned INTEGER NOT NULL DEFAULT 0;";

// To 6: `crc`, the checksum of the other columns, in every table (ledger_rows.h).
constexpr char kRevision6[] = R"sql(
ALTER TABLE meta ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pools ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pool_ranges ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rounds ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evaluations ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollbacks ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
)sql";
constexpr int64_t kSealed = 6;

// To 7: what screens refused of the open rounds. `digest` is 16 bytes.
constexpr char kRevision7[] = R"sql(
CREATE TABLE screened (job TEXT NOT NULL REFERENCES jobs, epoch INTEGER NOT NULL, fragment INTEGER NOT NULL,
  version INTEGER NOT NULL, worker TEXT NOT NULL, digest BLOB NOT NULL, crc INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, fragment, worker)) STRICT, WITHOUT ROWID;
)sql";

// To 8: `issue_s`, when a token last brought somebody a certificate. Of the tokens there were it is not known: now is
// the latest that it can be. And `kept` of a checkpoint (records.h), which needs the job's spec: the next start decides
// it. The checksum stays the last column.
constexpr char kRevision8[] = R"sql(
CREATE TABLE tokens_8 (id TEXT PRIMARY KEY, secret_sha256 BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
  uses INTEGER NOT NULL, used INTEGER NOT NULL, create_s INTEGER NOT NULL, end_s INTEGER NOT NULL,
  revoked INTEGER NOT NULL, issue_s INTEGER NOT NULL, crc INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
INSERT INTO tokens_8 SELECT id, secret_sha256, role, name, uses, used, create_s, end_s, revoked,
  iif(used > 0, unixepoch(), 0), 0 FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_8 RENAME TO tokens;
CREATE TABLE checkpoints_8 (seq INTEGER PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, step INTEGER NOT NULL,
  dropped INTEGER NOT NULL, versions BLOB NOT NULL, hashes BLOB NOT NULL, complete INTEGER NOT NULL,
  pool_consumed INTEGER NOT NULL, pool_frontier INTEGER NOT NULL, wall_nanos INTEGER NOT NULL,
  kept INTEGER NOT NULL, crc INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO checkpoints_8 SELECT seq, job, step, dropped, versions, hashes, complete, pool_consumed, pool_frontier,
  wall_nanos, iif(dropped, 0, 2), 0 FROM checkpoints;
DROP TABLE checkpoints;
ALTER TABLE checkpoints_8 RENAME TO checkpoints;
)sql";

// To 9: `holders` of a token (join_token.h), 32 bytes each. The checksum stays the last column.
constexpr char kRevision9[] = R"sql(
CREATE TABLE tokens_9 (id TEXT PRIMARY KEY, secret_sha256 BLOB NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
  uses INTEGER NOT NULL, used INTEGER NOT NULL, create_s INTEGER NOT NULL, end_s INTEGER NOT NULL,
  revoked INTEGER NOT NULL, issue_s INTEGER NOT NULL, holders BLOB NOT NULL, crc INTEGER NOT NULL DEFAULT 0)
  STRICT, WITHOUT ROWID;
INSERT INTO tokens_9 SELECT id, secret_sha256, role, name, uses, used, create_s, end_s, revoked, issue_s, x'', 0
  FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_9 RENAME TO tokens;
)sql";

// To 10: revoked names. `revoke_s` is seconds since 1970.
constexpr char kRevision10[] = R"sql(
CREATE TABLE revocations (name TEXT PRIMARY KEY, revoke_s INTEGER NOT NULL, revoked_by TEXT NOT NULL,
  crc INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
)sql";

// The tables that a step makes anew, whose rows get their checksums afterwards.
std::vector<std::string> MadeAnew(int64_t revision) {
  if (revision == 8) return {"tokens", "checkpoints"};
  if (revision == 9) return {"tokens"};
  return {};
}

// kSteps[r] leads from revision r to r + 1.
constexpr std::array<const char*, kLedgerRevision> kSteps = {kRevision1, kRevision2, kRevision3, kRevision4,
                                                             kRevision5, kRevision6, kRevision7, kRevision8,
                                                             kRevision9, kRevision10};

absl::Status TakeStep(Database& database, int64_t revision) {
  ATOLL_RETURN_IF_ERROR(database.Run(absl::StrCat("BEGIN IMMEDIATE;", kSteps[static_cast<size_t>(revision)])));
  if (revision + 1 == kSealed) ATOLL_RETURN_IF_ERROR(SealRows(database));
  for (const std::string& table : MadeAnew(revision + 1)) ATOLL_RETURN_IF_ERROR(SealTable(database, table));
  return database.Run(absl::StrCat("PRAGMA application_id=", kLedgerApplicationId,
                                   "; PRAGMA user_version=", revision + 1, "; COMMIT;"));
}

absl::Status TakeAlone(Database& database) {
  // Exclusive locking holds the file from the first transaction on; a second opener is told so.
  ATOLL_RETURN_IF_ERROR(database.Run("PRAGMA locking_mode=EXCLUSIVE; PRAGMA busy_timeout=0;"));
  return database.Run("BEGIN EXCLUSIVE; COMMIT;");
}

absl::Status CheckOwner(Database& database, const std::string& path, int64_t revision) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  ATOLL_ASSIGN_OR_RETURN(const int64_t tables, database.Number("SELECT count(*) FROM sqlite_schema"));
  if (application != kLedgerApplicationId && (application != 0 || tables != 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a database of another program: choose another directory"));
  }
  if (revision > kLedgerRevision) {
    return absl::FailedPreconditionError(absl::StrCat("the ledger ", path, " has format revision ", revision,
                                                      ", this program knows ", kLedgerRevision,
                                                      ": use the newer program"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareLedgerSchema(Database& database, const std::string& path) {
  ATOLL_RETURN_IF_ERROR(TakeAlone(database));
  ATOLL_ASSIGN_OR_RETURN(int64_t revision, database.Number("PRAGMA user_version"));
  ATOLL_RETURN_IF_ERROR(CheckOwner(database, path, revision));
  ATOLL_RETURN_IF_ERROR(database.Run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF;"));
  // No step gives a damaged row a checksum that fits it.
  if (revision >= kSealed && revision < kLedgerRevision) ATOLL_RETURN_IF_ERROR(CheckRows(database));
  for (; revision < kLedgerRevision; ++revision) ATOLL_RETURN_IF_ERROR(TakeStep(database, revision));
  return absl::OkStatus();
}

}  // namespace atl
