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

// Writes one record, inside a transaction of the caller. `next_seq` is the number of the next row of any history
// table, and grows with each such row. Internal: the round exists with other content, or the evaluation exists.
absl::Status WriteRecord(Database& database, const LedgerRecord& record, uint64_t& next_seq);

// Appended records except rounds, in the order of their commits.
using LedgerHistory = std::multimap<uint64_t, LedgerRecord>;

struct LedgerRows {
  BootNumber boot;
  uint64_t next_seq = 0;
  CountersRecord counters;
  std::vector<LedgerRecord> state;     // upserted records and the counters, but not `screened`
  std::vector<LedgerRecord> screened;  // of rounds that are not committed: to be folded after the history
  LedgerHistory history;
};
// Reads all rows but those of rounds. DataLoss if a row has impossible values; the message names it if it is a job.
absl::StatusOr<LedgerRows> ReadLedgerRows(const Database& database);

struct RoundRow {
  uint64_t seq = 0;         // the order of commits, counted together with the rows of LedgerHistory
  FragmentVersion reached;  // the row's key, which is also in the record
  RoundRecord record;
};
// Visits all rounds in the order of their commits until `visit` fails; one at a time: a job may have millions.
absl::Status VisitRounds(const Database& database, const std::function<absl::Status(RoundRow)>& visit);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_RECORDS_H_
