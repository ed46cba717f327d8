// SPDX-License-Identifier: Apache-2.0
// The state machine of one worker: joining, training, waiting, evaluating, closing, draining. It is
// deterministic: Step(event, now) changes the state and returns the effects, in order; the same
// events at the same instants give the same effects. It runs unchanged in the daemon, in unit tests
// and in the simulator. No thread, lock, clock, file, socket, log, random number, unordered
// iteration or floating point. Owned by the session's thread.
//
//   kIdle -> kPreparing -> kFetching -> kActive -> kLeft          (job assigned, prepared, fragments fetched, SIGTERM)
//     ^________|____________|____________|                        Unassign, JobBroken, failure
//
// SyncSchedule, the learning rate and the stop rule use steps of the job clock; limits use steps
// taken. The clock is the steps taken, spread over more clock steps with a balanced pace (PacedClock), plus the job's
// clock at joining and whole periods when the job is two periods ahead, minus steps set back.
//
// Every wait has a deadline or a repetition, and waiting_for() names it:
//   an update at its apply step      sync.deadline, or else at least a period of measured steps, into which its
//                                    transfer must fit; one heartbeat interval while the coordinator is away. Then
//                                    training continues, and the update is applied later
//   leases                           requested again after kLeaseRepeat; denied ones also once an update is applied
//   a fetch                          repeated by the link; a refused one is requested again after kFetchRepeat
//   the last contributions           leave_grace
//   an evaluation's versions         evaluation_patience
//   the data of an evaluation piece  requested again after kFetchRepeat, for evaluation_patience
//   sync.max_unsynced_periods        no step until an update is applied; reported in every heartbeat
#ifndef ATOLL_WORKER_CORE_CORE_H_
#define ATOLL_WORKER_CORE_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/core/effects.h"
#include "worker/core/events.h"

namespace atl::worker {

struct CoreOptions {
  WorkerId worker;
  std::string program_version;
  uint64_t start_nonce = 0;
  std::string device;
  uint64_t memory_bytes = 0;
  bool evaluate_only = false;
  // Inner steps between a send and the application of its update, instead of the job's value; 0:
  // the job's. At most one period minus one step.
  uint32_t overlap_steps = 0;
  Duration leave_grace = Seconds(10);  // SIGTERM: to send finished work
  // How long an evaluation waits for its versions to arrive, and for the data of a piece: training pauses meanwhile.
  // With evaluate_only, the versions get in addition twice the time of their bytes at 10 Mbit/s, at most two days.
  Duration evaluation_patience = Seconds(30);
};

constexpr Duration kLeaseRepeat = Seconds(2);
constexpr Duration kFetchRepeat = Seconds(2);

// A fragment, for tests, metrics and the local health page.
struct FragmentStatus {
  Version applied;
  bool moving = false;  // an update is being applied to the outer copy, or there is no outer copy
  bool contribution_held = false;
  bool contribution_accepted = false;
  uint32_t missed = 0;        // consecutive missed syncs
  uint64_t steps_behind = 0;  // in the drift: since the last counted contribution
};

class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Requires now >= every earlier now. Effects with an answer event must be answered exactly once, unless
  // ReleaseJob, DropFetches, CancelUpload or DropContribution came in between; obsolete answers are ignored.
  Effects Step(const Event& event, Instant now);
  // Whether the event may also be given between a TakeStep and its answer: its effects then do not
  // touch parameters, optimizer and the samples of the step. This is optional: every event may wait
  // for the end of the step.
  static bool HeardInStep(const Event& event);
  // When a Boundary must be given at the latest; kNever if only an event can change anything.
  Instant NextWake() const;

  // The content of the next heartbeat, without sequence and metrics. Cheap; call between two Steps.
  Heartbeat MakeHeartbeat(Instant now) const;
  Duration heartbeat_interval() const;
  WorkerActivity activity() const;
  std::string waiting_for(Instant now) const;
  BootNumber boot() const;
  Incarnation incarnation() const;
  const JobId& job() const;
  uint64_t clock_step() const;
  uint64_t samples_held() const;  // leased and not trained yet
  std::vector<FragmentStatus> fragments() const;
  bool left() const;
  // Fails an ATOLL_CHECK on a violated invariant; cheap enough to call after every step in tests
  // and the simulator.
  void CheckInvariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_CORE_H_
