// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/screens.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atl {

uint32_t StrikeBook::Strike(const WorkerId& worker, FragmentIndex fragment, const std::string& why) {
  Strikes& strikes = strikes_[worker][fragment];
  strikes.newest = why;
  return ++strikes.running;
}

void StrikeBook::Clear(const WorkerId& worker, FragmentIndex fragment) {
  const auto of_worker = strikes_.find(worker);
  if (of_worker == strikes_.end()) return;
  of_worker->second.erase(fragment);
  if (of_worker->second.empty()) strikes_.erase(of_worker);
}

uint32_t StrikeBook::Running(const WorkerId& worker, FragmentIndex fragment) const {
  const auto of_worker = strikes_.find(worker);
  if (of_worker == strikes_.end()) return 0;
  const auto of_fragment = of_worker->second.find(fragment);
  return of_fragment == of_worker->second.end() ? 0 : of_fragment->second.running;
}

std::string StrikeBook::LineOf(const WorkerId& worker, uint32_t limit) const {
  const auto of_worker = strikes_.find(worker);
  if (of_worker == strikes_.end()) return "";
  const auto fewer = [](const auto& a, const auto& b) { return a.second.running < b.second.running; };
  const auto& [fragment, strikes] = *std::max_element(of_worker->second.begin(), of_worker->second.end(), fewer);
  return absl::StrCat(strikes.running, strikes.running == 1 ? " strike" : " strikes", " in fragment ", fragment.value,
                      limit == 0 ? "" : absl::StrCat(" (quarantined at ", limit, ")"),
                      ", the newest: ", strikes.newest);
}

std::string QuarantineLine(const WorkerRecord& worker) {
  const std::string& id = worker.worker.value;
  return absl::StrCat("worker ", id, " is quarantined, since ", worker.quarantine,
                      "; look at its machine, then 'atoll worker readmit ", id, "'");
}

}  // namespace atl
