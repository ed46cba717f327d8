// SPDX-License-Identifier: Apache-2.0
// The fragments of one job: the arena of outer copies, a replica and a host window for each, and fetched bytes that
// are not used yet. Connects FragmentReplica's operations to the parameters through worker/device. Owned by the
// session's thread. Long work runs on an executor in parallel with training; until the work ends or is taken back,
// its fragment belongs to the executor.
//
// Memory in addition to the outer copies and FragmentReplica's state. CPU: a copy of the largest fragment, once a
// contribution is formed during steps. GPU: a pinned window for each fragment. If the GPU forms contributions
// (worker/device/device_encoder.h): its scratch for the largest; its bytes, outer copies and residuals are pinned.
#ifndef ATOLL_WORKER_REPLICA_REPLICAS_H_
#define ATOLL_WORKER_REPLICA_REPLICAS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/device/device.h"
#include "worker/device/device_encoder.h"
#include "worker/replica/cancellable_task.h"
#include "worker/replica/fetched_bytes.h"
#include "worker/replica/fragment_replica.h"

namespace atl {

// The number of threads for host loops over a fragment's parameters.
struct SyncThreads {
  unsigned at_rest = 1;  // while nothing is trained: applying, merging, and a contribution formed at rest
  unsigned beside = 1;   // in parallel with training
};

// The result of BeginForm.
struct FormingEnded {
  FragmentVersion target;
  uint64_t task = 0;    // the number passed to BeginForm
  absl::Status status;  // of FragmentReplica::FormContribution, or of the device
};

// The result of BeginApply.
struct ApplyEnded {
  FragmentVersion reached;
  uint64_t task = 0;
  absl::StatusOr<ApplyVerdict> verdict;  // of FragmentReplica::ApplyUpdate
};

// The number of checked device results of each fragment, for contributions and for merges each: the first ones, which
// the host computes too. Their bits are compared, and the host's are used. After a difference or a failed check, the
// host does all later ones, of every fragment.
constexpr uint32_t kFormingProofs = 2;

class Replicas {
 public:
  // `parameters` is the local arena on `device`; both outlive the object, as does the executor. If `formed_by` is
  // kDevice but the device cannot form contributions, that is no error: forming_refused has the reason.
  static absl::StatusOr<std::unique_ptr<Replicas>> Create(const ModelLayout& layout, const JobSpec& spec,
                                                          Device& device, std::span<float> parameters,
                                                          void* compute_stream, Executor& executor,
                                                          EncodedBy formed_by = EncodedBy::kHost,
                                                          SyncThreads threads = {});
  ~Replicas();  // takes running work back

  // The size in bytes of a whole fragment, and of an encoded update of it.
  uint64_t FragmentBytes(FragmentIndex fragment) const;
  uint64_t UpdateBytes(FragmentIndex fragment) const;

  // Stores fetched bytes for Install, Leap, Apply or BeginApply.
  void Keep(FetchedBytes fetched);
  void DropKept(FragmentIndex fragment);
  // Takes running work back. Outer copy := the stored fragment. NotFound: not stored. DataLoss: wrong hash or size.
  absl::Status Install(FragmentIndex fragment, Version version);
  // As Install, for a fragment with an outer copy and no running work: the drift is kept (FragmentReplica::Leap).
  absl::Status Leap(FragmentIndex fragment, Version version);
  absl::StatusOr<ApplyVerdict> Apply(FragmentVersion reached, Standing standing, Digest expected_hash);
  // As Apply, on the executor, while local parameters change. `tell` is called once, on any thread, or never if the
  // work was taken back; pass its argument to EndApply on the session's thread. Until then the fragment belongs to
  // the executor, as after BeginForm, but its unresolved contribution may be read or dropped; both wait.
  void BeginApply(FragmentVersion reached, Standing standing, Digest expected_hash, uint64_t task,
                  std::function<void(ApplyEnded)> tell);
  // False: Install or AdoptOuter took the work back, or the work belonged to an earlier job.
  bool EndApply(const ApplyEnded& ended);
  // For an idle caller: runs applications of updates that have not begun, on this thread, and waits for others.
  void FinishApplies();

  // Settle the local parameters after Apply, Leap or Install; KeepLocal leaves them as they are. Done on return,
  // except merges by the device after the first kFormingProofs ones: these are enqueued on the compute stream.
  absl::Status Resolve(FragmentIndex fragment, Standing standing, double mix);
  absl::Status KeepLocal(FragmentIndex fragment);  // after Apply, if the job dropped this worker's sync
  absl::Status AdoptOuter(FragmentIndex fragment);

  // Send. Copies the fragment at most: after ReleaseParameters the local parameters may change, and the executor
  // forms the contribution from the old ones. `tell` is called once, on any thread, perhaps before the return, or
  // never if the work was taken back; pass its argument to EndForm on the session's thread. Until then only Install,
  // AdoptOuter and DropContribution may be called for the fragment. They take the work back, and its result, if any,
  // is then ignored. `task` is a number unique to this call. There is memory for one copy on a CPU, and one encoder
  // on a GPU: if another fragment's contribution still uses it, that is finished first. `at_rest`: no step is
  // expected meanwhile, so on a CPU the contribution is formed from the parameters themselves, without a copy.
  void BeginForm(FragmentVersion target, uint64_t task, bool at_rest, std::function<void(FormingEnded)> tell);
  // Call before other code changes local parameters: finishes contributions formed from the
  // parameters themselves.
  void ReleaseParameters();
  // False: the work was taken back. Otherwise unresolved() is its contribution, unless the status has an error.
  bool EndForm(const FormingEnded& ended);
  // Why the host forms contributions and merges although the device should; OK otherwise. Set by Create, or at any
  // later time when work on the device cannot begin, or when a checked result fails or differs.
  const absl::Status& forming_refused() const { return forming_refused_; }

  const StoredContribution* unresolved(FragmentIndex fragment) const;
  void DropContribution(FragmentIndex fragment);
  // Does nothing so far: a revision of the spec does not change codecs and patterns, which are fixed at submit.
  void ChangeSpec(const JobSpec&) {}
  // The whole arena of outer copies, in the job's layout.
  std::span<float> outer() { return outer_; }

 private:
  struct FragmentSlot {
    std::optional<FragmentReplica> replica;
    std::unique_ptr<HostWindow> window;
    std::span<float> local;                     // device memory
    uint32_t proofs = 0;                        // device contributions equal to the host's
    uint32_t merge_proofs = 0;                  // device merges equal to the host's
    std::unique_ptr<DeviceWork> merging;        // reads the outer copy; null: none
    absl::Status differs;                       // the device's error, or its difference from the host; OK: none
    std::shared_ptr<CancellableTask> forming;   // null: none running
    std::shared_ptr<CancellableTask> applying;  // null: none running
    uint64_t task = 0;                          // number of the running one; 0: none
    bool in_place = false;                      // the running work reads the parameters themselves
    std::optional<FetchedBytes> whole;
    std::map<Version, FetchedBytes> updates;
  };
  Replicas(Executor& executor, SyncThreads threads) : executor_(executor), threads_(threads) {}
  FragmentSlot& At(FragmentIndex fragment) { return fragments_[fragment.value]; }
  const FragmentSlot& At(FragmentIndex fragment) const { return fragments_[fragment.value]; }
  absl::StatusOr<FetchedBytes> TakeWhole(FragmentIndex fragment, Version version);
  absl::StatusOr<FetchedBytes> TakeUpdate(FragmentSlot& slot, Version version, Digest expected_hash);
  FragmentSlot& CheckIdle(FragmentIndex fragment);      // requires that nothing is running
  FragmentSlot& CancelPending(FragmentIndex fragment);  // cancels running work, or waits for it
  // Null if the task was taken back, or is of an earlier job; otherwise the fragment belongs to the session again.
  FragmentSlot* EndTask(FragmentIndex fragment, uint64_t task);
  absl::StatusOr<std::span<float>> Read(FragmentSlot& slot);
  absl::Status Write(FragmentSlot& slot);
  absl::Status OpenEncoder(Device& device, const JobSpec& spec);
  ErrorPlaces ErrorPlacesOf(const FragmentInfo& fragment);
  bool BeginOnDevice(FragmentSlot& slot);  // false: the host forms it
  void TakeVerdict(FragmentSlot& slot);
  void Refuse(absl::Status why);  // stops using the device
  absl::Status Merge(FragmentSlot& slot, double mix);
  absl::Status MergeOnHost(FragmentSlot& slot, double mix);
  absl::Status MergeByBoth(FragmentSlot& slot, double mix);
  // Whether the device's merge equals `wanted`; does not undo its change of local.
  absl::Status ProveMerge(FragmentSlot& slot, double mix, std::span<const float> wanted);
  absl::Status BeginSnapshot(FragmentSlot& slot);  // into copy_ on a CPU
  // Called on the executor.
  absl::Status FormFromSnapshot(FragmentSlot& slot);
  absl::Status FormOnDevice(FragmentSlot& slot, bool prove);
  absl::Status ProveAgainstHost(FragmentSlot& slot, const FormedParts& parts);

  Executor& executor_;
  const SyncThreads threads_;
  // For a device that forms contributions; otherwise null, and the host's memory is used.
  std::unique_ptr<PinnedFloats> pinned_outer_, pinned_residual_, pinned_pending_;
  std::unique_ptr<DeviceEncoder> encoder_;
  const FragmentSlot* encoder_user_ = nullptr;  // fragment of the encoder's contribution
  absl::Status forming_refused_;
  std::vector<float> own_outer_;
  std::span<float> outer_;
  size_t largest_copied_ = 0;                     // elements of the largest fragment that copy_ may hold
  std::vector<float> copy_;                       // for the contribution formed by copy_reader_; empty until needed
  std::shared_ptr<CancellableTask> copy_reader_;  // the newest work that reads copy_ or uses the encoder
  std::vector<FragmentSlot> fragments_;
  ModelLayout layout_;
  CodecKind download_codec_ = CodecKind::kFp32;
  ErrorMemory upload_error_memory_ = ErrorMemory::kOff;
  void* compute_stream_ = nullptr;
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_REPLICAS_H_
