// What must hold inside the ledger (docs/formats/ledger.md, "What holds"), and where it says that every fragment
// stands.
#ifndef ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_image.h"

namespace atl::audit {

// The committed versions of one fragment in one epoch: base + 1 to head. Pointers are into the image.
struct FragmentLine {
  uint64_t base = 0, head = 0;
  bool broken = false;                            // a version did not follow: what is behind it is not in here
  std::map<uint64_t, const LedgerRound*> rounds;  // by the version that was reached
};

struct JobStanding {
  const LedgerJob* job = nullptr;
  uint64_t epoch = 0;                                           // the newest
  std::map<std::pair<uint64_t, uint32_t>, FragmentLine> lines;  // by epoch and fragment
  std::map<uint64_t, const LedgerCheckpoint*> checkpoints;      // by step: the rows that count
  std::map<uint64_t, const LedgerCheckpoint*> started_from;     // by epoch: the checkpoint of its rollback
};

// Checks everything that needs no other file. The image must outlive the answer.
std::map<std::string, JobStanding> CheckLedger(const LedgerImage& image, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_LEDGER_CHECKS_H_
