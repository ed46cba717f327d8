// SPDX-License-Identifier: Apache-2.0
// The ledger: what was decided, durable before it is said (docs/design.md section 7). Records of one step are one
// transaction. Two forms: SQLite (sqlite_ledger.h) and, in tests, memory, with one conformance test. Thread rule:
// not thread-safe; the engine calls it on one serial executor.
#ifndef ATOLL_COORDINATOR_STORE_LEDGER_H_
#define ATOLL_COORDINATOR_STORE_LEDGER_H_

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/plan/records.h"
#include "common/trust/join_token.h"
#include "common/trust/revocations.h"
#include "coordinator/store/data_directory.h"

namespace atl {

class Ledger {
 public:
  virtual ~Ledger() = default;
  // All or nothing, flushed. Any error means that the process must end: what is on disk is unknown (I24).
  // ResourceExhausted when the disk is full. An append whose key exists already, with other content, is Internal: the
  // core is broken.
  virtual absl::Status Commit(const std::vector<LedgerRecord>& records) = 0;
  // Raises the boot number durably and reads everything. `accepted` of the jobs is left empty (see AddAccepted in
  // round_log.h). DataLoss when what is stored contradicts itself.
  virtual absl::StatusOr<RecoveredState> Recover() = 0;
  // The committed rounds of a fragment that reached `after` + 1 and further, ascending, at most `limit`: for replay.
  virtual absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                          Version after, size_t limit) const = 0;
  // Join tokens: one row each, durable before OK; an error means what one of Commit means.
  virtual absl::Status PutToken(const TokenRecord& token) = 0;
  virtual absl::Status DropToken(const std::string& id) = 0;
  // By id.
  virtual absl::StatusOr<std::vector<TokenRecord>> Tokens() const = 0;
  // Revoked names, in the same way.
  virtual absl::Status PutRevocation(const RevocationRecord& revocation) = 0;
  virtual absl::Status DropRevocation(const std::string& name) = 0;
  // By name.
  virtual absl::StatusOr<std::vector<RevocationRecord>> Revocations() const = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_H_
