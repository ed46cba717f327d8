// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/norm_screen.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

namespace atl {
namespace {

NormVerdict Judge(const ScreensSpec& rule, bool knows_enough, double reference, double per_step) {
  NormVerdict verdict;
  if (!(reference > 0)) return verdict;
  verdict.ratio = per_step / reference;
  if (!(verdict.ratio > rule.clip_above)) return verdict;
  if (!knows_enough || rule.norm == ScreenMode::kReport) {
    verdict.action = NormAction::kReport;
  } else if (rule.norm == ScreenMode::kEnforce && verdict.ratio > rule.refuse_above) {
    verdict.action = NormAction::kRefuse;
  } else {
    verdict.action = NormAction::kClip;
    verdict.clip_factor = rule.clip_above / verdict.ratio;
  }
  return verdict;
}

// The lower median of `ascending` without one element equal to `value`, which it contains; 0 if
// nothing else remains.
double LowerMedianWithout(std::span<const double> ascending, double value) {
  if (ascending.size() < 2) return 0;
  const size_t middle = (ascending.size() - 2) / 2;
  return value > ascending[middle] ? ascending[middle] : ascending[middle + 1];
}

}  // namespace

NormSample SampleOf(const WorkerId& worker, double norm, uint64_t steps, uint32_t inner_steps) {
  const uint64_t counted = std::clamp<uint64_t>(steps, inner_steps, kNormPeriods * inner_steps);
  NormSample sample{worker, norm / static_cast<double>(counted), 0};
  if (steps > 0) sample.shown = norm / std::sqrt(static_cast<double>(steps) * inner_steps);
  return sample;
}

double LowerMedian(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

void NormHistory::Add(std::span<const NormSample> merged, double rate) {
  Round round{.shown = {}, .rate = rate};
  double most = 0;
  for (const NormSample& sample : merged) {
    round.shown[sample.worker] = sample.shown;
    most = std::max(most, sample.shown);
  }
  if (!(most > 0)) return;
  rounds_.push_back(std::move(round));
  if (rounds_.size() > kNormRounds) rounds_.pop_front();
}

size_t NormHistory::workers() const {
  std::set<WorkerId> known;
  for (const Round& round : rounds_) {
    for (const auto& [worker, shown] : round.shown) known.insert(worker);
  }
  return known.size();
}

double NormHistory::Median(double rate) const {
  std::map<WorkerId, double> most;
  for (const Round& round : rounds_) {
    const double grown = round.rate > 0 ? std::max(1.0, rate / round.rate) : 1.0;
    for (const auto& [worker, shown] : round.shown) most[worker] = std::max(most[worker], shown * grown);
  }
  std::vector<double> values;
  values.reserve(most.size());
  for (const auto& [worker, shown] : most) {
    if (shown > 0) values.push_back(shown);
  }
  return LowerMedian(values);
}

std::vector<NormVerdict> JudgeNorms(const ScreensSpec& rule, const NormHistory& history, double rate,
                                    std::span<const NormSample> round, bool past_finished) {
  std::vector<double> shown;
  shown.reserve(round.size());
  for (const NormSample& sample : round) shown.push_back(sample.shown);
  std::sort(shown.begin(), shown.end());
  const bool history_knows = history.rounds() >= kNormRoundsNeeded && history.workers() >= kNormsNeeded;
  const bool alone = past_finished && history_knows && round.size() < kNormsNeeded;
  const double running = history.Median(rate);
  const double reference = alone ? running : std::max(running, LowerMedian(shown));
  const bool knows_enough = alone || (history_knows && round.size() >= kNormsNeeded);
  std::vector<NormVerdict> verdicts;
  verdicts.reserve(round.size());
  for (const NormSample& sample : round) {
    const double others = std::max(running, LowerMedianWithout(shown, sample.shown));
    const bool beyond_doubt = others > 0 && sample.judged > kBeyondDoubt * others;
    verdicts.push_back(Judge(rule, knows_enough || beyond_doubt, beyond_doubt ? others : reference, sample.judged));
  }
  return verdicts;
}

std::string NormClause(const NormVerdict& verdict) {
  return absl::StrFormat("its norm per inner step is %.3g times the median of the fragment", verdict.ratio);
}

}  // namespace atl
