// The norm screen: what a round's norms per inner step say against the running median of the fragment (design section
// 6, "Screens"; templar's clip to the median norm of peers, made lenient). A function of history and numbers: no state
// but NormHistory, no clock, no log. The bits are those of one compiler's double arithmetic: a decision is recorded
// with its round (clip factor) and never made again for it.
#ifndef ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_
#define ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "common/plan/job_spec.h"

namespace atl {

constexpr size_t kNormRounds = 16;       // whose medians make up the running median
constexpr size_t kNormRoundsNeeded = 8;  // below it the screen only reports
constexpr size_t kNormsNeeded = 4;       // contributions of the round; likewise

// Norm for each inner step. A contribution of fewer steps than the period counts as one of a whole period: norms grow
// slower than steps, so an honest short one would look large otherwise. Requires inner_steps >= 1.
double NormPerStep(double norm, uint64_t steps, uint32_t inner_steps);

// Lower median; 0 of nothing. Fewer than half of the values, however large, do not move it beyond the others.
double LowerMedian(std::span<const double> values);

// The newest committed rounds of one fragment, by the median of what each merged: a few large contributions move it
// little, whichever round they are in.
class NormHistory {
 public:
  // `per_step`: of the merged contributions, after their clip. A round without contributions, or of norm 0, says
  // nothing.
  void Add(std::span<const double> per_step);
  size_t rounds() const { return medians_.size(); }
  double Median() const;  // 0 without rounds

 private:
  std::deque<double> medians_;
};

enum class NormAction { kPass, kReport, kClip, kRefuse };
struct NormVerdict {
  NormAction action = NormAction::kPass;
  double ratio = 0;        // over the reference; 0 where there is none
  double clip_factor = 1;  // below 1 for kClip
};

// The reference is the larger of the running median and the round's own median, so that what changes for everybody (a
// warm-up, a new learning rate) is nobody's fault. In the order of `per_step`.
std::vector<NormVerdict> JudgeNorms(const ScreensSpec& rule, const NormHistory& history,
                                    std::span<const double> per_step);

// "its norm per inner step is 12.3 times the median of the fragment".
std::string NormClause(const NormVerdict& verdict);

// What CloseRound judges by.
struct NormGate {
  const NormHistory& history;
  const ScreensSpec& rule;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_
