// SPDX-License-Identifier: Apache-2.0
// Checksums of the ledger's rows: column `crc` of every table is row_crc (sqlite.h) of the other
// columns in their order (docs/formats/ledger.md, "Checksums").
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_

#include <string>
#include <vector>

#include "coordinator/store/sqlite.h"

namespace atl {

// Returns "INSERT INTO rounds VALUES (?1,...,?6,row_crc(?1,...,?6))" for ("INSERT INTO rounds", 6).
// Bind the six values, and SQLite computes the row's checksum.
std::string SealedInsert(const std::string& insert, int columns);

// Updates the checksum of the one row of `meta`. Every transaction that changes that row ends with
// this call.
absl::Status SealMeta(Database& database);

// Updates the checksum of every row of every table. For the upgrades between revisions.
absl::Status SealRows(Database& database);

// DataLoss with the name of the first row whose checksum differs; also if SQLite finds damaged
// pages. Internal: a page cannot be read.
absl::Status CheckRows(Database& database);
// All damaged rows of readable pages, each as a clause with table and key.
absl::StatusOr<std::vector<std::string>> FindDamagedRows(const Database& database);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_
