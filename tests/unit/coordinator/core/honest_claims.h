// SPDX-License-Identifier: Apache-2.0
// The claims of an honest worker: the samples that its cursors have covered and that it has not yet
// contributed to the fragment. For tests with workers that do not train; a sample has 10 tokens
// there.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_CORE_HONEST_CLAIMS_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_CORE_HONEST_CLAIMS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <variant>

#include "common/plan/records.h"

namespace atl {

class HonestClaims {
 public:
  void Hear(const LedgerRecord& record) {
    if (const auto* lease = std::get_if<LeaseRecord>(&record)) leases_.emplace(lease->lease, *lease);
    if (const auto* back = std::get_if<RollbackRecord>(&record)) {
      std::erase_if(claimed_, [&](const auto& claim) { return std::get<0>(claim.first) == back->job; });
      std::erase_if(leases_, [&](const auto& lease) { return lease.second.job == back->job; });
    }
    const auto* round = std::get_if<RoundRecord>(&record);
    if (round == nullptr) return;
    for (const CommittedContribution& c : round->contributions)
      claimed_[{round->job, c.header.incarnation, c.header.target.fragment}] += c.header.tokens;
  }
  // Counts the contribution's cursors as reached.
  void Accepted(const ContributionHeader& header) {
    for (const LeaseCursor& c : header.cursors) reached_[c.lease] = std::max(reached_[c.lease], c.cursor);
  }
  uint64_t Samples(const ContributionHeader& header) const {
    std::map<LeaseId, uint64_t> reached = reached_;
    for (const LeaseCursor& c : header.cursors) reached[c.lease] = std::max(reached[c.lease], c.cursor);
    uint64_t trained = 0;
    for (const auto& [id, cursor] : reached) {
      const auto it = leases_.find(id);
      if (it == leases_.end() || it->second.incarnation != header.incarnation || it->second.job != header.job) continue;
      trained += std::clamp(cursor, it->second.range.begin, it->second.range.end) - it->second.range.begin;
    }
    const auto claimed = claimed_.find({header.job, header.incarnation, header.target.fragment});
    return trained - std::min(trained, claimed == claimed_.end() ? 0 : claimed->second / 10);
  }

 private:
  std::map<LeaseId, LeaseRecord> leases_;  // as granted
  std::map<LeaseId, uint64_t> reached_;
  std::map<std::tuple<JobId, Incarnation, FragmentIndex>, uint64_t> claimed_;  // tokens of committed contributions
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_CORE_HONEST_CLAIMS_H_
