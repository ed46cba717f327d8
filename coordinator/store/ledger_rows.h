// SPDX-License-Identifier: Apache-2.0
// Checksums of the ledger's rows: column `crc` of every table is row_crc (sqlite.h) of the other columns in their order
// (docs/formats/ledger.md, "Checksums").
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_

#include <string>

#include "coordinator/store/sqlite.h"

namespace atl {

// "INSERT INTO rounds VALUES (?1,...,?6,row_crc(?1,...,?6))" for ("INSERT INTO rounds", 6): Bind the six, and the row
// has its checksum.
std::string SealedInsert(const std::string& insert, int columns);

// Gives the one row of `meta` the checksum of what it holds now; every transaction that changes it ends with this.
absl::Status SealMeta(Database& database);

// The same for every row of every table. For steps between revisions.
absl::Status SealRows(Database& database);

// DataLoss names the first row that is not as it was written; also where SQLite finds its pages damaged.
absl::Status CheckRows(Database& database);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_ROWS_H_
