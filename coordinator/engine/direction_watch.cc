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
                       "; they are merged all the same: look at its machine, its data and its program, or take it out "
                       "with 'atoll worker drain ",
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

std::vector<JobNote> DirectionWatch::OnRound(const RoundRecord& record, RoundMeasures& measures) {
  OfFragment& fragment = fragments_[{record.job, record.reached.fragment}];
  if (fragment.epoch != record.epoch) fragment = {.epoch = record.epoch, .windows = {}};
  std::erase_if(fragment.windows, [&](const auto& known) {
    return known.second.last.value + kDirectionMemory < record.reached.version.value;
  });
  const bool judged = measures.contributions.size() >= kDirectionWorkers;
  std::vector<JobNote> notes;
  for (ContributionMeasures& contribution : measures.contributions) {
    Window& window = fragment.windows[contribution.worker];
    window.last = record.reached.version;
    std::deque<double>& cosines = window.cosines;
    if (judged && contribution.cosine_to_others) cosines.push_back(*contribution.cosine_to_others);
    if (cosines.size() > kDirectionRounds) cosines.pop_front();
    if (cosines.empty()) continue;
    const double mean = std::accumulate(cosines.begin(), cosines.end(), 0.0) / static_cast<double>(cosines.size());
    contribution.others_mean = mean;
    contribution.against_others = cosines.size() == kDirectionRounds && mean < kAgainstCosine;
    if (mean >= kAlongCosine) window.reported = false;
    if (!contribution.against_others || window.reported) continue;
    window.reported = true;
    notes.push_back(Report(record, contribution.worker, mean));
  }
  return notes;
}

}  // namespace atl
