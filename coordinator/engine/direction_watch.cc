// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/direction_watch.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atl {
namespace {

JobNote Report(const RoundRecord& record, const WorkerId& worker, double mean) {
  return {record.job,
          kAgainstTheOthers,
          absl::StrCat("worker ", worker.value, ": ", AgainstClause(record.reached.fragment, mean),
                       "; they are merged anyway: check its machine, its data and its program, or remove it with "
                       "'atoll worker drain ",
                       worker.value, "'"),
          {{"worker", worker.value},
           {"fragment", absl::StrCat(record.reached.fragment.value)},
           {"version", absl::StrCat(record.reached.version.value)},
           {"mean_cosine_to_others", absl::StrFormat("%.4f", mean)}}};
}

}  // namespace

std::string AgainstClause(FragmentIndex fragment, double mean) {
  return absl::StrFormat(
      "its newest %d contributions to fragment %d point against those of the others, with a mean cosine of %.2f",
      kDirectionRounds, fragment.value, mean);
}

std::optional<double> DirectionWatch::MeanOf(const OfFragment& fragment, const Window& window) {
  const bool stale = window.judged.value + kDirectionRounds <= fragment.newest.value;
  if (stale || window.cosines.size() < kDirectionRounds) return std::nullopt;
  return std::accumulate(window.cosines.begin(), window.cosines.end(), 0.0) / kDirectionRounds;
}

std::map<WorkerId, double> DirectionWatch::Means(const JobId& job, FragmentIndex fragment) const {
  std::map<WorkerId, double> means;
  const auto known = fragments_.find({job, fragment});
  if (known == fragments_.end()) return means;
  for (const auto& [worker, window] : known->second.windows) {
    if (const std::optional<double> mean = MeanOf(known->second, window)) means[worker] = *mean;
  }
  return means;
}

std::vector<JobNote> DirectionWatch::OnRound(const RoundRecord& record, RoundMeasures& measures) {
  OfFragment& fragment = fragments_[{record.job, record.reached.fragment}];
  if (fragment.epoch != record.epoch) fragment = {.epoch = record.epoch, .newest = {}, .windows = {}};
  fragment.newest = record.reached.version;
  std::erase_if(fragment.windows, [&](const auto& known) {
    return known.second.last.value + kDirectionMemory < record.reached.version.value;
  });
  const bool judged = measures.contributions.size() >= kDirectionWorkers;
  std::vector<JobNote> notes;
  for (ContributionMeasures& contribution : measures.contributions) {
    Window& window = fragment.windows[contribution.worker];
    window.last = record.reached.version;
    if (judged && contribution.cosine_to_others) {
      window.judged = record.reached.version;
      window.cosines.push_back(*contribution.cosine_to_others);
    }
    if (window.cosines.size() > kDirectionRounds) window.cosines.pop_front();
    const std::optional<double> mean = MeanOf(fragment, window);
    if (!mean) continue;
    contribution.others_mean = mean;
    contribution.against_others = *mean < kAgainstCosine;
    if (*mean >= kAlongCosine) window.reported = false;
    if (!contribution.against_others || window.reported) continue;
    window.reported = true;
    notes.push_back(Report(record, contribution.worker, *mean));
  }
  return notes;
}

void DirectionWatch::ForgetJob(const JobId& job) {
  std::erase_if(fragments_, [&job](const auto& of) { return of.first.first == job; });
}

}  // namespace atl
