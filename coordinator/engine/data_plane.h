// SPDX-License-Identifier: Apache-2.0
// The engine's hands: everything that moves bytes or floats. The engine calls from its thread and never waits; each
// task runs on the executors below and ends in an event. Downloads come only from immutable things (encoded updates,
// snapshots, blobs, shards); of live state only a snapshot is written, which has a copy before that changes.
//
//   ledger executor (serial)   reads of committed rounds, for replay
//   io executor (serial)       round log, blobs, and which snapshots there are: what is dropped for a newer one
//   snapshot executor (serial) writes of snapshots and checkpoints, so that no round waits for them on io
//   compute executor (serial)  initial parameters, contributions read back and the aggregate's pass
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

// Everything it stands on; all outlive it.
struct DataPlaneParts {
  Files& files;
  Clock& clock;
  Executor& ledger_executor;
  Executor& io;
  Executor& snapshot_io;
  Executor& compute;
  Ledger& ledger;
  RoundLog& rounds;
  SnapshotStore& snapshots;
  BlobStore& blobs;
  DataDirectory directory;
  Log& log;
  std::string data_root;  // of corpora served to workers; empty: none
  // Of the reading of a round's contributions, of one aggregate pass, and of the making of initial parameters.
  unsigned threads = 1;
  // What is on disk can no longer be trusted or written: must end the process with the sentence (I24).
  std::function<void(const absl::Status&)> fatal;
  uint64_t download_files = 4096;  // that downloads may hold open at a time, a quarter of them for one worker
};

class DataPlane {
 public:
  explicit DataPlane(DataPlaneParts parts);
  ~DataPlane();
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  // Where completions go; called on executor threads. Set before any task.
  void SetEventSink(std::function<void(Event)> sink) ATOLL_EXCLUDES(mutex_);

  // ---- tasks of the core; engine thread ----

  // Its Prepare or RestoreCheckpoint comes: until it has ended, who asks for the job is told to ask again. Returns its
  // number: the preparation before it ends without a word.
  uint64_t Expect(const JobId& job) { return jobs_.Expect(job); }
  // Brings a job's parameters into memory: version 0 made and written, or the newest snapshots loaded and the rounds
  // since then recomputed from the log; every hash must agree. -> ParametersReady, PreparationDelayed or TaskFailed.
  void Prepare(const JobRecord& job, std::vector<FragmentHead> heads);
  // -> RoundAggregated, ContributionsScreened or TaskFailed.
  // `job` as it is now: its spec's rates, and whether it is ending.
  void CloseRound(const struct CloseRound& task, const JobRecord& job, BootNumber boot);
  // The ledger holds this round: its update may be served, goes to the log, and a snapshot is taken when the log
  // outweighs it and some rounds have passed.
  void Committed(const RoundRecord& record);
  // -> CheckpointWritten, CheckpointDelayed or TaskFailed.
  void WriteCheckpoint(const struct WriteCheckpoint& task);
  void DropCheckpoint(const struct DropCheckpoint& task);
  // -> CheckpointChecked.
  void CheckCheckpoint(const struct CheckCheckpoint& task, const JobSpec& spec);
  // `job` is its record at the task's epoch. -> ParametersReady, PreparationDelayed or TaskFailed.
  void RestoreCheckpoint(const struct RestoreCheckpoint& task, const JobRecord& job);
  // Also of a preparation that goes on: it ends without a word.
  void Release(const JobId& job);
  // Of a job that has ended, what nothing starts from any more, unless contributions are kept: its round log where
  // every fragment has a snapshot of its last version, else what is older than the newest one. Of a purged one all.
  void DropEnded(const JobView& view, bool purged);
  // At the start, of each job, what a process that died has left: checkpoints that the ledger has dropped, and of an
  // ended one those that it never had whole, and what DropEnded drops.
  void DropLeftOvers(const JobView& view);
  // Whether a round is still to be merged whose closing was asked for, and none is from now on. Thread-safe.
  bool Merges() const { return passes_ > 0; }
  void MergeNoMore() { merge_no_more_ = true; }
  // Behind the engine's last turn: writes what the next start would recompute. `done` runs on the compute executor.
  void SnapshotAll(std::shared_ptr<LastSnapshots> last, std::function<void()> done);
  // How many have their parameters in memory. Thread-safe.
  size_t JobsInMemory() const { return jobs_.size(); }
  // Of the newest closed round of the fragment.
  RoundMeasures MeasuresOf(const JobId& job, FragmentIndex fragment) const;

  // ---- uploads ----

  Uploads& uploads() { return uploads_; }

  // ---- downloads and blobs; thread-safe ----

  // Also the refusals of rights(). Unavailable while downloads hold as many files open as they may.
  void OpenDownload(const DownloadRequest& request, DownloadReply reply);
  DownloadRights& rights() { return rights_; }
  BlobStore& blobs() { return parts_.blobs; }
  // Io executor. BlobStore::Begin; ResourceExhausted, and nothing is begun, where what is to come of it, beside what is
  // to come of others under way, would leave less than a tenth of the disk free.
  absl::StatusOr<BlobStore::Begun> BeginBlob(const Sha256& sha256, uint64_t bytes);
  Executor& io() { return parts_.io; }

 private:
  struct Preparation;  // prepare.cc

  void Emit(Event event) ATOLL_EXCLUDES(mutex_);
  void Fail(const JobId& job, const absl::Status& status);

  // prepare.cc. Runs `work` on the compute executor behind every snapshot that was asked for before: it is written, and
  // what it makes superfluous is gone.
  void BehindSnapshots(std::function<void()> work);
  // Each step ends by posting the next.
  void LoadSnapshots(std::shared_ptr<Preparation> p);
  void MakeVersionZero(std::shared_ptr<Preparation> p);
  void ReadRounds(std::shared_ptr<Preparation> p);
  void ReplayNext(std::shared_ptr<Preparation> p);
  // `owed`: the log does not have its update.
  void ReplayOne(std::shared_ptr<Preparation> p, const RoundRecord& record, std::vector<std::vector<std::byte>> inputs,
                 bool owed);
  void WriteSnapshotsThenReady(std::shared_ptr<Preparation> p);
  // False: released or begun anew since it began.
  bool IsExpected(const Preparation& p) const;
  void AnnounceReady(const Preparation& p);

  // rounds.cc
  void ReadAndAggregate(const std::shared_ptr<JobData>& data, const struct CloseRound& task, const JobRecord& job,
                        BootNumber boot);
  absl::Status ReadInputs(const RoundKey& key, const std::vector<ContributionHeader>& contributions);  // into inputs_
  void Aggregate(std::shared_ptr<JobData> data, const struct CloseRound& task, const JobRecord& job, BootNumber boot);
  // io executor. Appends, and flushes, the committed updates up to there that the log lacks. An error ends the process.
  absl::Status LogUpdates(JobData& data, FragmentVersion up_to);
  // io executor. Unlinks rounds that neither a restart nor a worker a little behind needs.
  void DropLog(JobData& data, FragmentVersion head);
  // `outcome`, where one is given, gets the first failure; it is looked at by a later job of the snapshot executor.
  // What is being written of the same version already is not taken a second time.
  void TakeSnapshot(std::shared_ptr<JobData> data, FragmentIndex fragment, std::shared_ptr<absl::Status> outcome);
  absl::Status WriteSnapshot(JobData& data, const SnapshotKey& key, StateShot& shot, Digest hash);  // snapshot executor
  // io executor. `written` is on disk: the rounds and snapshots that it makes superfluous are dropped.
  void SnapshotWritten(JobData& data, FragmentVersion written);
  void SnapshotNext(std::shared_ptr<LastSnapshots> last);  // compute executor
  void Warn(const char* what, const JobData& data, FragmentIndex fragment, const absl::Status& why);

  // retention.cc
  void DropForgotten(const JobView& view);  // of DropLeftOvers, the checkpoints
  // Io executor. Of epochs below `epoch`, whose snapshots, or the checkpoint it went back to, are on disk.
  void DropGivenUp(const JobId& job, uint64_t epoch);
  absl::Status DropLogOfEnded(const JobId& job, uint64_t epoch, const VersionVector& heads);

  // downloads.cc. An update that is in memory: the newest committed one of a fragment, and those that are not in the
  // log yet; nothing for any other. Thread-safe.
  std::optional<DownloadContent> FindInMemory(const DownloadKey& key) const;
  // io executor
  absl::StatusOr<DownloadContent> Open(const DownloadRequest& request);
  absl::StatusOr<DownloadContent> OpenUpdate(const UpdateKey& key);
  absl::StatusOr<DownloadContent> OpenFragment(const FragmentKey& key, const WorkerId& worker);
  // Thread-safe. A worker that asks for an update has what it fetched whole, and catches up.
  void NoteCatchUp(const DownloadRequest& request);
  absl::StatusOr<DownloadContent> OpenBlock(const BlockKey& key);

  DataPlaneParts parts_;
  ServedManifests manifests_;  // I/O executor
  DownloadRights rights_;
  mutable Mutex mutex_;
  std::function<void(Event)> sink_ ATOLL_GUARDED_BY(mutex_);
  LoadedJobs jobs_;
  Uploads uploads_;
  // Compute executor: the contributions of the round that closes, in worker-name order; their memory is used again by
  // the rounds after it, until a job is released.
  std::vector<std::vector<std::byte>> inputs_;
  std::atomic<uint64_t> passes_ = 0;  // asked for and not over
  std::atomic<bool> merge_no_more_ = false;
  // Of those that are under way; a download may outlive this.
  const std::shared_ptr<std::atomic<uint64_t>> files_of_downloads_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::map<WorkerId, std::shared_ptr<std::atomic<uint64_t>>> files_of_worker_;  // I/O executor
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DATA_PLANE_H_
