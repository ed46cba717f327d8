// SPDX-License-Identifier: Apache-2.0
// The direction screen finds workers whose contributions point against those of the others. It
// decides nothing: it reports them by name in an event, a metric and a line of `job describe`.
// Lives on the engine thread; a restart clears its state.
//
// The screen takes the mean of a worker's newest kDirectionRounds cosines in a fragment. Each
// cosine is between the worker's contribution and the merge of the round's other contributions.
// With two workers, neither can be singled out, so rounds of fewer than kDirectionWorkers
// contributions give no cosine. A worker has no result while it has fewer cosines, or if none of
// the fragment's newest kDirectionRounds rounds gave it one. The mean of eight cosines of unrelated
// directions with 160 effective dimensions has a standard error of 0.03.
#ifndef ATOLL_COORDINATOR_ENGINE_DIRECTION_WATCH_H_
#define ATOLL_COORDINATOR_ENGINE_DIRECTION_WATCH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/records.h"
#include "coordinator/core/events.h"
#include "coordinator/engine/round_measures.h"

namespace atl {

constexpr size_t kDirectionRounds = 8;
constexpr size_t kDirectionWorkers = 3;
constexpr double kAgainstCosine = -0.1;
// A worker is reported again only after its mean has reached this value.
constexpr double kAlongCosine = 0;

// The screen starts over for a worker that was in none of a fragment's last kDirectionMemory
// rounds, and in each new epoch. A broken connection alone clears nothing.
constexpr uint64_t kDirectionMemory = 64;

constexpr char kAgainstTheOthers[] = "worker against the others";  // JobNote::kind

// "its newest 8 contributions to fragment 0 point against those of the others, with a mean cosine of -0.90"
std::string AgainstClause(FragmentIndex fragment, double mean);

class DirectionWatch {
 public:
  // A round is durable. Fills others_mean and against_others of `measures`. Returns a note for each
  // worker to report: one note until the worker has pointed along with the others again.
  std::vector<JobNote> OnRound(const RoundRecord& record, RoundMeasures& measures);
  void ForgetJob(const JobId& job);
  // The mean of each worker that has a result (top of this file), as of the worker's newest round.
  std::map<WorkerId, double> Means(const JobId& job, FragmentIndex fragment) const;

 private:
  struct Window {
    std::deque<double> cosines;  // newest kDirectionRounds
    bool reported = false;
    Version last, judged;  // the newest version it was part of, and the newest with a cosine
  };
  struct OfFragment {
    uint64_t epoch = 0;
    Version newest;
    std::map<WorkerId, Window> windows;
  };
  static std::optional<double> MeanOf(const OfFragment& fragment, const Window& window);

  std::map<std::pair<JobId, FragmentIndex>, OfFragment> fragments_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DIRECTION_WATCH_H_
