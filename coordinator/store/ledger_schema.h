// SPDX-License-Identifier: Apache-2.0
// The tables of the ledger (docs/formats/ledger.md) and the steps from one revision of the format to the next.
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_

#include <string>

#include "coordinator/store/sqlite.h"

namespace atl {

// Takes the database for this process alone, refuses what is not a ledger of ours or a newer one, makes the tables of a
// new file, and brings an older one up to date, one revision at a time, each in one transaction.
absl::Status PrepareLedgerSchema(Database& database, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_SCHEMA_H_
