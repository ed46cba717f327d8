// SPDX-License-Identifier: Apache-2.0
// The tables of the ledger (docs/formats/ledger.md) and the upgrades from one revision of the
// format to the next.
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_

#include <span>
#include <string>

#include "coordinator/store/sqlite.h"

namespace atl {

// Locks the database exclusively and brings it to revision kLedgerRevision: creates the tables of a
// new file or upgrades an older revision. FailedPrecondition: a newer revision, another program's
// database, or another process has it open.
absl::Status PrepareLedgerSchema(Database& database, const std::string& path);

// Does the same as PrepareLedgerSchema with the given upgrades: the SQL of steps[r] leads from revision
// r to r + 1, each in one transaction. After each step every row gets its checksum; the last column of
// a table must be `crc`. DataLoss before the first step: a row of the older revision is damaged.
absl::Status PrepareSchema(Database& database, const std::string& path, std::span<const char* const> steps);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_
