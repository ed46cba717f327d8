// SPDX-License-Identifier: Apache-2.0
// What people see of the engine: log lines, event log, metrics, curves. The engine feeds it at each
// event and commit. Decisions never read it. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_OBSERVER_H_
#define ATOLL_COORDINATOR_ENGINE_OBSERVER_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/line_rate.h"
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

  // Restores curves and accounts from the event logs, and writes the "round committed" lines of rounds that
  // the ledger has and a log lacks (after a crash between commit and line). Of a long log that shows
  // the job's end, reads only the end. Sets the gauges of newest commits and checkpoints. Blocking;
  // call before any other method. `post` runs work on the engine thread, from any thread.
  void Recover(const RecoveredState& recovered, const Ledger& ledger, std::function<void(std::function<void()>)> post);
  // Calls `then` once the history holds the job's complete past: at once, unless the log of a job
  // that ended before the start must still be read. Also calls it if the log cannot be read.
  void WithPast(const JobId& job, std::function<void()> then);
  // The core accepted the worker on this connection.
  void Connected(ConnectionId connection, const WorkerId& worker);
  void Disconnected(ConnectionId connection);
  std::optional<ConnectionId> ConnectionOf(const WorkerId& worker) const;
  void Heard(ConnectionId connection, const Heartbeat& heartbeat);
  // A round became durable.
  void OnRound(const RoundRecord& record, RoundMeasures measures);
  // These records became durable. Rounds among them are reported through OnRound.
  void Committed(const std::vector<LedgerRecord>& records);
  void Note(const JobNote& note);
  // The coordinator refused a contribution.
  void Refused(const JobId& job, const WorkerId& worker, const absl::Status& status);
  void Uploaded(const JobId& job, const WorkerId& worker, uint64_t bytes);
  // The job must exist.
  void Downloaded(const JobId& job, const WorkerId& worker, const std::string& kind, uint64_t bytes);
  // Updates the gauges, at most once a second.
  void Publish(const Core& core, Instant now);
  Instant NextPublish() const { return next_publish_; }
  // Notes the job clock for StepsPerSecond; a job counts as running from its first committed round
  // on. Publish calls this for every job that gets gauges.
  void NoteClock(const JobView& view, Instant now);
  // Inner steps per second of the job clock; 0 if unknown.
  double StepsPerSecond(const JobView& view, Instant now) const;

 private:
  // Versions with a "round committed" line in the log, by epoch and fragment.
  using LoggedVersions = std::map<std::pair<uint64_t, FragmentIndex>, std::set<uint64_t>>;
  void RecoverTimes(const RecoveredJob& job);
  // Sets a job's gauges of the newest commit and checkpoint to these Unix nanoseconds, unless they
  // are set. `checkpoint` 0: the job makes no checkpoints; its gauge of them, if any, is removed.
  void BeginTimes(const JobId& job, int64_t round, int64_t checkpoint);
  struct Past;                     // reading_back.cc
  Past ReadLog(const JobId& job);  // the whole log; adopts its history
  // Reads and adopts the end of the log, which must hold a line that the job reached `state`. False, with
  // nothing adopted: there is no such line, or that end is the whole log of a job, or it cannot be read.
  bool ReadEnd(const JobId& job, const std::string& state);
  void WarnUnread(const JobId& job, const absl::Status& why) const;
  void WriteMissing(const RecoveredJob& job, const LoggedVersions& logged, const Ledger& ledger);
  void WriteFromLedger(const RoundRecord& record, bool newest);
  void WriteMissingEnd(const JobRecord& job);  // the line of the job's end
  void OnEvaluation(const EvaluationRecord& record);
  void DropPointsAfter(const JobId& job, uint64_t step);
  void AddPoint(const JobId& job, const std::string& curve, uint64_t step, double value);
  // The byte accounts that grew since the job's previous line, of at most kTransfersInLine workers.
  std::vector<LoggedTransfer> TransfersToLog(const JobId& job);
  void Write(const JobId& job, const EventLine& line);
  // Adds the line to the history and the log, with its revision and the bytes transferred so far.
  void Add(const JobId& job, EventLine line);
  // Adds a line for a fact that the ledger has and the log lacks, with the field kFromLedgerField.
  void AddFromLedger(JobNote note, int64_t wall_nanos);
  void PublishAge(const WorkerView& worker);
  // Drops the metrics of an ended job and the state kept for its rounds.
  void ForgetJob(const JobId& job);

  struct Moved {
    std::set<WorkerId> workers;  // with transfers that are not in a line yet
    WorkerId last;               // newest one in a line
  };

  History& history_;
  EventLog& events_;
  Metrics& metrics_;
  Log& log_;
  Clock& clock_;
  std::map<ConnectionId, WorkerId> worker_of_;
  std::map<WorkerId, ConnectionId> connection_of_;
  std::map<WorkerId, Instant> heartbeat_at_;                  // newest heartbeat of each connected worker
  std::map<JobId, std::vector<LoggedPoint>> pending_points_;  // for the next event line of the job
  std::map<JobId, Moved> moved_;
  // Fields of durable rounds, for their "round committed" lines that are not written yet, oldest first.
  std::map<JobId, std::deque<std::map<std::string, std::string>>> round_fields_;
  std::map<JobId, std::deque<std::map<std::string, std::string>>> evaluation_fields_;
  std::map<std::pair<JobId, FragmentIndex>, Instant> last_round_;
  std::map<JobId, ClockRate> clock_rates_;
  std::set<JobId> rounds_timed_, checkpoints_timed_;  // jobs with a gauge of the newest one; ended ones too
  std::set<JobId> shown_;                             // jobs with gauges of their workers
  std::map<JobId, Instant> ended_;                    // end of each job whose series are removed an hour later
  std::set<WorkerId> lost_shown_;                     // lost workers that still have a gauge
  Instant next_publish_;
  Diagnostics diagnostics_;
  RefusalNotes refusals_;
  std::map<WorkerId, LineRate> at_will_;  // of notes that the worker can cause with each of its messages
  // Jobs with only the end of their log read, and the callers that wait for the rest.
  std::map<JobId, std::vector<std::function<void()>>> unread_;
  std::function<void(std::function<void()>)> post_;
  std::map<JobId, std::deque<JobNote>> warnings_;  // written after the job's next "round committed" line
};

// Fills tokens_per_second and seconds_left.
void ObserveRates(JobGlance& glance, Instant now, const Observer& observer);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_OBSERVER_H_
