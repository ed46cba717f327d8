// SPDX-License-Identifier: Apache-2.0
// Checks the invariants inside the ledger (docs/formats/ledger.md, "What holds"), and finds the
// ledger's version of every fragment.
#ifndef ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_image.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/state_paths.h"

namespace atl::audit {

// The committed versions of one fragment in one epoch: base + 1 to head. Pointers are into the image.
struct FragmentLine {
  uint64_t base = 0, head = 0;
  bool broken = false;                     // a version did not follow; later ones are left out
  std::vector<const LedgerRound*> rounds;  // the rounds that reached base + 1 to head
  // The round that reached the version; null if none did.
  const LedgerRound* Find(uint64_t version) const {
    return version > base && version <= head ? rounds[version - base - 1] : nullptr;
  }
};

struct JobStanding {
  const JobRecord* job = nullptr;
  uint64_t epoch = 0;                                           // the newest epoch
  std::map<std::pair<uint64_t, uint32_t>, FragmentLine> lines;  // by epoch and fragment
  std::map<uint64_t, const CheckpointRecord*> checkpoints;      // by step: the rows not dropped
  std::map<uint64_t, const CheckpointRecord*> started_from;     // by epoch: the checkpoint of its rollback
};

// Checks the fields of each round, and keeps the records of rounds with a segment on disk, for
// comparison with it. `state` and `report` outlive the visitor.
RoundVisitor CheckingRounds(const StateFiles& state, Report& report);

// Checks everything else in the ledger that needs no other file; ReadLedger has read the image with
// CheckingRounds. The image must outlive the result, which has one entry for each job.
std::map<JobId, JobStanding> CheckLedger(const LedgerImage& image, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_
