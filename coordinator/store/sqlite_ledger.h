// SPDX-License-Identifier: Apache-2.0
// The ledger in one SQLite file: WAL, synchronous=FULL, typed tables. `application_id` marks the
// file as a ledger of Atoll; `user_version` is the revision of the format (docs/formats/ledger.md).
#ifndef ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_
#define ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/store/ledger.h"

namespace atl {

constexpr int kLedgerRevision = 1;
constexpr int kLedgerApplicationId = 0x41544C31;  // "ATL1"

// Creates the file if it does not exist, and upgrades an older revision. FailedPrecondition: a
// newer revision, another program's database, or another process has the file open. DataLoss:
// damaged.
absl::StatusOr<std::unique_ptr<Ledger>> OpenSqliteLedger(const std::string& path);

// Durably starts a new line (common/plan/boot_lines.h) in a ledger restored from a backup; `wall_s`
// is Unix time. Errors are those of OpenSqliteLedger. Leaves no write-ahead log.
absl::Status BeginLedgerLine(const std::string& path, int64_t wall_s);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_
