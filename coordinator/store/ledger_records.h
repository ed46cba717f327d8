// SPDX-License-Identifier: Apache-2.0
// The rows of a SQLite ledger (docs/formats/ledger.md): written for decisions, read for recovery and audits. Reading
// checks each row, but not the rows against each other.
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_RECORDS_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_RECORDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/sqlite.h"

namespace atl {

// Must run inside a transaction. `next_seq` numbers the rows of all history tables. Internal: the
// key of a history table exists with other content.
absl::Status WriteRecord(Database& database, const LedgerRecord& record, uint64_t& next_seq);

// Appended records except rounds, in the order of their commits.
using LedgerHistory = std::multimap<uint64_t, LedgerRecord>;

struct LedgerRows {
  BootNumber boot;
  uint64_t next_seq = 0;
  CountersRecord counters;
  std::vector<LedgerRecord> state;     // upserted records, with the counters, except the following
  std::vector<LedgerRecord> screened;  // of rounds after all in the ledger
  LedgerHistory history;
};
// DataLoss, with the name of the row, if a row has impossible values.
absl::StatusOr<LedgerRows> ReadLedgerRows(const Database& database);

struct RoundRow {
  uint64_t seq = 0;         // in the order of commits with the history
  FragmentVersion reached;  // the row's key, which is also in the record
  RoundRecord record;
};
// Visits all rounds in the order of their commits, one at a time, because a job may have millions.
absl::Status VisitRounds(const Database& database, const std::function<absl::Status(RoundRow)>& visit);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_RECORDS_H_
