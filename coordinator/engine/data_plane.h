// SPDX-License-Identifier: Apache-2.0
// Executes the engine's tasks that move bytes or floats. The engine calls from its thread and never
// waits; the work runs on the executors below, and most tasks end with an event. Downloads read only
// immutable sources: encoded updates, snapshots, blobs, shards. Only the writing of a snapshot
// reads live state, which is copied before it changes.
//
//   ledger executor (serial)   reads of committed rounds, for replay
//   io executor (serial)       round log, opening of downloads, removal of superseded snapshots
//   snapshot executor (serial) writes of snapshots and checkpoints, so that no round waits for them on io
//   compute executor (serial)  contributions read back and the aggregate's pass
//   prepare executor (serial)  a job's parameters until they are announced; checks of checkpoints
//   blob executor (serial)     uploads of blobs
//   blocks executor (serial)   manifests and blocks of corpora
// No round waits for the last three.
#ifndef ATOLL_COORDINATOR_ENGINE_DATA_PLANE_H_
#define ATOLL_COORDINATOR_ENGINE_DATA_PLANE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"
#include "coordinator/core/events.h"
#include "coordinator/engine/download_rights.h"
#include "coordinator/engine/job_data.h"
#include "coordinator/engine/loaded_jobs.h"
#include "coordinator/engine/served_manifests.h"
#include "coordinator/engine/uploads.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/ledger.h"
#include "coordinator/store/round_log.h"
#include "coordinator/store/snapshot_store.h"

namespace atl {

struct JobView;        // core.h
struct LastSnapshots;  // last_snapshots.h

// The dependencies of DataPlane. All outlive it.
struct DataPlaneParts {
  Files& files;
  Clock& clock;
  Executor& ledger_executor;
  Executor& io;
  Executor& snapshot_io;
  Executor& compute;
  Executor& prepare;
  Executor& blob_io;
  Executor& blocks;
  Ledger& ledger;
  RoundLog& rounds;
  SnapshotStore& snapshots;
  BlobStore& blobs;
  DataDirectory directory;
  Log& log;
  std::string data_root;  // of the corpora served to workers; empty: none
  // The number of threads for reading a round's contributions, for one aggregate pass, for loading
  // snapshots (four at most), and for making initial parameters.
  unsigned threads = 1;
  // The files can no longer be trusted or written: must end the process with this status (I24).
  std::function<void(const absl::Status&)> fatal;
};

class DataPlane {
 public:
  explicit DataPlane(DataPlaneParts parts);
  ~DataPlane();
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  // The receiver of completions, called on executor threads or within the call of a task. Set before any task.
  void SetEventSink(std::function<void(Event)> sink) ATOLL_EXCLUDES(mutex_);

  // ---- tasks of the core; engine thread ----

  // Announces a Prepare or RestoreCheckpoint: until it has ended, requests that need the job's
  // parameters in memory get Unavailable. Returns the number of the preparation. A preparation of
  // the job that was announced earlier ends without an event.
  uint64_t Expect(const JobId& job) { return jobs_.Expect(job); }
  // Brings a job's parameters into memory: makes and writes version 0, or loads the newest
  // snapshots and recomputes the later rounds from the log. Every hash must agree. ->
  // ParametersReady, PreparationDelayed or TaskFailed.
  void Prepare(const JobRecord& job, std::vector<FragmentHead> heads);
  // Merges a round's contributions -> RoundAggregated, ContributionsScreened or TaskFailed; no event after
  // a release or MergeNoMore. `job`: the current record, for the rates and whether the job is ending.
  void CloseRound(const struct CloseRound& task, const JobRecord& job, BootNumber boot);
  // The ledger now holds this round: serves its update from now on and appends the update to the log. Takes a
  // snapshot when the log is larger than the snapshot and enough rounds have passed, or if the previous one failed.
  void Committed(const RoundRecord& record);
  // Writes snapshots of all fragments and links them -> CheckpointWritten, CheckpointDelayed or TaskFailed.
  void WriteCheckpoint(const struct WriteCheckpoint& task);
  void DropCheckpoint(const struct DropCheckpoint& task);
  // -> CheckpointChecked.
  void CheckCheckpoint(const struct CheckCheckpoint& task, const JobSpec& spec);
  // Makes a checkpoint the parameters of a new epoch -> ParametersReady, PreparationDelayed or TaskFailed.
  void RestoreCheckpoint(const struct RestoreCheckpoint& task, const JobRecord& job);
  // Frees the job's parameters; also cancels a preparation in progress, which then ends without an event.
  void Release(const JobId& job);
  // Removes the files of an ended job from which nothing can start again, unless the job keeps its contributions:
  // earlier epochs, and the round log if every fragment has a snapshot of its last version, otherwise all before
  // the newest snapshot. For a purged job, removes the round log and all snapshots in any case.
  void DropEnded(const JobView& view, bool purged);
  // Called at the start for each job. Removes leftovers of a process that died: checkpoints that
  // the ledger has dropped and, if the job has ended, its unfinished checkpoints and the files that
  // DropEnded removes.
  void DropLeftOvers(const JobView& view);
  // Merges: whether a requested closing of a round is still to be merged. MergeNoMore: no further
  // merge begins, and preparations in progress end without an event. Thread-safe.
  bool Merges() const { return passes_ > 0; }
  void MergeNoMore() { merge_no_more_ = true; }
  // Called after the engine's last turn: writes the snapshots that the next start would otherwise
  // recompute. `done` runs on the prepare executor.
  void SnapshotAll(std::shared_ptr<LastSnapshots> last, std::function<void()> done);
  // The number of jobs with their parameters in memory. Thread-safe.
  size_t JobsInMemory() const { return jobs_.size(); }
  // Measures of the fragment's newest closed round.
  RoundMeasures MeasuresOf(const JobId& job, FragmentIndex fragment) const;

  // ---- uploads ----

  Uploads& uploads() { return uploads_; }

  // ---- downloads and blobs; thread-safe ----

  // Opens the source of a download; `reply` runs within this call or on an executor. Errors include those
  // of rights(). Sources hold no file open between reads; after the file's removal a read is NotFound.
  void OpenDownload(const DownloadRequest& request, DownloadReply reply);
  DownloadRights& rights() { return rights_; }
  BlobStore& blobs() { return parts_.blobs; }
  // Blob executor. Calls BlobStore::Begin; but ResourceExhausted, with nothing begun, if the remaining
  // bytes of this blob and of all other blobs in progress would leave less than a tenth of the disk free.
  absl::StatusOr<BlobStore::Begun> BeginBlob(const Sha256& sha256, uint64_t bytes);
  Executor& blob_io() { return parts_.blob_io; }

 private:
  struct Preparation;  // prepare.cc

  void Emit(Event event) ATOLL_EXCLUDES(mutex_);
  void Fail(const JobId& job, const absl::Status& status);
  void Fail(const Preparation& p, const absl::Status& status);  // no event if it is not expected any more

  // prepare.cc. Runs `work` on the prepare executor after every snapshot requested before: each is
  // written, and the files that it makes superfluous are removed.
  void BehindSnapshots(std::function<void()> work);
  // Each step ends by posting the next.
  void LoadSnapshots(std::shared_ptr<Preparation> p);
  void MakeVersionZero(std::shared_ptr<Preparation> p);
  void ReadRounds(std::shared_ptr<Preparation> p);
  void ReplayNext(std::shared_ptr<Preparation> p);
  // `owed`: the log lacks the round's update.
  void ReplayOne(std::shared_ptr<Preparation> p, const RoundRecord& record, std::vector<std::vector<std::byte>> inputs,
                 bool owed);
  void WriteSnapshotsThenReady(std::shared_ptr<Preparation> p);
  // False: the job was released, another preparation of it began, or no round is merged any more.
  bool IsExpected(const Preparation& p) const;
  void AnnounceReady(const Preparation& p);

  // rounds.cc
  void ReadAndAggregate(const std::shared_ptr<JobData>& data, const struct CloseRound& task, const JobRecord& job,
                        BootNumber boot);
  absl::Status ReadInputs(const RoundKey& key, const std::vector<ContributionHeader>& contributions);  // into inputs_
  void Aggregate(std::shared_ptr<JobData> data, const struct CloseRound& task, const JobRecord& job, BootNumber boot);
  // io executor. Appends and flushes the fragment's committed updates up to `up_to` that the log
  // lacks. After an error the caller must end the process (I24).
  absl::Status LogUpdates(JobData& data, FragmentVersion up_to);
  // io executor. Unlinks rounds that no restart and no slightly outdated worker needs, unless the job keeps them all.
  void DropLog(JobData& data, FragmentVersion head);
  // Starts a snapshot of the fragment's current version, unless that version is being written already.
  // Stores a failure in `outcome`, if given and still OK; later work on the snapshot executor reads it.
  void TakeSnapshot(std::shared_ptr<JobData> data, FragmentIndex fragment, std::shared_ptr<absl::Status> outcome);
  absl::Status WriteSnapshot(JobData& data, const SnapshotKey& key, StateShot& shot, Digest hash);  // snapshot executor
  // io executor. `written` is on disk: drops the rounds and snapshots that it makes superfluous.
  void SnapshotWritten(JobData& data, FragmentVersion written);
  void SnapshotNext(std::shared_ptr<LastSnapshots> last);  // prepare executor
  void Warn(const char* what, const JobData& data, FragmentIndex fragment, const absl::Status& why);

  // retention.cc
  void DropForgotten(const JobView& view);  // the checkpoint part of DropLeftOvers
  // io executor. Drops epochs below `epoch`. The caller makes sure that the snapshots of `epoch`,
  // or the checkpoint to which the job was rolled back, are on disk, or that the job was purged.
  void DropGivenUp(const JobId& job, uint64_t epoch);
  absl::Status DropLogOfEnded(const JobId& job, uint64_t epoch, const VersionVector& heads);

  // downloads.cc. An update held in memory: a fragment's newest committed one, or one that is not
  // in the log yet. Nothing for any other. Thread-safe.
  std::optional<DownloadContent> FindInMemory(const DownloadKey& key) const;
  // io executor; for a block blocks executor; for a probe any thread
  absl::StatusOr<DownloadContent> Open(const DownloadRequest& request);
  absl::StatusOr<DownloadContent> OpenUpdate(const UpdateKey& key);
  absl::StatusOr<DownloadContent> OpenFragment(const FragmentKey& key, const WorkerId& worker);
  // Thread-safe. A worker that asks for an update has the whole fragment: the snapshot pinned for it is released.
  void NoteCatchUp(const DownloadRequest& request);
  absl::StatusOr<DownloadContent> OpenBlock(const BlockKey& key);

  DataPlaneParts parts_;
  ServedManifests manifests_;  // blocks executor
  DownloadRights rights_;
  mutable Mutex mutex_;
  std::function<void(Event)> sink_ ATOLL_GUARDED_BY(mutex_);
  LoadedJobs jobs_;
  Uploads uploads_;
  // Compute executor: the contributions of the closing round, in worker-name order. Later rounds
  // reuse the memory, until a job is released.
  std::vector<std::vector<std::byte>> inputs_;
  std::atomic<uint64_t> passes_ = 0;  // requested and not finished
  std::atomic<bool> merge_no_more_ = false;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DATA_PLANE_H_
