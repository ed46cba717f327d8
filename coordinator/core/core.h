// SPDX-License-Identifier: Apache-2.0
// The coordinator's decisions: fleet, job queue, runs, rounds, leases. A deterministic machine: Step(event, now)
// changes the state and returns what must be written, sent and done; the same events at the same instants give the same
// effects. It runs in production, in scenario tests and in the simulator unchanged. No thread, lock, clock, file,
// socket, log, random number, unordered iteration or floating-point decision lives here. Owned by the engine thread.
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
  Duration heartbeat_interval;          // told to workers
  Duration membership_timeout;          // silence after which a worker is lost; >= 2 x heartbeat_interval
  uint32_t workers = limits::kWorkers;  // at once; further ones are refused
  uint64_t boot_nonce = 0;              // random for each start, told to workers; 0: they do not look at it
};

// ---- views for the service, cheap copies
// -----------------------------------------------------------------------------

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
  bool evicted = false;        // an operator has quarantined it, not what it contributed
  bool cordoned = false;       // it gets no other job
  bool participating = false;  // in the newest committed round of its job
  std::string corpus;          // that it reads, with data.assignment: shards
  Duration heartbeat_age{};
  std::string silence;          // SilenceOf (fleet.h): why nobody knows what it does; empty while its heartbeats come
  std::string link_too_slow;    // measured and needed rates; empty: its link is fast enough, or not measured
  bool not_waited_for = false;  // it is not in the expected set for that reason
  std::string screened;         // strikes in its job, or why it is quarantined; empty: nothing is held against it
};
struct FragmentView {
  Version version;
  Digest hash;
  uint32_t accepted = 0, expected = 0;
  uint32_t dropped = 0;  // syncs to the open round that are lost on purpose; not expected any more
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
  uint32_t alive = 0, training = 0, participating = 0;  // the first two: of those heard since the start
  uint32_t not_waited_for = 0;                          // of the training ones, because of their links
  uint32_t missing = 0;  // that it lacks to go on; 0 while it is not meant to, or its parameters are being loaded
  uint32_t pool = 0;     // workers that experiment.pool lets take part now; 0 without such a schedule
  std::vector<EvaluationRecord> evaluations;
  std::vector<CheckpointRecord> checkpoints;
  bool stopped = false;      // paused because it could not go on; record.reason says what has to be mended
  bool no_room = false;      // something of it waits for room on the disk; waiting_line says what
  std::string waiting_line;  // why it waits or is slow, naming the worker; empty when it runs freely
};

class Core {
 public:
  // Takes up where the ledger stands. Every member counts as alive for one full membership timeout from `now`.
  Core(CoreOptions options, RecoveredState recovered, Instant now);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // The work that recovery leaves to do at once (parameters to load, rounds to close). Call once, before the first
  // Step. `damaged_logs`: jobs whose accepted contributions cannot be read, and why; they stop until that is mended and
  // the coordinator started again, or until they are rolled back.
  Effects Start(Instant now, const std::map<JobId, std::string>& damaged_logs = {});
  // Requires now >= every earlier now. `wall_nanos` is Unix time for records that people read (when a job started, when
  // an evaluation was made), 0 when unknown; it decides nothing.
  // Afterwards the core is at rest: as long as NextWake() is later than now, a tick has no effect.
  Effects Step(const Event& event, Instant now, int64_t wall_nanos = 0);
  // When Step(Tick) must be called at the latest; kNever when nothing is timed.
  Instant NextWake() const;

  BootNumber boot() const;
  std::vector<JobId> Jobs() const;  // by sequence
  bool HasJob(const JobId& job) const;
  std::optional<JobView> ViewJob(const JobId& job, Instant now) const;
  std::vector<WorkerView> ViewWorkers(Instant now) const;  // by name; includes lost ones that still hold a record
  std::vector<WorkerView> ViewWorkersOf(const JobId& job, Instant now) const;  // likewise, of the job alone
  // Breaks with ATOLL_CHECK on a violated invariant (I1, I6, I8, I9, I10, I12); cheap enough to call after every step
  // in tests and the simulator.
  void CheckInvariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CORE_H_
