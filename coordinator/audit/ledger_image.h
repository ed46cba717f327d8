// SPDX-License-Identifier: Apache-2.0
// The rows of the ledger's tables, from docs/formats/ledger.md. Plain values.
#ifndef ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_
#define ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atoll/v1/record.pb.h"
#include "common/base/hash.h"

namespace atl::audit {

inline constexpr uint64_t kLastOpenState = 5;  // CLOSING; a job in a higher state has ended

struct LedgerMeta {
  uint64_t boot = 0, next_seq = 0, next_lease = 0, next_incarnation = 0, next_job_sequence = 0;
};

struct LedgerJob {
  std::string job;
  uint64_t sequence = 0, spec_revision = 0, state = 0, stop_step = 0, dataset_samples = 0, held_out_samples = 0;
  uint64_t fragments = 0, epoch = 0, next_evaluation = 0;
  bool parameters_ready = false;
  v1::StoredJobSpec spec;

  // The job has ended and nothing of it is kept: any remaining files are being removed.
  bool Purged() const { return state > kLastOpenState && !parameters_ready; }
};

struct LedgerRange {
  uint64_t first = 0, last = 0;  // half-open
};

struct LedgerPool {
  uint64_t frontier = 0, consumed = 0, abandoned = 0;
  std::vector<LedgerRange> ranges;  // returned ranges, by first
};

struct LedgerLease {
  uint64_t lease = 0, incarnation = 0, consumed_to = 0;
  std::string job, worker;
  LedgerRange range;
  bool revoked = false;
};

struct LedgerWorker {
  std::string worker, job;
  uint64_t incarnation = 0, leases_from = 0;
};

// History; `seq` is the commit order.
struct LedgerRound {
  uint64_t seq = 0, epoch = 0, version = 0;
  uint32_t fragment = 0;
  std::string job;
  uint64_t boot = 0;
  Digest hash, update_digest;
  std::shared_ptr<const v1::RoundRecord> record;  // null if not kept: there may be millions
};
struct LedgerRollback {
  uint64_t seq = 0, epoch = 0;
  std::string job;
  std::vector<uint64_t> versions;
};
struct LedgerCheckpoint {
  uint64_t seq = 0, step = 0;
  std::string job;
  bool dropped = false, complete = false;
  std::vector<uint64_t> versions;
  std::vector<Digest> hashes;
  int64_t wall_nanos = 0;
  uint64_t pool_consumed = 0, pool_frontier = 0;
};
struct LedgerEvaluation {
  uint64_t seq = 0, evaluation = 0;
  std::string job;
  std::vector<uint64_t> versions;
};

struct LedgerImage {
  std::string path;
  LedgerMeta meta;
  std::vector<LedgerJob> jobs;              // by name
  std::map<std::string, LedgerPool> pools;  // by job
  std::vector<LedgerLease> leases;          // by id
  std::vector<LedgerWorker> workers;
  std::vector<LedgerRound> rounds;  // this one and the following by seq
  std::vector<LedgerRollback> rollbacks;
  std::vector<LedgerCheckpoint> checkpoints;
  std::vector<LedgerEvaluation> evaluations;
};

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_
