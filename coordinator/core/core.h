// SPDX-License-Identifier: Apache-2.0
// The coordinator's decisions: fleet, job queue, runs, rounds, leases. A deterministic state
// machine: Step(event, now) changes the state and returns the records, messages and tasks that
// follow; the same events at the same instants give the same effects. It runs unchanged in
// production, in scenario tests and in the simulator. No thread, lock, clock, file, socket, log,
// random number, unordered iteration or floating-point decision. Owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_CORE_H_
#define ATOLL_COORDINATOR_CORE_CORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/plan/limits.h"
#include "coordinator/core/events.h"

namespace atl {

struct CoreOptions {
  Duration heartbeat_interval;          // sent to workers
  Duration membership_timeout;          // silence after which a worker is lost; >= 2 x heartbeat_interval
  uint32_t workers = limits::kWorkers;  // limit of workers that are not lost; a new one beyond it is refused
  uint64_t boot_nonce = 0;              // random per start, sent to workers; 0: they ignore it
};

// ---- views for the service, cheap copies

enum class WorkerState { kIdle, kJoining, kTraining, kDraining, kLost, kQuarantined, kSilent, kLeft };
struct WorkerView {
  WorkerId worker;
  WorkerState state = WorkerState::kIdle;
  Incarnation incarnation;
  JobId job;
  Heartbeat last;  // newest heartbeat
  std::string device;
  bool connected = false;
  bool unheard = false;  // since the coordinator's start
  bool evaluate_only = false;
  bool evicted = false;        // quarantined by an operator, not for its contributions
  bool cordoned = false;       // it gets no other job
  bool participating = false;  // in the newest committed round of fragment 0 of its job
  std::string corpus;          // assigned to it, with data.assignment: shards
  Duration heartbeat_age{};
  std::string silence;          // SilenceOf (member.h): why its activity is unknown; empty: heard, lost, quarantined
  std::string link_too_slow;    // measured and required rates; empty: its link is fast enough, or not measured
  bool not_waited_for = false;  // it is not in the expected set because of its link
  std::string screened;         // strikes in its job, or the reason of its quarantine; empty: none
};
struct FragmentView {
  Version version;
  Digest hash;
  uint32_t accepted = 0, expected = 0;
  uint32_t dropped = 0;  // dropped syncs of the open round; not expected any more
};
struct BalanceView {  // in samples; unleased + leased + consumed + abandoned = dataset
  uint64_t dataset = 0, unleased = 0, leased = 0, consumed = 0, abandoned = 0;
};
struct JobView {
  JobRecord record;
  std::vector<FragmentView> fragments;
  BalanceView balance;
  uint64_t clock_step = 0;
  uint64_t tokens_committed = 0;
  uint64_t rounds_committed = 0;
  uint32_t alive = 0, training = 0, participating = 0;  // the first two: of members heard since the start
  uint32_t not_waited_for = 0;                          // of the training ones, because of their links
  uint32_t missing = 0;  // further workers that it needs; 0 while it should not run, or parameters are being loaded
  uint32_t pool = 0;     // workers that experiment.pool allows to take part now; 0 without such a schedule
  std::vector<EvaluationRecord> evaluations;
  std::vector<CheckpointRecord> checkpoints;
  bool stopped = false;      // paused because it could not continue; record.reason has what to fix
  bool no_room = false;      // a write waits for disk space: the one in waiting_line
  std::string waiting_line;  // why it waits or is slow, naming the worker; empty if it runs freely
};

class Core {
 public:
  // Resumes at the state of the ledger. Every member that is not quarantined counts as present for one full
  // membership timeout from `now`.
  Core(CoreOptions options, RecoveredState recovered, Instant now);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Returns the effects of recovery: the tasks that load parameters, and the pause of damaged jobs. Call once, before
  // the first Step. `damaged_logs`: jobs with unreadable accepted contributions, and the reason. A person can resume
  // them once the damage is fixed and the coordinator restarted, or roll them back.
  Effects Start(Instant now, const std::map<JobId, std::string>& damaged_logs = {});
  // Requires now >= every earlier now. `wall_nanos` is Unix time for records that people read (job
  // start, time of an evaluation), 0 if unknown; it decides nothing. Afterwards the core is at
  // rest: while NextWake() is later than now, a tick has no effect.
  Effects Step(const Event& event, Instant now, int64_t wall_nanos = 0);
  // When Step(Tick) must be called at the latest; kNever if nothing is timed.
  Instant NextWake() const;

  BootNumber boot() const;
  std::vector<JobId> Jobs() const;  // by sequence
  bool HasJob(const JobId& job) const;
  std::optional<JobView> ViewJob(const JobId& job, Instant now) const;
  std::vector<WorkerView> ViewWorkers(Instant now) const;  // by name; includes lost ones with a record
  std::vector<WorkerView> ViewWorkersOf(const JobId& job, Instant now) const;  // the workers of one job, by name
  // Fails an ATOLL_CHECK on a violated invariant (I1, I6, I8, I9, I10, I12, I16) or an inconsistent index. Cheap
  // enough to call after every step in tests and the simulator.
  void CheckInvariants() const;

 private:
  std::unique_ptr<class Machine> machine_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CORE_H_
