// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/claims.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/saturating.h"

namespace atl {
namespace {

// A worker may leave one covered token unclaimed for each kPerUnclaimed claimed ones. An honest worker
// loses no larger part, even with non-finite steps or repeated fetches of fragments.
constexpr uint64_t kPerUnclaimed = 2;
// The fetches with lost samples that are allowed before a worker has claimed anything: its old incarnation and
// its new one may each have lost the samples of one fetch.
constexpr uint64_t kFetchesForgiven = 2;

}  // namespace

uint64_t ClaimsBook::Account::MostClaimed() const {
  uint64_t most = 0;
  for (const auto& [fragment, tokens] : claimed) most = std::max(most, tokens);
  return most;
}

void ClaimsBook::Recover(const std::vector<ClaimTotal>& totals, uint64_t slack) {
  for (const ClaimTotal& total : totals) {
    Account& account = accounts_[total.worker];
    account.incarnation = total.incarnation;
    account.claimed[total.fragment] = total.tokens;
  }
  for (auto& [worker, account] : accounts_) {
    account.covered = account.MostClaimed();
    account.slack = MulSat(slack, sequence_length_);
  }
}

uint64_t ClaimsBook::Account::Unclaimed() const {
  const uint64_t claims = MostClaimed();
  return AddSat(unclaimed, covered - std::min(covered, claims));
}

ClaimsBook::Account ClaimsBook::AccountOf(const WorkerId& worker, Incarnation incarnation) const {
  const auto it = accounts_.find(worker);
  if (it == accounts_.end()) return {.incarnation = incarnation};
  const Account& known = it->second;
  if (known.incarnation == incarnation) return known;
  const uint64_t unclaimed = known.Unclaimed();
  return {.incarnation = incarnation,
          .unclaimed = unclaimed - std::min(unclaimed, known.MostClaimed() / kPerUnclaimed)};
}

uint64_t ClaimsBook::ClaimedFor(const WorkerId& worker, Incarnation incarnation, FragmentIndex fragment) const {
  const auto it = accounts_.find(worker);
  if (it == accounts_.end() || it->second.incarnation != incarnation) return 0;
  const auto claimed = it->second.claimed.find(fragment);
  return claimed == it->second.claimed.end() ? 0 : claimed->second;
}

absl::Status ClaimsBook::Check(const ContributionHeader& header, const Coverage& coverage) const {
  const Account account = AccountOf(header.worker, header.incarnation);
  const auto it = account.claimed.find(header.target.fragment);
  const uint64_t before = it == account.claimed.end() ? 0 : it->second;
  const uint64_t covered = AddSat(account.covered, MulSat(coverage.after, sequence_length_));
  const uint64_t left = AddSat(covered, account.slack) - std::min(AddSat(covered, account.slack), before);
  if (header.tokens > left || header.steps > left / std::max<uint64_t>(1, sequence_length_)) {
    return absl::InvalidArgumentError(absl::StrCat("a contribution claims ", header.tokens, " tokens of ", header.steps,
                                                   " inner steps, but its ", "cursors cover samples of ", left,
                                                   " tokens that this worker has not claimed for the fragment ",
                                                   "yet; name every lease held, with its cursor"));
  }
  if (coverage.after <= coverage.before) return absl::OkStatus();
  const uint64_t claimed = std::max({AddSat(before, header.tokens), coverage.claimed, account.MostClaimed()});
  const uint64_t unclaimed = AddSat(account.unclaimed, covered - std::min(covered, claimed));
  const uint64_t most =
      AddSat(MulSat(coverage.allowance, MulSat(kFetchesForgiven, sequence_length_)), claimed / kPerUnclaimed);
  if (unclaimed <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the cursors of a contribution cover samples of ", unclaimed,
                                                 " tokens that this worker claims for ", "no fragment; at most ", most,
                                                 " may be: give leases back that were not trained"));
}

void ClaimsBook::Commit(const ContributionHeader& header, uint64_t samples) {
  const auto it = accounts_.find(header.worker);
  // A contribution of an earlier incarnation changes nothing: its samples belong to an earlier account.
  if (it != accounts_.end() && header.incarnation < it->second.incarnation) return;
  Account account = AccountOf(header.worker, header.incarnation);
  account.covered = AddSat(account.covered, MulSat(samples, sequence_length_));
  uint64_t& claimed = account.claimed[header.target.fragment];
  claimed = AddSat(claimed, header.tokens);
  accounts_.insert_or_assign(header.worker, std::move(account));
}

}  // namespace atl
