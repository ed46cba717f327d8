// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/round_loss.h"

#include <algorithm>

namespace atl {

int64_t MostLossCountedMicro(const RoundRecord& record) {
  std::vector<int64_t> claimed;
  for (const CommittedContribution& c : record.contributions) claimed.push_back(c.header.mean_loss_micro);
  if (claimed.empty()) return kUnremarkableLossMicro;
  const auto middle = claimed.begin() + static_cast<std::ptrdiff_t>((claimed.size() - 1) / 2);
  std::nth_element(claimed.begin(), middle, claimed.end());
  return std::max(kUnremarkableLossMicro, 2 * *middle);
}

std::vector<WorkerId> LossesBounded(const RoundRecord& record) {
  const int64_t most = MostLossCountedMicro(record);
  std::vector<WorkerId> bounded;
  for (const CommittedContribution& c : record.contributions) {
    if (c.header.mean_loss_micro > most) bounded.push_back(c.header.worker);
  }
  return bounded;
}

}  // namespace atl
