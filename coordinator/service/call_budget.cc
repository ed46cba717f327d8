// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/call_budget.h"

#include <algorithm>

namespace atl {

bool CallBudget::Take(const std::string& caller, Instant now) {
  constexpr size_t kMost = 1024;  // above it, full budgets are dropped
  if (whole_at_.size() >= kMost) std::erase_if(whole_at_, [now](const auto& of) { return of.second <= now; });
  const Instant whole_at = std::max(whole_at_[caller], now) + limits_.every;
  if (whole_at > now + limits_.every * limits_.at_once) return false;
  whole_at_[caller] = whole_at;
  return true;
}

}  // namespace atl
