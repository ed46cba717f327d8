// SPDX-License-Identifier: Apache-2.0
// The norm screen: what a round's norms per inner step say against the running median of the fragment (docs/design.md
// section 6, "Screens"; templar's clip to the median norm of peers, made lenient). A function of history and numbers:
// no state but NormHistory, no clock, no log. The bits are those of one compiler's double arithmetic: a decision is
// recorded with its round (clip factor) and never made again for it.
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

constexpr size_t kNormRounds = 16;       // of which the running median knows
constexpr size_t kNormRoundsNeeded = 8;  // below it the screen only reports
// Contributions of the round, where not most have nothing more to send, and workers that the running median knows;
// likewise.
constexpr size_t kNormsNeeded = 4;
constexpr uint64_t kNormPeriods = 4;  // at most: steps behind a contribution that its norm may grow with
// Beyond it a contribution does not come of training, but of a fault (a bit of the exponent that flips) or of malice:
// how few there are to compare with does not matter. The most that honest ones can differ by is far below: a first step
// of a warm-up beside a whole period of it (ADR 22).
constexpr double kBeyondDoubt = 1e6;

// What one contribution says, for each inner step of a whole period of inner_steps. The norm of k steps grows with
// something between sqrt(k) and k; each figure takes the end that an honest worker passes by.
struct NormSample {
  WorkerId worker;
  double judged = 0;  // as it is held against the others': norm over steps, of at least one and at most kNormPeriods
                      // whole periods, so that few steps are no licence and many are a small one
  double shown = 0;   // as others are held against it: norm / sqrt(steps x inner_steps), the least that a whole period
                      // at this pace would have; 0 without steps
};
// Requires inner_steps >= 1.
NormSample SampleOf(const WorkerId& worker, double norm, uint64_t steps, uint32_t inner_steps);

// Lower median; 0 of nothing. Fewer than half of the values, however large, do not move it beyond the others.
double LowerMedian(std::span<const double> values);

// The newest committed rounds of one fragment. A worker counts once, with the most that it has shown in them: neither
// many contributions nor a round of few workers moves the median, and honest ones with less in them than their steps
// say (a joiner's ramp, a merge behind its time) do not make it small.
class NormHistory {
 public:
  // `merged`: norms after their clip. `rate`: the inner learning rate then. A round in which nobody shows anything says
  // nothing.
  void Add(std::span<const NormSample> merged, double rate);
  size_t rounds() const { return rounds_.size(); }
  size_t workers() const;  // in them, those that showed nothing too: to send nothing does not blind the screen
  // Lower median over workers, 0 without rounds. What was shown at a smaller rate than `rate` counts so much more.
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
  double ratio = 0;        // over the reference; 0 where there is none
  double clip_factor = 1;  // below 1 for kClip
};

// The reference is the larger of the running median and the round's own median, so that what changes for everybody is
// nobody's fault. `past_finished`: most have nothing more to send, so a round of few says little of what is usual, and
// those few are held against the running median alone. Where too little is known, what is kBeyondDoubt times both the
// running median and the lower median of the others of the round is judged all the same. In the order of `round`.
std::vector<NormVerdict> JudgeNorms(const ScreensSpec& rule, const NormHistory& history, double rate,
                                    std::span<const NormSample> round, bool past_finished = false);

// "its norm per inner step is 12.3 times the median of the fragment".
std::string NormClause(const NormVerdict& verdict);

// What CloseRound judges by.
struct NormGate {
  const NormHistory& history;
  const ScreensSpec& rule;
  double rate = 0;             // inner learning rate of the job's present step
  bool past_finished = false;  // as in JudgeNorms
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_AGGREGATE_NORM_SCREEN_H_
