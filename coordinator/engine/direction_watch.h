// SPDX-License-Identifier: Apache-2.0
// The direction screen: whose contributions point against those of the others. It reports and decides nothing: an
// event, a metric and a line of `job describe`, by name. Lives on the engine thread, forgets at a restart.
//
// Judged is the mean of a worker's newest kDirectionRounds cosines to what the others of the same round merge to
// without it. Two workers alone cannot be told apart, so rounds of fewer than kDirectionWorkers contributions do not
// count; where the fragment's newest kDirectionRounds rounds are of that kind, or without the worker, nothing is said
// of it. The mean of eight cosines of unrelated directions with 160 effective dimensions has a standard error of 0.03.
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
// A worker is reported again only after its mean was this high.
constexpr double kAlongCosine = 0;

// A worker that was in none of so many versions is judged anew. A broken connection alone forgets nothing.
constexpr uint64_t kDirectionMemory = 64;

constexpr char kAgainstTheOthers[] = "worker against the others";  // JobNote::kind

// "its newest 8 contributions to fragment 0 point against those of the others, with a mean cosine of -0.90"
std::string AgainstClause(FragmentIndex fragment, double mean);

class DirectionWatch {
 public:
  // A round is durable. Fills others_mean and against_others of `measures`; a note for each worker that is to be
  // reported, once until it has pointed along with the others again.
  std::vector<JobNote> OnRound(const RoundRecord& record, RoundMeasures& measures);
  void ForgetJob(const JobId& job);
  // By its newest round, of those of whom something is said.
  std::map<WorkerId, double> Means(const JobId& job, FragmentIndex fragment) const;

 private:
  struct Window {
    std::deque<double> cosines;  // newest kDirectionRounds
    bool reported = false;
    Version last, judged;  // that it was part of; the newest of those with a cosine
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
