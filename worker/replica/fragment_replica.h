// SPDX-License-Identifier: Apache-2.0
// One fragment's part of the method at a worker: the rules Send, Apply, Merge, Not a contributor, Residual,
// deviant and joiner of docs/design.md section 3 as separate operations over spans. worker/core decides when
// each one runs; this room does the arithmetic. No LibTorch, clock, file or log.
//
//   Install -> [AdoptOuter] -> { [FormContribution] -> ApplyUpdate | Leap -> Resolve... | KeepLocal | AdoptOuter }*
//
//   state        meaning                                   leaves by
//   kEmpty       no outer copy yet                         Install
//   kReady       outer copy at version()                   FormContribution (stays), ApplyUpdate, Leap
//   kUnsettled   outer copy moved, local not yet           ResolveAsContributor, ResolveAhead,
//                                                          ResolveAsNonContributor, KeepLocal, AdoptOuter
//   kDeviant     outer copy has another hash than it must  Install
//
// Install is allowed in every state. `local` is the worker's own parameters of the fragment: the arena's range on a
// CPU, a host window of it on a GPU (worker/device). Operations on `local` are called at a step boundary. Only these
// operations may run in parallel with training: FormContribution on a copy of `local`; TakeFormed and ApplyUpdate,
// which do not touch `local`. Thread rule: calls on one object must not overlap. Operations with a thread count
// distribute their loop over that many threads (common/base/spread.h); the result does not depend on the count.
//
// Bytes of memory for N elements: the outer copy (the caller's, 4N); the error memory (worker/replica/error_store.h);
// the encoded contribution until resolved; 4N from ApplyUpdate, unless as a contributor, or Leap until resolved.
#ifndef ATOLL_WORKER_REPLICA_FRAGMENT_REPLICA_H_
#define ATOLL_WORKER_REPLICA_FRAGMENT_REPLICA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/buffer_shelf.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/vecmath/vecmath.h"
#include "worker/core/standing.h"
#include "worker/replica/error_store.h"

namespace atl {

struct ReplicaOptions {
  CodecKind upload_codec = CodecKind::kFp32;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  LocoSpec loco{};
  Digest layout_digest{};                  // of the job's ModelLayout; part of every content hash
  std::shared_ptr<BufferShelf> buffers{};  // for contributions, shared by the replicas of one job; null: none is kept
  ErrorPlaces error_places{};              // of this fragment, if a device writes the losses
};

// The inputs and outputs of a contribution, besides its bytes, for code that forms it instead of
// FormContribution: h = (outer - local) + residual, lost = h - D(Q(h)). Without an error memory
// `residual` and `lost` are empty.
struct ContributionParts {
  std::span<const float> outer{}, residual{};
  std::span<float> lost{};
};

// The results of FormContribution for one block of kCodecBlock elements.
struct FormedBlock {
  vecmath::BlockStats sent;
  double lost_squares = 0;
};

// Sums over the blocks of a contribution, added in order. The codec's loss is for metrics: unless
// an error memory keeps it, it is estimated from at most kLossBlocks evenly spread blocks, and the
// others need not be decoded.
constexpr size_t kLossBlocks = 64;
class ContributionSums {
 public:
  ContributionSums(uint64_t elements, ErrorMemory memory);
  // Whether that block's lost_squares count.
  bool AsksForLoss(size_t block) const { return block % stride_ == 0; }
  void Add(const FormedBlock& block);
  bool finite() const { return finite_; }  // of all blocks
  double norm() const;
  double lost_norm() const;

 private:
  const size_t stride_;  // between blocks with a counted loss
  size_t block_ = 0;
  bool finite_ = true;
  double squares_ = 0, asked_squares_ = 0, lost_squares_ = 0;
};

// A contribution, stored until its fate is known: a retransmission sends the same bytes.
struct StoredContribution {
  Version version;                                        // base of the delta
  std::shared_ptr<const std::vector<std::byte>> encoded;  // shared with the sender; immutable
  Digest digest;                                          // XXH3-128 of the bytes
  double norm = 0;                                        // L2 of the codec's input, for metrics
  double lost_norm = 0;                                   // L2 of the codec's loss, or an estimate of it
};

// An outer update as received. `encoded` is borrowed for the call.
struct OuterUpdate {
  Version reached{};  // v + 1
  Bytes encoded{};
  Digest hash{};  // ContentHash of the fragment at `reached`
};

using worker::Standing;
enum class ReplicaState { kEmpty, kReady, kUnsettled, kDeviant };
enum class ApplyVerdict { kApplied, kDeviant };

class FragmentReplica {
 public:
  // `outer` is caller-owned and must outlive the object; its values do not matter until Install.
  // InvalidArgument if `outer` is empty.
  static absl::StatusOr<FragmentReplica> Create(std::span<float> outer, const ReplicaOptions& options);

  // Clears the residual and withdraws an unresolved contribution (new incarnation, full fetch, healing). Then checks
  // the content hash of `fragment`, which may be the already filled outer span itself, and takes it as the outer copy
  // at `version`. DataLoss if the hash differs: the state is then kEmpty. InvalidArgument, with nothing changed, for
  // a wrong size. Does not touch local parameters: AdoptOuter follows.
  absl::Status Install(std::span<const float> fragment, Version version, Digest hash);

  // Send: delta = outer - local, plus the residual; encoded, stored, labelled with version(). The pointer is valid
  // until the contribution is resolved or dropped. FailedPrecondition: one is unresolved (skip this send), or the
  // state is not kReady. InvalidArgument, with nothing stored: wrong size, a non-finite value, or an overflow.
  absl::StatusOr<const StoredContribution*> FormContribution(std::span<const float> local, unsigned threads = 1);
  // FormContribution in two parts, for code that forms the contribution elsewhere. BeginForming returns the inputs
  // and outputs. TakeFormed takes the encoded bytes, with one entry of `blocks` per codec block, also for a partial
  // last one. In between only operations that withdraw a contribution may be called, after which TakeFormed is not
  // called. BeginForming: FailedPrecondition as FormContribution; Unimplemented with loco, which does not store fp32.
  // TakeFormed: FailedPrecondition as FormContribution; InvalidArgument for a non-finite block, and for a wrong size.
  absl::StatusOr<ContributionParts> BeginForming();
  absl::StatusOr<const StoredContribution*> TakeFormed(Bytes encoded, std::span<const FormedBlock> blocks);
  // The codec's loss of the contribution being formed, or of the unresolved one; empty unless with `feedback`.
  std::span<const float> PendingLoss() const { return errors_.Pending(); }
  // Null if none is unresolved.
  const StoredContribution* unresolved() const { return unresolved_ ? &*unresolved_ : nullptr; }

  // The unresolved contribution will not count (refused, lost, dropped): discards pending residual
  // and bytes; the old residual stays. No effect if there is none. The update of that version is
  // then applied as kNotContributor.
  void DropContribution();

  // Apply: outer += D(q), then compares the hash. `standing`: whether the update includes this worker's contribution,
  // and whether that was sent ahead (standing.h). kDeviant: the hash differs, and the contribution is withdrawn;
  // fetch and Install the fragment. FailedPrecondition: wrong state, an update that does not reach version() + 1, or
  // a contributor without an unresolved contribution. InvalidArgument: wrong size. Errors change nothing.
  absl::StatusOr<ApplyVerdict> ApplyUpdate(const OuterUpdate& update, Standing standing, unsigned threads = 1);

  // As ApplyUpdate, over several versions at once: outer becomes `fragment` (little-endian fp32), the whole
  // fragment at `version`, as if each update up to it had been applied as kNotContributor. FailedPrecondition:
  // wrong state, a version that is not newer, an unresolved contribution (it may be in a skipped version).
  // InvalidArgument: wrong size. DataLoss: another hash. On an error nothing is changed.
  absl::Status Leap(Bytes fragment, Version version, Digest hash);

  // After ApplyUpdate as kContributor: local := mix * local + (1 - mix) * outer; residual := (1 - mix) *
  // pending + mix * residual, so that delta + residual is the codec's loss for every mix (docs/adr/0024). `mix`
  // is the job's alpha, or 1 if the update came after its deadline (local and residual stay unchanged).
  absl::Status ResolveAsContributor(std::span<float> local, double mix, unsigned threads = 1);
  // CheckMayMerge: the error that ResolveAsContributor would return, except for a wrong size; call it before `local`
  // is merged elsewhere. ResolveMerged: as ResolveAsContributor, without the merge and the need of `local`.
  absl::Status CheckMayMerge(double mix) const;
  absl::Status ResolveMerged(double mix);
  // After ApplyUpdate as kAhead: local += outer(v+1) - outer(v) + D(q), with the contribution q.
  // This removes the contributed work from local's own change, because outer now has it. The steps
  // since the send and the codec's loss stay in `local`; the old residual stays too (docs/adr/0007).
  absl::Status ResolveAhead(std::span<float> local);
  // After ApplyUpdate as kNotContributor, or Leap: local += outer(v+1) - outer(v); the old residual
  // stays. Drops an unresolved contribution against v.
  absl::Status ResolveAsNonContributor(std::span<float> local);

  // After ApplyUpdate as kNotContributor, if the job dropped this worker's sync on purpose: local
  // stays unchanged, so that the next delta includes the change of the outer copy too (DiLoCo
  // 2311.08105, "Dropped communication"); the old residual stays.
  absl::Status KeepLocal();

  // local := outer, residual := 0, withdraws an unresolved contribution: for a joiner, revoked
  // leases, max_missed, a deviant. FailedPrecondition in kEmpty and kDeviant. The state is then kReady.
  absl::Status AdoptOuter(std::span<float> local);

  ReplicaState state() const { return state_; }
  Version version() const { return version_; }
  std::span<const float> outer() const { return outer_; }
  // The residual, as fp32: earlier losses that the next contribution includes. Empty when error memory is off.
  std::vector<float> Residual() const { return errors_.Values(); }

 private:
  FragmentReplica(std::span<float> outer, const ReplicaOptions& options);
  absl::Status CheckLocal(std::span<const float> local) const;
  absl::Status RequireState(ReplicaState wanted, const char* verb) const;
  absl::Status CheckMayForm() const;
  absl::Status NotFinite(size_t at);
  FormedBlock EncodeBlock(std::span<const float> local, size_t at, std::span<std::byte> q, bool asks_for_loss);

  std::span<float> outer_;
  ReplicaOptions options_;
  ReplicaState state_ = ReplicaState::kEmpty;
  Version version_;
  std::optional<StoredContribution> unresolved_;
  ErrorStore errors_;
  std::vector<float> difference_;                  // outer(v+1) - outer(v) while unsettled, except as kContributor
  Standing standing_ = Standing::kNotContributor;  // valid in kUnsettled
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_FRAGMENT_REPLICA_H_
