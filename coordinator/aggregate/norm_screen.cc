#include "coordinator/aggregate/norm_screen.h"

#include <algorithm>

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

}  // namespace

double NormPerStep(double norm, uint64_t steps, uint32_t inner_steps) {
  return norm / static_cast<double>(std::max<uint64_t>(steps, inner_steps));
}

double LowerMedian(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[(sorted.size() - 1) / 2];
}

void NormHistory::Add(std::span<const double> per_step) {
  const double median = LowerMedian(per_step);
  if (!(median > 0)) return;
  medians_.push_back(median);
  if (medians_.size() > kNormRounds) medians_.pop_front();
}

double NormHistory::Median() const { return LowerMedian(std::vector<double>(medians_.begin(), medians_.end())); }

std::vector<NormVerdict> JudgeNorms(const ScreensSpec& rule, const NormHistory& history,
                                    std::span<const double> per_step) {
  const double reference = std::max(history.Median(), LowerMedian(per_step));
  const bool knows_enough = history.rounds() >= kNormRoundsNeeded && per_step.size() >= kNormsNeeded;
  std::vector<NormVerdict> verdicts;
  verdicts.reserve(per_step.size());
  for (const double norm : per_step) verdicts.push_back(Judge(rule, knows_enough, reference, norm));
  return verdicts;
}

std::string NormClause(const NormVerdict& verdict) {
  return absl::StrFormat("its norm per inner step is %.3g times the median of the fragment", verdict.ratio);
}

}  // namespace atl
