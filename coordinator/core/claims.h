// SPDX-License-Identifier: Apache-2.0
// Holds a contribution's claims against the samples that were leased for it: the tokens that a worker has claimed for a
// fragment, all its committed contributions together, are never more than the samples that its cursors have covered.
// So syncs that were dropped, refused or missed need no rule of their own: their samples are covered and not claimed
// yet. The other way round, samples that are covered must be claimed, but for a part (see Check). Pure; owned by the
// engine thread.
#ifndef ATOLL_COORDINATOR_CORE_CLAIMS_H_
#define ATOLL_COORDINATOR_CORE_CLAIMS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"

namespace atl {

// What is known of a contribution besides its header. Counted in samples.
struct Coverage {
  uint64_t before = 0;     // covered by the worker's accepted contributions that are not committed yet
  uint64_t after = 0;      // the same with this one
  uint64_t allowance = 0;  // samples that may be covered and not claimed, for a fragment that was fetched again
  uint64_t claimed = 0;    // the most tokens that the worker claims for another fragment, with what is accepted there
};

class ClaimsBook {
 public:
  // `sequence_length`: tokens of a sample.
  explicit ClaimsBook(uint64_t sequence_length) : sequence_length_(sequence_length) {}
  // The totals of a start. What was covered is not in the ledger: it is taken as what was claimed for the fragment with
  // the most, and `slack` samples.
  void Recover(const std::vector<ClaimTotal>& totals, uint64_t slack);

  // INVALID_ARGUMENT where more steps or tokens are claimed than the cursors cover, or too few.
  absl::Status Check(const ContributionHeader& header, const Coverage& coverage) const;
  // The contribution is committed, and is the first that covers so many samples.
  void Commit(const ContributionHeader& header, uint64_t samples);
  // Tokens that the incarnation has claimed for the fragment in committed contributions.
  uint64_t ClaimedFor(const WorkerId& worker, Incarnation incarnation, FragmentIndex fragment) const;
  void Forget(const WorkerId& worker) { accounts_.erase(worker); }
  void Clear() { accounts_.clear(); }

 private:
  struct Account {
    Incarnation incarnation;
    uint64_t covered = 0;                       // tokens of the samples that its committed contributions consumed
    uint64_t slack = 0;                         // tokens that it may have covered beyond those, before a start
    uint64_t unclaimed = 0;                     // of earlier incarnations: beyond what Check allows them
    std::map<FragmentIndex, uint64_t> claimed;  // tokens
    uint64_t MostClaimed() const;
    uint64_t Unclaimed() const;
  };
  // As the incarnation begins, where it has committed nothing yet.
  Account AccountOf(const WorkerId& worker, Incarnation incarnation) const;

  uint64_t sequence_length_;
  std::map<WorkerId, Account> accounts_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CLAIMS_H_
