// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/participation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atl {

uint32_t MissBook::Running(FragmentIndex fragment, const WorkerId& worker) const {
  const auto it = missed_[fragment.value].find(worker);
  return it == missed_[fragment.value].end() ? 0 : it->second;
}

void MissBook::Forget(const WorkerId& worker) {
  for (auto& of_fragment : missed_) of_fragment.erase(worker);
}

uint64_t FrontOf(const VersionVector& versions) {
  uint64_t front = 0;
  for (const Version v : versions) front = std::max(front, v.value);
  return front;
}

void FragmentProgress::Recover(const VersionVector& versions, const std::vector<uint64_t>& lags) {
  const uint64_t front = FrontOf(versions);
  // Versions, unlike steps, are not claims of workers: with equal versions no fragment lags.
  for (size_t p = 0; p < front_at_.size(); ++p) {
    front_at_[p] = std::max(versions[p].value, front - std::min(front, lags[p]));
  }
}

void RemarkBook::Add(Remark remark) {
  if (newest_.size() == kMost) newest_.erase(newest_.begin());
  newest_.push_back(std::move(remark));
}

WorkerId RemarkBook::Suspect() const {
  std::map<WorkerId, size_t> counts;
  for (const Remark& remark : newest_) ++counts[remark.worker];
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(counts.begin(), counts.end(), fewer);
  return most == counts.end() ? WorkerId{} : most->first;
}

std::string RemarkBook::Line() const {
  const WorkerId suspect = Suspect();
  if (suspect.value.empty()) return "";
  const auto of_suspect = [&](const Remark& remark) { return remark.worker == suspect; };
  const auto newest = std::find_if(newest_.rbegin(), newest_.rend(), of_suspect);
  const auto count = std::count_if(newest_.begin(), newest_.end(), of_suspect);
  return absl::StrCat("look at worker ", suspect.value, " first: ", count,
                      count == 1 ? " contribution of it stood out" : " contributions of it stood out, the newest",
                      " in round ", newest->target.version.value, " of fragment ", newest->target.fragment.value, " (",
                      newest->text, ")");
}

}  // namespace atl
