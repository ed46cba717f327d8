// The fragments of one job: the arena of outer copies, a replica and a host window for each, and the bytes that were
// fetched and not used yet. Verbs as in worker/sync; here they meet the parameters through worker/device.
// Owned by the session's thread.
#ifndef ATOLL_WORKER_SESSION_REPLICAS_H_
#define ATOLL_WORKER_SESSION_REPLICAS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/device/device.h"
#include "worker/link/link.h"
#include "worker/sync/fragment_replica.h"

namespace atl {

class Replicas {
 public:
  // `parameters` is the local arena on `device`; both outlive the object.
  static absl::StatusOr<std::unique_ptr<Replicas>> Create(const ModelLayout& layout, const JobSpec& spec,
                                                          Device& device, std::span<float> parameters,
                                                          void* compute_stream);

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

  // Verbs that read or change local parameters; done on return.
  absl::Status Resolve(FragmentIndex fragment, Standing standing, double mix);
  absl::Status KeepLocal(FragmentIndex fragment);  // after Apply, where the job dropped this worker's sync
  absl::Status AdoptOuter(FragmentIndex fragment);
  absl::StatusOr<const StoredContribution*> Form(FragmentIndex fragment);

  const StoredContribution* unresolved(FragmentIndex fragment) const { return At(fragment).replica->unresolved(); }
  void DropContribution(FragmentIndex fragment) { At(fragment).replica->DropContribution(); }
  // Nothing of what a revision may change is kept here so far; codecs and patterns are fixed at submit.
  void ChangeSpec(const JobSpec&) {}
  // The whole arena of outer copies, in the job's layout.
  std::span<float> outer() { return outer_; }

 private:
  struct One {
    std::optional<FragmentReplica> replica;
    std::unique_ptr<HostWindow> window;
    std::optional<FetchedBytes> whole;
    std::map<Version, FetchedBytes> updates;
  };
  Replicas() = default;
  One& At(FragmentIndex fragment) { return fragments_[fragment.value]; }
  const One& At(FragmentIndex fragment) const { return fragments_[fragment.value]; }
  absl::StatusOr<FetchedBytes> TakeWhole(FragmentIndex fragment, Version version);
  absl::StatusOr<std::span<float>> Read(One& one);
  absl::Status Write(One& one);

  std::vector<float> outer_;
  std::vector<One> fragments_;
  ModelLayout layout_;
  CodecKind download_codec_ = CodecKind::kFp32;
  void* compute_stream_ = nullptr;
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_REPLICAS_H_
