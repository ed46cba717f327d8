// SPDX-License-Identifier: Apache-2.0
// The ledger: all decisions of the coordinator, durable before they are published (docs/design.md
// section 7). The records of one step of the core form one transaction. One conformance test covers
// both implementations: SQLite (sqlite_ledger.h) and, in tests, memory. Thread rule: not
// thread-safe; the engine and the calls about join tokens use one serial executor.
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
  // Writes all records or none, and flushes. After any error the content on disk is unknown and the process must
  // end (I24). ResourceExhausted: the disk is full. FailedPrecondition: the file was moved or removed. Internal:
  // the disk failed, or an appended key exists (a round: with other content), which is a bug in the core.
  virtual absl::Status Commit(const std::vector<LedgerRecord>& records) = 0;
  // Increments the boot number durably and reads everything except `accepted` of the jobs, which
  // AddAccepted (round_log.h) fills. DataLoss: stored records are damaged or contradict each other.
  virtual absl::StatusOr<RecoveredState> Recover() = 0;
  // The committed rounds of a fragment that produced the versions from `after` + 1 on, ascending,
  // at most `limit`. For replay, the norm screens, checks at start and missing lines of event logs.
  virtual absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                          Version after, size_t limit) const = 0;
  // Join tokens, one row each, durable before OK. Errors mean the same as those of Commit.
  virtual absl::Status PutToken(const TokenRecord& token) = 0;
  virtual absl::Status DropToken(const std::string& id) = 0;
  // Ordered by id.
  virtual absl::StatusOr<std::vector<TokenRecord>> Tokens() const = 0;
  // Revoked names, under the same rules as join tokens.
  virtual absl::Status PutRevocation(const RevocationRecord& revocation) = 0;
  virtual absl::Status DropRevocation(const std::string& name) = 0;
  // Ordered by name.
  virtual absl::StatusOr<std::vector<RevocationRecord>> Revocations() const = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_LEDGER_H_
