// SPDX-License-Identifier: Apache-2.0
// The rows of the ledger, by table. Plain values.
#ifndef ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_
#define ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store/ledger_records.h"

namespace atl::audit {

// The job has ended and its parameters were removed: any remaining files are being removed.
inline bool IsPurged(const JobRecord& job) { return HasEnded(job.state) && !job.parameters_ready; }

struct LedgerRound {
  uint64_t seq = 0;  // place in the order of commits, shared with the history
  uint64_t epoch = 0;
  FragmentVersion reached;  // the row's key
  JobId job;
  BootNumber boot;
  Digest hash, update_digest;
  std::shared_ptr<const RoundRecord> record;  // null if not kept: there may be millions
};

struct LedgerImage {
  std::string path;
  BootNumber boot;
  uint64_t next_seq = 0;
  CountersRecord counters;
  std::map<JobId, JobRecord> jobs;
  std::map<JobId, PoolRecord> pools;
  std::vector<LeaseRecord> leases;
  std::vector<WorkerRecord> workers;
  std::vector<LedgerRound> rounds;  // by seq
  LedgerHistory history;            // without the rounds
};

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_IMAGE_H_
