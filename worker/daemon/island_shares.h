// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of a job on an island: before each step it sends the followers all changes, then
// each follower its share.
#ifndef ATOLL_WORKER_DAEMON_ISLAND_SHARES_H_
#define ATOLL_WORKER_DAEMON_ISLAND_SHARES_H_

#include <cstdint>
#include <set>

#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/data/sample_reader.h"
#include "worker/island/gpu_island.h"
#include "worker/island/orders.h"
#include "worker/train/trainer.h"

namespace atl {

// The job as each rank sees it: its batch is the largest share. Some ranks have no samples if the
// batch has fewer samples than there are ranks.
JobSpec SpecOfShare(JobSpec spec, uint32_t ranks);

// Called after each step on every rank: at intervals compares the bits of the ranks' parameters.
// Internal if they differ.
absl::Status CompareReplicas(Island& island, Trainer& trainer);

// Owned by the session's thread; calls block. After the loss of a rank every call returns
// Unavailable with the cause.
class IslandShares {
 public:
  // The islands in `ways` outlive this object; the trainer's island is `ways.values`.
  IslandShares(IslandWays ways, ModelLayout layout)
      : orders_(ways.orders), values_(ways.values), layout_(std::move(layout)) {}
  // Orders the followers to release the job.
  ~IslandShares();
  IslandShares(const IslandShares&) = delete;
  IslandShares& operator=(const IslandShares&) = delete;

  // Orders the followers to make their trainers. Call AwaitPrepared once rank 0 has made its own.
  absl::Status BeginPrepare(const JobSpec& share, int32_t end_of_text, uint64_t available_bytes);
  // Waits for the followers. Returns the first refusal, with its rank, or the error of the island.
  absl::Status AwaitPrepared();

  // Rank 0 has changed parameters or optimizer: the next Step sends the change to the followers first.
  void ParametersChanged(FragmentIndex fragment) { changed_.insert(fragment.value); }
  void OptimizerChanged() { optimizer_changed_ = true; }

  absl::StatusOr<StepReport> Step(const SampleBatch& batch, double learning_rate, Trainer& trainer);

 private:
  absl::Status TellChanges(Trainer& trainer);
  absl::StatusOr<StepReport> TakeOwnShare(const TokenBatch& share, uint64_t targets, double learning_rate,
                                          Trainer& trainer);

  TcpIsland& orders_;
  Island& values_;
  const ModelLayout layout_;
  bool asked_ = false;  // answers are outstanding
  std::set<uint32_t> changed_;
  bool optimizer_changed_ = true;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ISLAND_SHARES_H_
