// SPDX-License-Identifier: Apache-2.0
// What must hold inside the ledger (docs/formats/ledger.md, "What holds"), and where it says that every fragment
// stands.
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
  bool broken = false;                     // a version did not follow: what is behind it is not in here
  std::vector<const LedgerRound*> rounds;  // that reached base + 1 to head
  // The one that reached the version; null: none has.
  const LedgerRound* Find(uint64_t version) const {
    return version > base && version <= head ? rounds[version - base - 1] : nullptr;
  }
};

struct JobStanding {
  const LedgerJob* job = nullptr;
  uint64_t epoch = 0;                                           // the newest
  std::map<std::pair<uint64_t, uint32_t>, FragmentLine> lines;  // by epoch and fragment
  std::map<uint64_t, const LedgerCheckpoint*> checkpoints;      // by step: the rows that count
  std::map<uint64_t, const LedgerCheckpoint*> started_from;     // by epoch: the checkpoint of its rollback
};

// Checks what a round says of itself, and keeps the records of those of which a segment is on disk, to be compared with
// it. `state` and `report` outlive the visitor.
RoundVisitor CheckingRounds(const StateFiles& state, Report& report);

// Checks all else that needs no other file, of an image that was read with CheckingRounds. It must outlive the answer.
std::map<std::string, JobStanding> CheckLedger(const LedgerImage& image, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_
