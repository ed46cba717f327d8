// SPDX-License-Identifier: Apache-2.0
// What people see of the engine: log lines, the event log, metrics, curves. Fed by the engine at each event and commit;
// nothing here is read by a decision. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_OBSERVER_H_
#define ATOLL_COORDINATOR_ENGINE_OBSERVER_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/telemetry/event_log.h"
#include "common/telemetry/metrics.h"
#include "coordinator/core/core.h"
#include "coordinator/engine/clock_rate.h"
#include "coordinator/engine/diagnostics.h"
#include "coordinator/engine/history.h"
#include "coordinator/engine/job_data.h"
#include "coordinator/engine/refusal_notes.h"
#include "coordinator/store/ledger.h"

namespace atl {

struct JobGlance;

class Observer {
 public:
  Observer(History& history, EventLog& events, Metrics& metrics, Log& log, Clock& clock)
      : history_(history), events_(events), metrics_(metrics), log_(log), clock_(clock), diagnostics_(metrics) {}

  // Reads curves and accounts of the jobs back from the event log, and writes the lines of merges that the ledger has
  // and the log lacks: a crash may come between the commit and its line. Of a long log that tells of the job's end,
  // only that end. Sets the gauges of newest commits and checkpoints. Blocking; before any other call.
  // `post` brings work to the engine thread, from any other.
  void Recover(const RecoveredState& recovered, const Ledger& ledger, std::function<void(std::function<void()>)> post);
  // Calls `then` once all that is kept of the job's past is in the history: at once, unless the job has ended before
  // the start and nobody has asked yet.
  void WithPast(const JobId& job, std::function<void()> then);
  // The core has taken the worker in on this connection.
  void Connected(ConnectionId connection, const WorkerId& worker);
  void Disconnected(ConnectionId connection);
  std::optional<ConnectionId> ConnectionOf(const WorkerId& worker) const;
  void Heard(ConnectionId connection, const Heartbeat& heartbeat);
  // A round is durable now.
  void OnRound(const RoundRecord& record, RoundMeasures measures);
  // These records are durable now; rounds among them come through OnRound.
  void Committed(const std::vector<LedgerRecord>& records);
  void Note(const JobNote& note);
  // A contribution.
  void Refused(const JobId& job, const WorkerId& worker, const absl::Status& status);
  void Uploaded(const JobId& job, const WorkerId& worker, uint64_t bytes);
  // Of a job that there is.
  void Downloaded(const JobId& job, const WorkerId& worker, const std::string& kind, uint64_t bytes);
  // Sets the gauges; at most once a second.
  void Publish(const Core& core, Instant now);
  Instant NextPublish() const { return next_publish_; }
  // Of a job that runs; before its first round has closed, how long one takes is not known. Publish tells of all jobs.
  void NoteClock(const JobView& view, Instant now);
  // Inner steps a second on the job clock; 0: not known.
  double StepsPerSecond(const JobView& view, Instant now) const;

 private:
  // Versions whose merge the log holds, by epoch and fragment.
  using LoggedVersions = std::map<std::pair<uint64_t, FragmentIndex>, std::set<uint64_t>>;
  void RecoverTimes(const RecoveredJob& job);
  // Unix nanoseconds for the gauges of the newest commit and checkpoint of a job that has none there; checkpoint 0: the
  // job wants none, and has no gauge of them.
  void BeginTimes(const JobId& job, int64_t round, int64_t checkpoint);
  struct Past;                     // reading_back.cc
  Past ReadLog(const JobId& job);  // all of it; its history is adopted
  // The end of it, with a line that says so: the job has reached `state`. False where it does not, and nothing is
  // taken.
  bool ReadEnd(const JobId& job, const std::string& state);
  void WarnUnread(const JobId& job, const absl::Status& why) const;
  void WriteMissing(const RecoveredJob& job, const LoggedVersions& logged, const Ledger& ledger);
  void WriteFromLedger(const RoundRecord& record, bool newest);
  void WriteMissingEnd(const JobRecord& job);  // the line that says it
  void OnEvaluation(const EvaluationRecord& record);
  void DropPointsAfter(const JobId& job, uint64_t step);
  void AddPoint(const JobId& job, const std::string& curve, uint64_t step, double value);
  // The accounts that have grown since the job's line before.
  std::vector<LoggedTransfer> TransfersToLog(const JobId& job);
  void Write(const JobId& job, const EventLine& line);
  // Into the history and the log, with what the job has moved so far.
  void Add(const JobId& job, EventLine line);
  // The same of what the ledger knows and the log lacks.
  void AddFromLedger(JobNote note, int64_t wall_nanos);
  void PublishAge(const WorkerView& worker);
  // What is kept for the rounds of a job that has no more.
  void ForgetJob(const JobId& job);

  struct Moved {
    std::set<WorkerId> workers;  // with transfers that no line has told
    WorkerId last;               // told
  };

  History& history_;
  EventLog& events_;
  Metrics& metrics_;
  Log& log_;
  Clock& clock_;
  std::map<ConnectionId, WorkerId> worker_of_;
  std::map<WorkerId, ConnectionId> connection_of_;
  std::map<WorkerId, Instant> heartbeat_at_;                  // of those who are connected: when their newest came
  std::map<JobId, std::vector<LoggedPoint>> pending_points_;  // for the next event line of the job
  std::map<JobId, Moved> moved_;
  // What was measured of the newest rounds, for their "round committed" lines, oldest first.
  std::map<JobId, std::deque<std::map<std::string, std::string>>> round_fields_;
  std::map<JobId, std::deque<std::map<std::string, std::string>>> evaluation_fields_;
  std::map<std::pair<JobId, FragmentIndex>, Instant> last_round_;
  std::map<JobId, ClockRate> clock_rates_;
  std::set<JobId> rounds_timed_, checkpoints_timed_;  // jobs with a gauge of the newest one, or that ended with it
  std::set<JobId> shown_;                             // jobs with gauges of their workers
  std::map<JobId, Instant> ended_;                    // jobs whose series go an hour later
  std::set<WorkerId> lost_shown_;                     // workers with a gauge although they are lost
  Instant next_publish_;
  Diagnostics diagnostics_;
  RefusalNotes refusals_;
  // Jobs of whose logs the end alone was read, and who waits for the rest.
  std::map<JobId, std::vector<std::function<void()>>> unread_;
  std::function<void(std::function<void()>)> post_;
  std::map<JobId, std::deque<JobNote>> warnings_;  // to follow the next "round committed" line of the job
};

// Fills tokens_per_second and seconds_left.
void ObserveRates(JobGlance& glance, Instant now, const Observer& observer);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_OBSERVER_H_
