// SPDX-License-Identifier: Apache-2.0
// Writes decisions as rows of the ledger (docs/formats/ledger.md).
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_WRITER_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_WRITER_H_

#include <cstdint>

#include "common/plan/records.h"
#include "coordinator/store/sqlite.h"

namespace atl {

// Must run inside a transaction. `next_seq` numbers the rows of all history tables. Internal: the
// key of a history table exists with other content.
absl::Status WriteRecord(Database& database, const LedgerRecord& record, uint64_t& next_seq);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_WRITER_H_
