// SPDX-License-Identifier: Apache-2.0
// What each round measured, for people: metrics, fields of its "round committed" line, the newest of each fragment for
// `job describe`, and the warnings of the direction screen and when the momentum does not fit. Never read by a
// decision. Lives on the engine thread.
//
// The warning's rule is the restart criterion of accelerated gradient methods (O'Donoghue and Candes, 1204.3982): where
// the pseudo-gradient points against the momentum, the outer copy has been carried past where the workers pull it. One
// such round is noise; a mean over kMisfitRounds below kMisfitCosine is not: the mean of ten cosines of unrelated
// directions with 160 effective dimensions has a standard error of half of it.
#ifndef ATOLL_COORDINATOR_ENGINE_DIAGNOSTICS_H_
#define ATOLL_COORDINATOR_ENGINE_DIAGNOSTICS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/messages.h"
#include "common/plan/records.h"
#include "common/telemetry/metrics.h"
#include "coordinator/core/events.h"
#include "coordinator/engine/direction_watch.h"
#include "coordinator/engine/round_measures.h"

namespace atl {

constexpr size_t kMisfitRounds = 10;
constexpr double kMisfitCosine = -0.05;
// A warning is given again only after the mean was this high.
constexpr double kFitCosine = 0;
// What a round before the newest counts of the next in a worker's participation.
constexpr double kParticipationFading = 31.0 / 32;

constexpr char kMomentumMisfit[] = "momentum does not fit";  // JobNote::kind

class Diagnostics {
 public:
  explicit Diagnostics(Metrics& metrics) : metrics_(metrics) {}

  void Heard(const WorkerId& worker, const Heartbeat& heartbeat);
  // Its connection ended.
  void Gone(const WorkerId& worker);

  struct Outcome {
    std::map<std::string, std::string> fields;
    std::vector<JobNote> warnings;
  };
  // A round is durable. Fills the staleness and momentum_mean of `measures`, what workers said of themselves, and what
  // the direction screen sees.
  Outcome OnRound(const RoundRecord& record, RoundMeasures& measures);

  // It has ended, some time ago.
  void ForgetJob(const JobId& job);

  // Share of the newest rounds with each worker, from its first one on, while it is connected.
  std::map<WorkerId, double> Participation(const JobId& job) const;

 private:
  struct Window {
    uint64_t epoch = 0;
    std::deque<double> cosines;  // newest kMisfitRounds
    bool warned = false;
  };
  void FollowParticipation(const RoundRecord& record);
  std::optional<JobNote> FollowMomentum(const RoundRecord& record, RoundMeasures& measures);
  void SetMetrics(const RoundRecord& record, const RoundMeasures& measures);
  // The gauges of what the direction screen says.
  void ShowDirections(const RoundRecord& record);
  void HideDirections(const WorkerId& worker);
  std::map<std::string, std::string> FieldsOf(const JobId& job, const RoundMeasures& measures) const;

  Metrics& metrics_;
  DirectionWatch directions_;
  std::map<WorkerId, JobId> job_of_;
  std::map<JobId, std::map<WorkerId, double>> participation_;
  std::map<std::pair<JobId, FragmentIndex>, Window> windows_;
  std::map<std::pair<JobId, FragmentIndex>, std::set<WorkerId>> directions_shown_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DIAGNOSTICS_H_
