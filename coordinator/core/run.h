// SPDX-License-Identifier: Apache-2.0
// The life of one job in the coordinator: its state machine's data and the arithmetic of its clock. Who moves it from
// state to state is machine.h. Pure; owned by the engine thread.
//
//   PENDING -> WAITING_FOR_WORKERS -> RUNNING -> CLOSING (rounds, evaluation, checkpoint) -> SUCCEEDED | CANCELLED
//                      ^---- PAUSED <------------------------'   every state -> CANCELLED
//
// What cannot go on before its first commit is FAILED; later it is PAUSED with the reason, since it holds work.
#ifndef ATOLL_COORDINATOR_CORE_RUN_H_
#define ATOLL_COORDINATOR_CORE_RUN_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "coordinator/core/admission.h"
#include "coordinator/core/claims.h"
#include "coordinator/core/events.h"
#include "coordinator/core/leases.h"
#include "coordinator/core/participation.h"
#include "coordinator/core/replica_reports.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/screens.h"
#include "coordinator/core/shards.h"

namespace atl {

struct Upload {
  ContributionHeader header;
  bool flushing = false;  // the trailer is on its way to the disk: it will be accepted
};

// What becomes of the offer of an upload.
struct Judgement {
  UploadDecision decision = UploadDecision::kRefused;
  absl::Status status;
};

// An evaluation that somebody is to make.
struct PendingEvaluation {
  uint64_t number = 0;
  uint64_t clock_step = 0;
  VersionVector versions;    // of the newest assignment
  WorkerId holder;           // empty: nobody has it
  std::set<WorkerId> asked;  // everybody who was given it at those versions: a result of theirs counts
  Instant given{}, deadline{};
  uint32_t tries = 0;  // workers that were too slow, got lost or could not make it
  bool score_tasks = false;
  std::string failure;  // why nothing comes of it with the holder; empty: it may still make it
  WorkerId failed;      // the newest that it came to nothing with, which is given it again from retry_at on
  Instant retry_at{};
};

// The newest evaluation that was recorded since the start, and the worker that made it.
struct MadeEvaluation {
  WorkerId by;
  EvaluationDone done;
  bool contradicted = false;  // by another result of the same worker
};

// Why a worker takes no part any more.
struct GivenUp {
  std::string why;
  bool for_all = false;  // it says that no worker will do better
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
  std::vector<Round> rounds;                                      // by fragment
  std::vector<std::map<WorkerId, ContributionHeader>> committed;  // by fragment: each worker's newest
  std::vector<UpdatePublished> published;                         // by fragment: the newest since the start
  std::map<UploadId, Upload> uploads;
  std::set<WorkerId> participants;  // of the newest committed round of fragment 0
  // By fragment: rounds past_finished that each has been merged in since one was not, or since the end began. A worker
  // that goes on behind all others decides them alone: no more than an honest one needs. Forgotten at a restart.
  std::vector<std::map<WorkerId, uint32_t>> tails;
  std::set<WorkerId> used_up;            // have nothing left to train, nor will have (used_up.h)
  std::vector<Duration> spreads;         // of the last rounds, at most kSpreads
  std::map<WorkerId, GivenUp> failures;  // workers that could not go on
  StrikeBook strikes;                    // forgotten at a restart
  MissBook misses;                       // forgotten at a restart
  RemarkBook remarks;                    // forgotten at a restart
  FragmentProgress progress;
  ReplicaReports replicas;                                 // likewise
  std::vector<std::pair<WorkerId, SampleRange>> suspects;  // held by workers that met non-finite losses
  std::vector<EvaluationRecord> evaluations;               // that no rollback has undone, by number
  std::map<uint64_t, CheckpointRecord> checkpoints;        // by step
  std::optional<PendingEvaluation> evaluation;
  std::optional<MadeEvaluation> made;
  VersionVector not_evaluated;  // no worker finished an evaluation of these
  std::optional<RequestId> rollback_request;
  std::optional<uint64_t> rollback_check;  // step of the checkpoint that is being read before the rollback
  std::string log_damage;                  // why the round log of the open rounds cannot be used; empty: it can
  WorkerId last_evaluator;
  Ending ending = Ending::kNone;
  bool loaded = false;          // the engine has the parameters
  bool loading = false;         // it was told to get them, and has neither failed nor ended
  bool checkpoint_due = false;  // by checkpoint.every_rounds; taken once nothing is being merged
  std::string no_room;          // why parameters or a checkpoint are not on disk yet; empty: nothing waits for room
  Instant retry_at = kNever;    // when that is tried again; kNever while it is being tried
  bool touched = false;         // `record` is written at the end of the step
  PeriodTraffic traffic;        // known once loaded
  uint64_t clock_floor = 0;     // the clock never goes below it
  uint64_t rounds_committed = 0;
  uint64_t tokens_committed = 0;  // of fragment 0, rolled back ones included

  static constexpr size_t kSpreads = 8;
  static constexpr size_t kSuspects = 64;  // the newest, less those that were abandoned

  const JobId& id() const { return record.job; }
  VersionVector Versions() const;
  uint32_t inner_steps() const { return spec->sync.inner_steps; }
  // Trains or may soon: workers can be assigned.
  bool Open() const {
    return record.state == JobState::kWaitingForWorkers || record.state == JobState::kRunning ||
           record.state == JobState::kClosing;
  }
  bool Gathers() const {
    return record.state == JobState::kRunning || (record.state == JobState::kClosing && ending == Ending::kRounds);
  }
  // A checkpoint names the committed versions, and the parameters in memory run ahead of them while a round is being
  // merged: it is taken between merges, and no merge begins before it.
  bool SavesAfterMerge() const {
    return checkpoint_due && std::any_of(rounds.begin(), rounds.end(), [](const Round& r) { return r.closing; });
  }
  // Never beyond the stop step. Where the job clock stands at least once fragment 0 has `version`: the step at which
  // that contribution was sent.
  uint64_t StepOf(Version version) const;
  // `newest_step`: the largest reported by its training workers. The stop step once the job has succeeded.
  uint64_t ClockStep(uint64_t newest_step) const;
  // The worker's newest committed contribution to the fragment was sent at the stop step or later and holds all of the
  // steps that it has reported.
  bool HasClosed(FragmentIndex fragment, const WorkerId& worker, uint64_t reported_step) const;
  uint32_t Flushing(FragmentIndex fragment) const;
  // Largest cursor of the lease in an accepted or flushing contribution; 0 when there is none, UINT64_MAX when what was
  // accepted cannot be read now: it may still be merged.
  uint64_t AcceptedCursor(LeaseId lease) const;
  // Likewise of every lease that is in one, where what was accepted can be read.
  std::map<LeaseId, uint64_t> AcceptedCursors() const;
  // Whether an upload of a contribution to the fragment is open.
  bool IsUploading(const WorkerId& worker, FragmentIndex fragment) const;
  // What is said of the fragment's newest version, which is not 0: without size and clock where that was committed
  // before the start.
  UpdatePublished NewestUpdate(FragmentIndex fragment) const;
  // By fragment, since its newest committed contribution, as send steps say.
  std::vector<uint64_t> PeriodsSinceRounds() const;
  // Samples that a worker trains on in so many periods.
  uint64_t PeriodSamples(uint64_t periods) const;
  // Samples that may be leased to the worker and in no committed contribution.
  uint64_t LeaseLimit(const WorkerId& worker) const {
    return PeriodSamples(uint64_t{spec->sync.max_unsynced_periods} + 1 + DroppedRunning(worker));
  }
  // What the worker's accepted contributions cover beyond what is committed, and what they and `header` do.
  Coverage CoverageOf(const ContributionHeader& header) const;
  // It missed so many rounds of the fragment running that none waits for it until it contributes again.
  bool PassesOver(FragmentIndex fragment, const WorkerId& worker) const {
    return misses.Running(fragment, worker) >= spec->sync.max_missed;
  }
  // Others have had more rounds since its newest than a worker may miss.
  bool IsStarved(FragmentIndex fragment, uint64_t front) const {
    return progress.Lag(fragment, front) > spec->sync.max_missed;
  }
  // So many of its contributions to a fragment are merged in rounds past_finished: what it may hold, twice over.
  uint64_t TailLimit(const WorkerId& worker) const {
    return 2 * (uint64_t{spec->sync.max_unsynced_periods} + 1 + DroppedRunning(worker)) + 2;
  }
  // Periods that the newest syncs of the worker were dropped on purpose, of the fragment with the most.
  uint64_t DroppedRunning(const WorkerId& worker) const;
  // checkpoint.keep_every, as it is now, keeps a checkpoint of these versions. One that is late, since the versions of
  // its time could not be written, stands for it.
  bool KeepsForGood(const VersionVector& versions) const;
  // The newest round that called for a checkpoint has none, nor has a later one: whoever was to make it has died.
  bool CheckpointIsOwed() const;
  bool Saves(uint64_t version) const;  // a checkpoint of fragment 0's version or a later one
  const CheckpointRecord* CheckpointOf(const VersionVector& versions) const;  // finished or not; null: there is none
  absl::StatusOr<const CheckpointRecord*> FinishedCheckpoint(uint64_t step) const;  // NotFound
  // Decides it for the checkpoints whose records do not say; returns those.
  std::vector<CheckpointRecord> DecideKept();
  // What the worker failed and was accused of, and the corpus that it had, are forgotten with it.
  void Forget(const WorkerId& worker);
  // So are its committed contributions to the fragment, once newer rounds than theirs are: call it then.
  void ForgetOlder(FragmentIndex fragment, const std::function<bool(const WorkerId&)>& known);
  // Something was committed or accepted: ending the job would lose it.
  bool HoldsWork() const;
};

const char* NameOf(JobState state);
// What writes the checkpoint.
WriteCheckpoint WriteTaskOf(const CheckpointRecord& record);
// What brings its parameters into memory, as they stand.
Task LoadTaskOf(const Run& run);
std::string NoSuchJobLine(const JobId& job);
// Whose parameters are still to be made from that checkpoint of `job`; null: nobody's.
const JobId* HeirOf(const std::map<JobId, Run>& runs, const JobId& job, uint64_t checkpoint);
// The job from whose finished checkpoint one of that spec begins; null: it begins from none, or that is not there.
Run* SourceOf(std::map<JobId, Run>& runs, const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_RUN_H_
