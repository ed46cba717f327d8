// SPDX-License-Identifier: Apache-2.0
// The life of one worker: joining, training, waiting, evaluating, closing, draining. A deterministic machine:
// Step(event, now) changes the state and returns what must be done, in order; the same events at the same instants give
// the same effects. It runs in the daemon, in unit tests and in the simulator unchanged. No thread, lock, clock, file,
// socket, log, random number, unordered iteration or floating point lives here. Owned by the session's thread.
//
//   kIdle -> kPreparing -> kFetching -> kActive -> kLeft          (job assigned, prepared, fragments fetched, SIGTERM)
//     ^________|____________|____________|                        Unassign, JobBroken, failure
//
// Steps of the job clock are what SyncSchedule, the rate and the stop rule speak of. Steps taken are what limits speak
// of. The clock is the steps taken, spread over more steps of the clock where the pace is balanced (PacedClock), plus
// an offset that grows, by whole periods, when the job is two periods ahead.
//
// Every wait has a deadline or a repetition, and waiting_for() says what it waits for:
//   an update at its apply step      apply_patience, or one heartbeat interval while the coordinator is away; never
//                                    less than a period of measured steps, into which its transfer has to fit, and then
//                                    training goes on and the update comes behind it
//   leases                           asked again after kLeaseRepeat, denied ones as soon as an update is applied
//   a fetch                          the link repeats it; a refused one is asked again after kFetchRepeat
//   the last contributions           leave_grace
//   an evaluation's versions         evaluation_patience
//   what a piece of it reads         asked again after kFetchRepeat, for evaluation_patience
//   more steps than max_unsynced     until an update is applied; said in every heartbeat
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
  // Inner steps between a send and where its update is applied, in place of the job's; 0: the job's. One period less a
  // step at most, whatever was asked for.
  uint32_t overlap_steps = 0;
  Duration leave_grace = Seconds(10);  // SIGTERM: to send what it has
  // For the assigned versions to arrive, and for what a piece reads, since training stands still meanwhile; with
  // evaluate_only the versions have also twice what their bytes take at 10 Mbit/s.
  Duration evaluation_patience = Seconds(30);
};

constexpr Duration kLeaseRepeat = Seconds(2);
constexpr Duration kFetchRepeat = Seconds(2);

// A fragment, for tests, metrics and the local health page.
struct FragmentStatus {
  Version applied;
  bool moving = false;  // the outer copy leaves it, or is being fetched whole
  bool contribution_held = false;
  bool contribution_accepted = false;
  uint32_t missed = 0;        // syncs running
  uint64_t steps_behind = 0;  // in the drift: since the last contribution that counted
};

class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Requires now >= every earlier now. Effects that answer with an event must be answered exactly once, unless
  // ReleaseJob, DropFetches, CancelUpload or DropContribution came in between; answers that no longer fit are ignored.
  Effects Step(const Event& event, Instant now);
  // Whether this may also come between a TakeStep and its answer: what it asks for then leaves parameters, optimizer
  // and the samples of the step alone. It need not: every event may wait for the step's end.
  static bool HeardInStep(const Event& event);
  // When a Boundary must be given at the latest; kNever when only an event can change anything.
  Instant NextWake() const;

  // What the next heartbeat says, without sequence and metrics. Cheap; between two Steps.
  Heartbeat MakeHeartbeat(Instant now) const;
  Duration heartbeat_interval() const;
  WorkerActivity activity() const;
  std::string waiting_for(Instant now) const;
  BootNumber boot() const;
  Incarnation incarnation() const;
  const JobId& job() const;
  uint64_t clock_step() const;
  uint64_t samples_held() const;  // leased and not trained on
  std::vector<FragmentStatus> fragments() const;
  bool left() const;
  // Breaks with ATOLL_CHECK on a violated invariant; cheap enough to call after every step in tests and the simulator.
  void CheckInvariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_CORE_H_
