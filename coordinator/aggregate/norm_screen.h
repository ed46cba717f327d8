// SPDX-License-Identifier: Apache-2.0
// The norm screen compares a round's norms per inner step with the fragment's running median and the round's own
// median (docs/design.md section 6, "Screens"; a lenient form of templar's clip to the median norm of peers). A pure
// function of history and numbers: no state but NormHistory, no clock, no log. The bits depend on the compiler's
// double arithmetic, so a commit records the clip factors of its round, and a replay of the round uses them.
#ifndef ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_
#define ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/job_spec.h"

namespace atl {

constexpr size_t kNormRounds = 16;       // rounds in the running median
constexpr size_t kNormRoundsNeeded = 8;  // with fewer, the screen only reports
// The required number of contributions in the round (unless past_finished), and of workers in the running median.
// With fewer, the screen only reports a ratio up to kBeyondDoubt.
constexpr size_t kNormsNeeded = 4;
constexpr uint64_t kNormPeriods = 4;  // cap on the periods of steps by which a norm may grow
// Above this ratio a contribution is the result of a fault (a flipped exponent bit) or malice, not
// of training, however few values there are to compare with. Honest contributions differ by far
// less: at most as the first step of a learning-rate warm-up does from a whole period of it (ADR 22).
constexpr double kBeyondDoubt = 1e6;

// The norm of one contribution, as two estimates per inner step. The norm of k steps grows between sqrt(k) and k;
// each estimate uses the end of that range that favours an honest worker.
struct NormSample {
  WorkerId worker;
  double judged = 0;  // compared with the others: norm over steps, the steps taken as at least one and at most
                      // kNormPeriods whole periods, so that claiming fewer steps changes nothing, more little
  double shown = 0;   // used as reference for the others: norm / sqrt(steps x inner_steps), the least norm of a whole
                      // period at this pace; 0 without steps
};
// Requires inner_steps >= 1.
NormSample SampleOf(const WorkerId& worker, double norm, uint64_t steps, uint32_t inner_steps);

// Lower median; 0 for no values. Outliers in fewer than half of the values cannot move it beyond the others.
double LowerMedian(std::span<const double> values);

// The newest merged rounds of one fragment. Each worker counts once, with its largest `shown` value in them. So
// neither many contributions nor a round of few workers moves the median. Honest contributions of a smaller norm than
// their steps suggest (a joiner's ramp, a late merge) do not lower it.
class NormHistory {
 public:
  // `merged`: norms after clipping. `rate`: the inner learning rate of the round. A round in which
  // all `shown` values are 0 adds nothing.
  void Add(std::span<const NormSample> merged, double rate);
  size_t rounds() const { return rounds_.size(); }
  size_t workers() const;  // includes those with `shown` 0: empty contributions do not disable the screen
  // Lower median of the workers' values above 0, else 0. A value from a rate below `rate` is scaled up in proportion.
  double Median(double rate) const;

 private:
  struct Round {
    std::map<WorkerId, double> shown;
    double rate = 0;
  };
  std::deque<Round> rounds_;
};

enum class NormAction { kPass, kReport, kClip, kRefuse };
struct NormVerdict {
  NormAction action = NormAction::kPass;
  double ratio = 0;        // norm over the reference; 0 without a reference
  double clip_factor = 1;  // below 1 for kClip
};

// The reference is the larger of the running median and the round's own median, so that a change common to all
// workers is not held against any. `past_finished`: some workers have nothing more to send, so fewer than
// kNormsNeeded contributions are compared with the running median alone. With too little history or too few
// contributions, a value above kBeyondDoubt times both the running median and the lower median of the round's other
// values is still judged. In the order of `round`.
std::vector<NormVerdict> JudgeNorms(const ScreensSpec& rule, const NormHistory& history, double rate,
                                    std::span<const NormSample> round, bool past_finished = false);

// "its norm per inner step is 12.3 times the median of the fragment".
std::string NormClause(const NormVerdict& verdict);

// The inputs of the norm screen in CloseRound.
struct NormGate {
  const NormHistory& history;
  const ScreensSpec& rule;
  double rate = 0;             // inner learning rate at the job's present step
  bool past_finished = false;  // as in JudgeNorms
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_
