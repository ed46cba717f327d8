// SPDX-License-Identifier: Apache-2.0
// The state of one job in the coordinator, and the arithmetic of its clock. Job (job.h) owns it and makes the state
// transitions; others read it. Pure; owned by the engine thread.
//
//   PENDING -> WAITING_FOR_WORKERS -> RUNNING -> CLOSING (rounds, evaluation, checkpoint) -> SUCCEEDED | CANCELLED
//                      ^---- PAUSED <------------------------'   every state -> CANCELLED
//
// A job that cannot continue is FAILED while nothing of it was committed or accepted; later it is PAUSED with the
// reason, because it holds work. A job that ends, undrained, with a starved fragment is FAILED too.
#ifndef ATOLL_COORDINATOR_CORE_RUN_H_
#define ATOLL_COORDINATOR_CORE_RUN_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "coordinator/core/admission.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/claims.h"
#include "coordinator/core/evaluation.h"
#include "coordinator/core/events.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/participation.h"
#include "coordinator/core/replica_reports.h"
#include "coordinator/core/round.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/screens.h"
#include "coordinator/core/shards.h"

namespace atl {

// Why a worker cannot take part in the job.
struct GivenUp {
  std::string why;
  bool for_all = false;  // it reports that no worker can do better
};

enum class Ending { kNone, kRounds, kEvaluation, kCheckpoint };

struct Run {
  Run(JobRecord job, PoolRecord pool);

  JobRecord record;
  std::shared_ptr<const JobSpec> spec;
  Digest layout;  // of the model layout, which no update changes
  LeasePool pool;
  ShardBook shards;
  ClaimsBook claims;
  std::vector<Round> rounds;               // by fragment
  std::vector<UpdatePublished> published;  // by fragment: the newest since the start
  std::set<WorkerId> participants;         // of the newest committed round of fragment 0
  std::set<WorkerId> used_up;              // have nothing left to train, and will get nothing (UsedUp)
  std::vector<Duration> spreads;           // of the last rounds, at most kSpreads
  std::map<WorkerId, GivenUp> failures;    // workers that could not continue
  StrikeBook strikes;                      // cleared at a restart
  MissBook misses;                         // cleared at a restart
  RemarkBook remarks;                      // cleared at a restart
  FragmentProgress progress;
  ReplicaReports replicas;                                 // cleared at a restart
  std::vector<std::pair<WorkerId, SampleRange>> suspects;  // held by workers with non-finite losses
  Checkpoints checkpoints;
  Evaluation evaluation;
  std::optional<RequestId> rollback_request;
  std::optional<uint64_t> rollback_check;  // step of the checkpoint being checked before the rollback
  std::string log_damage;                  // why the round log of the open rounds is unusable; empty: usable
  Ending ending = Ending::kNone;
  bool loaded = false;        // the parameters are in the engine's memory
  bool loading = false;       // requested, and neither failed nor finished
  std::string no_room;        // why parameters or a checkpoint are not on disk yet; empty: nothing waits for space
  Instant retry_at = kNever;  // when the write is retried; kNever during a try
  bool touched = false;       // `record` is written at the end of the step
  PeriodTraffic traffic;      // known once loaded
  uint64_t clock_floor = 0;   // lower bound of the clock
  uint64_t rounds_committed = 0;
  uint64_t tokens_committed = 0;  // of fragment 0, including rolled back ones

  static constexpr size_t kSpreads = 8;
  static constexpr size_t kSuspects = 64;  // the newest, without abandoned ones

  const JobId& id() const { return record.job; }
  VersionVector Versions() const;
  uint32_t inner_steps() const { return spec->sync.inner_steps; }
  // The number of workers that experiment.pool allows now. It caps workers.min and .max in the two functions below.
  uint32_t PoolNow() const;
  uint32_t LeastWorkers() const { return std::min(spec->workers.min, PoolNow()); }
  uint32_t MostWorkers() const { return std::min(spec->workers.max, PoolNow()); }
  uint32_t LeastExpected() const { return std::max({1u, LeastWorkers(), std::min(spec->sync.quorum, MostWorkers())}); }
  // Trains or may soon: workers can be assigned.
  bool Open() const {
    return record.state == JobState::kWaitingForWorkers || record.state == JobState::kRunning ||
           record.state == JobState::kClosing;
  }
  bool Gathers() const {
    return record.state == JobState::kRunning || (record.state == JobState::kClosing && ending == Ending::kRounds);
  }
  // For an ending job: whether its last evaluation is still to be made.
  bool WantsEvaluation() const {
    return record.held_out_samples > 0 && evaluation.IsWanted(spec->evaluation, Versions());
  }
  // A checkpoint names the committed versions, while during a merge the parameters in memory are
  // already newer. So it is taken between merges, and no merge begins before it.
  bool SavesAfterMerge() const { return checkpoints.IsDue() && IsMerging(); }
  bool IsMerging() const {
    return std::any_of(rounds.begin(), rounds.end(), [](const Round& r) { return r.closing(); });
  }
  // The job clock's minimum once fragment 0 has `version`: the send step of that version's
  // contributions, at most the stop step.
  uint64_t StepOf(Version version) const;
  // The job clock. `newest_step`: the largest that its training workers reported. After success: the stop step.
  uint64_t ClockStep(uint64_t newest_step) const;
  // The worker's newest committed contribution to the fragment was sent at the stop step or later,
  // and includes all steps that the worker has reported.
  bool HasClosed(FragmentIndex fragment, const WorkerId& worker, uint64_t reported_step) const;
  // The largest cursor of the lease in an accepted or flushing contribution; 0 if there is none. UINT64_MAX if
  // the round log is unreadable now, because its contributions may still be merged.
  uint64_t AcceptedCursor(LeaseId lease) const;
  // The same for every lease in such a contribution, if the accepted ones are readable.
  std::map<LeaseId, uint64_t> AcceptedCursors() const;
  // The round that has the upload; null: none.
  Round* RoundOf(UploadId upload);
  bool HasUploads() const;
  bool IsUploading(const WorkerId& worker) const;
  // A contribution to be merged, or a lease to be returned, names the worker.
  bool Names(const WorkerId& worker) const {
    const auto has = [&worker](const Round& r) { return r.HasArrived(worker) || r.IsUploading(worker); };
    return std::any_of(rounds.begin(), rounds.end(), has) || pool.HasLeaseOf(worker);
  }
  // The announcement of the fragment's newest version, which is not 0. Without size and clock if that version was
  // committed before the coordinator's start, or restored by a rollback.
  UpdatePublished NewestUpdate(FragmentIndex fragment) const;
  // By fragment: periods from its newest committed contribution to the newest of any fragment, by their send steps.
  std::vector<uint64_t> PeriodsSinceRounds() const;
  // The samples that a worker trains on in `periods` periods.
  uint64_t PeriodSamples(uint64_t periods) const;
  // The limit of samples that are leased to the worker and in no committed contribution.
  uint64_t LeaseLimit(const WorkerId& worker) const {
    return PeriodSamples(uint64_t{spec->sync.max_unsynced_periods} + 1 + DroppedRunning(worker));
  }
  // The samples covered by the worker's accepted contributions beyond the committed ones, without
  // and with `header`.
  Coverage CoverageOf(const ContributionHeader& header) const;
  // The worker missed too many rounds of the fragment in a row: if others suffice, none waits for it until its next.
  bool PassesOver(FragmentIndex fragment, const WorkerId& worker) const {
    return misses.Running(fragment, worker) >= spec->sync.max_missed;
  }
  // The other fragments had more rounds since this fragment's newest one than a worker may miss.
  bool IsStarved(FragmentIndex fragment, uint64_t front) const {
    return progress.Lag(fragment, front) > spec->sync.max_missed;
  }
  // The limit of a worker's contributions to past_finished rounds of a fragment: twice its possible holdings.
  uint64_t TailLimit(const WorkerId& worker) const {
    return 2 * (uint64_t{spec->sync.max_unsynced_periods} + 1 + DroppedRunning(worker)) + 2;
  }
  // The number of consecutive periods, up to now, with a sync dropped on purpose: the most over the fragments.
  uint64_t DroppedRunning(const WorkerId& worker) const;
  absl::StatusOr<const CheckpointRecord*> FinishedCheckpoint(uint64_t step) const;  // NotFound
  // Work was committed or accepted, and ending the job would lose it.
  bool HoldsWork() const;
};

const char* NameOf(JobState state);
// The task that loads the run's parameters in their present state.
Task LoadTaskOf(const Run& run);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_RUN_H_
