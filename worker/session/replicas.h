// SPDX-License-Identifier: Apache-2.0
// The fragments of one job: the arena of outer copies, a replica and a host window for each, and the bytes that were
// fetched and not used yet. Verbs as in worker/sync; here they meet the parameters through worker/device.
// Owned by the session's thread; what takes long runs on an executor beside training, and until it is over that
// fragment is the executor's.
//
// Memory on a CPU: besides the outer copies and what worker/sync holds, a copy of the largest fragment. Where a GPU
// forms contributions (worker/device/former.h), its scratch for the largest fragment, and that fragment's bytes in
// pinned memory; outer copies and both residuals are pinned then.
#ifndef ATOLL_WORKER_SESSION_REPLICAS_H_
#define ATOLL_WORKER_SESSION_REPLICAS_H_

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
#include "worker/device/former.h"
#include "worker/link/link.h"
#include "worker/session/errand.h"
#include "worker/session/job.h"
#include "worker/sync/fragment_replica.h"

namespace atl {

// What BeginForm began is over.
struct FormingEnded {
  FragmentVersion target;
  uint64_t errand = 0;  // the number that BeginForm was given
  absl::Status status;  // of FragmentReplica::FormContribution, or of the device
};

// What BeginApply began is over.
struct ApplyEnded {
  FragmentVersion reached;
  uint64_t errand = 0;
  absl::StatusOr<ApplyVerdict> verdict;  // of FragmentReplica::ApplyUpdate
};

// A device that forms contributions, and merges, is not taken at its word: each fragment's first ones, so many, are the
// host's as well, whose result stands, and compared to the bit. Where they differ the host does all that follow.
constexpr uint32_t kFormingProofs = 2;

class Replicas {
 public:
  // `parameters` is the local arena on `device`; both outlive the object, as does the executor. A device that cannot
  // form contributions is no error: forming_refused says why.
  static absl::StatusOr<std::unique_ptr<Replicas>> Create(const ModelLayout& layout, const JobSpec& spec,
                                                          Device& device, std::span<float> parameters,
                                                          void* compute_stream, Executor& executor,
                                                          FormedBy formed_by = FormedBy::kHost,
                                                          SyncThreads threads = {});
  ~Replicas();  // what is under way is taken back

  // Size of a fragment whole, and of an encoded update of it.
  uint64_t FragmentBytes(FragmentIndex fragment) const;
  uint64_t UpdateBytes(FragmentIndex fragment) const;

  // Fetched bytes wait here for Install or Apply.
  void Keep(FetchedBytes fetched);
  void DropKept(FragmentIndex fragment);
  // NotFound when they were not kept; DataLoss for another hash or size.
  absl::Status Install(FragmentIndex fragment, Version version);
  // The same for a fragment that has an outer copy: FragmentReplica::Leap.
  absl::Status Leap(FragmentIndex fragment, Version version);
  absl::StatusOr<ApplyVerdict> Apply(FragmentVersion reached, Standing standing, Digest expected_hash);
  // The same on the executor, while local parameters change. `tell` is called once, in any thread, and what it told is
  // given to EndApply in the session's; until then the fragment is the executor's as between BeginForm and EndForm, and
  // may be asked for its unresolved contribution, or be told to drop it, besides: both wait.
  void BeginApply(FragmentVersion reached, Standing standing, Digest expected_hash, uint64_t errand,
                  std::function<void(ApplyEnded)> tell);
  // False: the fragment was installed since.
  bool EndApply(const ApplyEnded& ended);
  // For who has nothing else to do: what was begun and waits for the executor is done here.
  void FinishApplies();

  // Verbs that read or change local parameters; done on return, or enqueued on the compute stream where the device
  // merges.
  absl::Status Resolve(FragmentIndex fragment, Standing standing, double mix);
  absl::Status KeepLocal(FragmentIndex fragment);  // after Apply, where the job dropped this worker's sync
  absl::Status AdoptOuter(FragmentIndex fragment);

  // Send. What the training thread pays is at most a copy of the fragment: after ReleaseParameters the local parameters
  // may change, and the contribution that is formed on the executor is that of before. `tell` is called once, in any
  // thread, and what it told is given to EndForm in the session's; until then no other verb of the fragment may be
  // called but Install, AdoptOuter and DropContribution, which take back what was begun: then it is told of, if at all,
  // to no effect. `errand` is a number that no other call was given. On a CPU there is memory for one copy: where that
  // of another fragment is still being read, its contribution is formed first. `at_rest`: no step is expected
  // meanwhile, so that on a CPU the contribution is formed of the parameters themselves, and no memory for a copy is
  // taken.
  void BeginForm(FragmentVersion target, uint64_t errand, bool at_rest, std::function<void(FormingEnded)> tell);
  // Before anyone but the verbs of this class changes local parameters: what is formed of themselves is formed first.
  void ReleaseParameters();
  // False: it was taken back. Otherwise unresolved() is there, unless the status says why not.
  bool EndForm(const FormingEnded& ended);
  // Why the host forms contributions and merges although the device was to: one sentence; OK else. It may come with any
  // of the first.
  const absl::Status& forming_refused() const { return forming_refused_; }

  const StoredContribution* unresolved(FragmentIndex fragment) const;
  void DropContribution(FragmentIndex fragment);
  // Nothing of what a revision may change is kept here so far; codecs and patterns are fixed at submit.
  void ChangeSpec(const JobSpec&) {}
  // The whole arena of outer copies, in the job's layout.
  std::span<float> outer() { return outer_; }

 private:
  struct One {
    std::optional<FragmentReplica> replica;
    std::unique_ptr<HostWindow> window;
    std::span<float> local;               // memory of the device
    uint32_t proofs = 0;                  // contributions of the device that were the host's
    uint32_t merge_proofs = 0;            // merges likewise
    std::unique_ptr<DeviceWork> merging;  // which reads the outer copy; null: nothing does
    absl::Status differs;                 // of a contribution of the device that was not the host's
    std::shared_ptr<Errand> forming;      // null: nothing is under way
    std::shared_ptr<Errand> applying;     // likewise
    uint64_t errand = 0;                  // the number of either; 0: none
    bool in_place = false;                // what is under way reads the parameters themselves
    std::optional<FetchedBytes> whole;
    std::map<Version, FetchedBytes> updates;
  };
  Replicas(Executor& executor, SyncThreads threads) : executor_(executor), threads_(threads) {}
  One& At(FragmentIndex fragment) { return fragments_[fragment.value]; }
  const One& At(FragmentIndex fragment) const { return fragments_[fragment.value]; }
  absl::StatusOr<FetchedBytes> TakeWhole(FragmentIndex fragment, Version version);
  absl::StatusOr<FetchedBytes> TakeUpdate(One& one, Version version, Digest expected_hash);
  One& Idle(FragmentIndex fragment);       // nothing of it is under way
  One& TakenBack(FragmentIndex fragment);  // nor any more
  // Null where it was taken back; otherwise the fragment is the session's again.
  One* EndErrand(FragmentIndex fragment, uint64_t errand);
  absl::StatusOr<std::span<float>> Read(One& one);
  absl::Status Write(One& one);
  absl::Status OpenFormer(Device& device, const JobSpec& spec);
  ErrorPlaces ErrorPlacesOf(const FragmentInfo& fragment);
  bool BeginOnDevice(One& one);  // false: the host forms it
  void TakeVerdict(One& one);
  void Refuse(absl::Status why);  // the device from now on
  absl::Status Merge(One& one, double mix);
  absl::Status MergeOnHost(One& one, double mix);
  absl::Status MergeByBoth(One& one, double mix);
  // Whether the device's merge is `wanted`; what it left in local is not undone.
  absl::Status ProveMerge(One& one, double mix, std::span<const float> wanted);
  absl::Status BeginSnapshot(One& one);  // into copy_ on a CPU
  // On the executor.
  absl::Status FormFromSnapshot(One& one);
  absl::Status FormOnDevice(One& one, bool prove);
  absl::Status ProveAgainstHost(One& one, const FormedParts& parts);

  Executor& executor_;
  const SyncThreads threads_;
  // Of a device that forms contributions; null, and its memory the host's own, else.
  std::unique_ptr<PinnedFloats> pinned_outer_, pinned_residual_, pinned_pending_;
  std::unique_ptr<Former> former_;
  const One* former_user_ = nullptr;  // whose contribution the former was begun with
  absl::Status forming_refused_;
  std::vector<float> own_outer_;
  std::span<float> outer_;
  size_t largest_copied_ = 0;            // fragment, of those whose window is the memory itself
  std::vector<float> copy_;              // of the one that copy_reader_ forms; empty until it is needed
  std::shared_ptr<Errand> copy_reader_;  // or of the fragment that the former forms
  std::vector<One> fragments_;
  ModelLayout layout_;
  CodecKind download_codec_ = CodecKind::kFp32;
  ErrorMemory upload_error_memory_ = ErrorMemory::kOff;
  void* compute_stream_ = nullptr;
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_REPLICAS_H_
