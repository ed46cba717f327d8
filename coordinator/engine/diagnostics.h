// SPDX-License-Identifier: Apache-2.0
// The measures of each round, for people: metrics, fields of the "round committed" line, each
// fragment's newest measures for `job describe`, and warnings from the direction screen and about
// momentum that does not fit. Decisions never read them. Lives on the engine thread.
//
// The momentum warning follows the restart criterion of accelerated gradient methods (O'Donoghue
// and Candes, 1204.3982): a pseudo-gradient that points against the momentum means that the outer
// copy overshot the workers' direction. One such round is noise. A mean over kMisfitRounds below
// kMisfitCosine is not: the mean of ten cosines of unrelated directions with 160 effective
// dimensions has a standard error of half of kMisfitCosine.
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
// A warning is repeated only after the mean has reached this value.
constexpr double kFitCosine = 0;
// The weight of a round in a worker's participation, relative to the next newer round.
constexpr double kParticipationFading = 31.0 / 32;

constexpr char kMomentumMisfit[] = "momentum does not fit";  // JobNote::kind

class Diagnostics {
 public:
  explicit Diagnostics(Metrics& metrics) : metrics_(metrics) {}

  void Heard(const WorkerId& worker, const Heartbeat& heartbeat);
  // The worker's connection ended.
  void Gone(const WorkerId& worker);

  struct Outcome {
    std::map<std::string, std::string> fields;
    std::vector<JobNote> warnings;
  };
  // A round is durable. Fills staleness, momentum_mean, upload_error and the results of the
  // direction screen in `measures`. Returns the fields of the round's event line, and warnings.
  Outcome OnRound(const RoundRecord& record, RoundMeasures& measures);

  // Drops the state of a job that ended some time ago.
  void ForgetJob(const JobId& job);

  // The share of the newest rounds that each connected worker was in, counted from its first round.
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
  // The gauges of the direction screen.
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
