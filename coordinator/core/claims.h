// SPDX-License-Identifier: Apache-2.0
// Checks the claims of contributions against the samples leased for them. A worker's tokens claimed for a fragment,
// over all its committed contributions, never exceed the samples that its cursors covered (a restart adds a slack).
// Dropped, refused and missed syncs need no special rule: their samples are covered and not claimed yet. Half as many
// as claimed, and those lost in two fetches, may stay unclaimed. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_CLAIMS_H_
#define ATOLL_COORDINATOR_CORE_CLAIMS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"

namespace atl {

// The context of a contribution, in addition to its header. In samples, except `claimed`.
struct Coverage {
  uint64_t before = 0;     // by the worker's accepted, uncommitted contributions
  uint64_t after = 0;      // including this contribution
  uint64_t allowance = 0;  // samples that a worker can lose when it fetches a fragment again
  uint64_t claimed = 0;    // largest claim of the worker, in tokens, for another fragment, with accepted ones
};

class ClaimsBook {
 public:
  // `sequence_length`: tokens per sample.
  explicit ClaimsBook(uint64_t sequence_length) : sequence_length_(sequence_length) {}
  // Restores the claims at a start of the coordinator. The ledger does not hold the covered samples: they
  // are assumed to be the largest claim of any fragment, plus `slack` samples.
  void Recover(const std::vector<ClaimTotal>& totals, uint64_t slack);

  // INVALID_ARGUMENT if the header claims more steps or tokens than its cursors cover, or too few tokens.
  absl::Status Check(const ContributionHeader& header, const Coverage& coverage) const;
  // Counts a committed contribution. `samples`: the samples that it covers and no earlier one did.
  void Commit(const ContributionHeader& header, uint64_t samples);
  // The tokens that the incarnation has claimed for the fragment in committed contributions.
  uint64_t ClaimedFor(const WorkerId& worker, Incarnation incarnation, FragmentIndex fragment) const;
  void Forget(const WorkerId& worker) { accounts_.erase(worker); }
  void Clear() { accounts_.clear(); }

 private:
  struct Account {
    Incarnation incarnation;
    uint64_t covered = 0;                       // tokens of the samples consumed by its committed contributions
    uint64_t slack = 0;                         // tokens that it may have covered in addition before a start
    uint64_t unclaimed = 0;                     // of earlier incarnations, less half of their claims
    std::map<FragmentIndex, uint64_t> claimed;  // tokens
    uint64_t MostClaimed() const;
    uint64_t Unclaimed() const;
  };
  // The account of an incarnation; a new one if it has committed nothing yet.
  Account AccountOf(const WorkerId& worker, Incarnation incarnation) const;

  uint64_t sequence_length_;
  std::map<WorkerId, Account> accounts_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CLAIMS_H_
