// SPDX-License-Identifier: Apache-2.0
// The checkpoints of one job, as a machine of its own: which are begun, written and kept, and whether another one is
// due. Pure; owned by the engine thread.
//
//   none -- Begin --> BEGUN -- Written --> COMPLETE -- Drop, DropAfter, Retain --> none
//                       `-- Drop, Retry or DropOvertaken: its versions are not in memory any more --> none
//
// Effects: records to commit and tasks, which the parent (job.h) carries out. A checkpoint is written before the
// next merge, which replaces its versions in memory: the parent begins none during a merge, and no merge while one is
// due.
#ifndef ATOLL_COORDINATOR_CORE_CHECKPOINTS_H_
#define ATOLL_COORDINATOR_CORE_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/plan/job_spec.h"
#include "common/plan/records.h"
#include "coordinator/core/tasks.h"

namespace atl {

struct CheckpointEffects {
  std::vector<LedgerRecord> records;
  std::vector<Task> tasks;
};

class Checkpoints {
 public:
  // ---- when
  void Load(const CheckpointSpec& rule, Version version);    // due if the newest round that required one has none
  void Commit(const CheckpointSpec& rule, Version version);  // of fragment 0
  void NotDue() { due_ = false; }
  bool TakeDue() { return std::exchange(due_, false); }

  // ---- one of them
  void Restore(std::vector<CheckpointRecord> records);
  // `record` has the job, the step, the versions and the pool. No effect if a checkpoint of that step exists.
  CheckpointEffects Begin(CheckpointRecord record, const CheckpointSpec& rule);
  bool IsBegun(uint64_t step) const;  // and not complete
  // The files of a begun checkpoint are on disk. `versions`: committed; `merging`: those in memory are newer.
  CheckpointEffects Written(uint64_t step, std::vector<Digest> hashes, int64_t wall_nanos,
                            const VersionVector& versions, bool merging);
  CheckpointEffects Drop(uint64_t step);

  // ---- several of them
  CheckpointEffects Retry(const VersionVector& versions, bool merging);  // writes begun ones again, or drops them
  CheckpointEffects Rewrite() const;                                     // of begun ones, once parameters are loaded
  CheckpointEffects DropOvertaken(const VersionVector& versions);
  CheckpointEffects DropAfter(uint64_t step);
  CheckpointEffects DropAll();
  // Drops complete ones, except the newest keep_last, those kept for good, and those for which `is_needed` is true.
  CheckpointEffects Retain(const CheckpointSpec& rule, const std::function<bool(uint64_t step)>& is_needed);

  // ---- the view of them
  const std::map<uint64_t, CheckpointRecord>& records() const { return records_; }  // by step
  bool IsDue() const { return due_; }
  bool IsNewest(uint64_t step) const;                               // no later one is complete
  const CheckpointRecord* Complete(uint64_t step) const;            // null: none
  const CheckpointRecord* Of(const VersionVector& versions) const;  // complete or not; null: none
  uint64_t NextStep() const { return records_.empty() ? 0 : records_.rbegin()->first + 1; }  // the first unused one

 private:
  // Whether checkpoint.keep_every, as set now, keeps a checkpoint of these versions. If the checkpoint of the last
  // such multiple could not be written, the next one is kept in its place.
  bool KeepsForGood(const CheckpointSpec& rule, const VersionVector& versions) const;
  bool Saves(uint64_t version) const;  // a checkpoint of fragment 0's version or a later one
  void Drop(uint64_t step, CheckpointEffects& effects);

  std::map<uint64_t, CheckpointRecord> records_;
  bool due_ = false;  // from checkpoint.every_rounds; written when no merge is running
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CHECKPOINTS_H_
