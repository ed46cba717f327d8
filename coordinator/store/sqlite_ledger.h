// SPDX-License-Identifier: Apache-2.0
// The ledger in one SQLite file: WAL, synchronous=FULL, typed tables. `application_id` says that it is a ledger of this
// project, `user_version` is the revision of the format (docs/formats/ledger.md).
#ifndef ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_
#define ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/store/ledger.h"

namespace atl {

constexpr int kLedgerRevision = 1;
constexpr int kLedgerApplicationId = 0x41544C31;  // "ATL1"

// Makes the file if needed and brings an older revision up to date. FailedPrecondition: a newer revision, another
// program's database, or a second opener of the same file. DataLoss: the file is damaged.
absl::StatusOr<std::unique_ptr<Ledger>> OpenSqliteLedger(const std::string& path);

// Makes a ledger that comes from a backup the first of a new line (common/plan/boot_lines.h), durably; `wall_s` is Unix
// time. Errors of OpenSqliteLedger. Afterwards there is no write-ahead log beside it.
absl::Status BeginLedgerLine(const std::string& path, int64_t wall_s);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SQLITE_LEDGER_H_
