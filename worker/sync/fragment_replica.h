// SPDX-License-Identifier: Apache-2.0
// One fragment's side of the method at a worker: the rules Send, Apply, Merge, Not a contributor, Residual, deviant and
// joiner of docs/design.md section 3 as separate verbs over spans. worker/core decides when each verb runs; this room
// does the arithmetic. No LibTorch, clock, file or log.
//
//   Install -> [AdoptOuter] -> { FormContribution -> ApplyUpdate -> Resolve... | KeepLocal }*
//
//   state        meaning                                   leaves by
//   kEmpty       no outer copy yet                         Install
//   kReady       outer copy at version()                   FormContribution (stays), ApplyUpdate, Leap
//   kUnsettled   outer copy moved, local not yet           ResolveAsContributor, ResolveAhead,
//                                                          ResolveAsNonContributor, KeepLocal, AdoptOuter
//   kDeviant     outer copy has another hash than it must  Install
//
// `local` is the worker's own parameters of the fragment: the arena's range on a CPU, a host window of it on a GPU
// (worker/device). Verbs that take it are called at a step boundary; ApplyUpdate does not touch it and may run beside
// training. Thread rule: calls on one object must not overlap. Verbs that take a number of threads share their loop out
// to so many (common/base/spread.h); what they do does not depend on it.
//
// Memory, N elements: the outer copy (caller's, 4N); the error memory (worker/sync/error_store.h); the encoded
// contribution until resolved; 4N between ApplyUpdate and resolving as a non-contributor or ahead.
#ifndef ATOLL_WORKER_SYNC_FRAGMENT_REPLICA_H_
#define ATOLL_WORKER_SYNC_FRAGMENT_REPLICA_H_

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
#include "worker/sync/error_store.h"

namespace atl {

struct ReplicaOptions {
  CodecKind upload_codec = CodecKind::kFp32;
  CodecKind download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  LocoSpec loco{};
  Digest layout_digest{};                  // of the job's ModelLayout; part of every content hash
  std::shared_ptr<BufferShelf> buffers{};  // of contributions, for replicas of one job together; empty: none is kept
  ErrorPlaces error_places{};              // of this fragment, where a device writes what is lost
};

// What a contribution is formed of and writes besides its bytes, for who forms it in the place of FormContribution:
// h = (outer - local) + residual, lost = h - D(Q(h)). Without an error memory there is no residual, and no loss is
// kept.
struct ContributionParts {
  std::span<const float> outer{}, residual{};
  std::span<float> lost{};
};

// A block of kCodecBlock elements of it, as FormContribution finds it.
struct FormedBlock {
  vecmath::BlockStats sent;
  double lost_squares = 0;
};

// What the blocks of a contribution, given in their order, say together. What the codec lost is for metrics: where no
// error memory keeps it, it is reckoned from at most kLossBlocks evenly spread blocks, and the others need not be
// decoded.
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
  const size_t stride_;  // of the blocks whose loss counts
  size_t block_ = 0;
  bool finite_ = true;
  double squares_ = 0, asked_squares_ = 0, lost_squares_ = 0;
};

// A contribution as it is kept until its fate is known: a retransmission sends the same bytes.
struct StoredContribution {
  Version version;                                        // measured against
  std::shared_ptr<const std::vector<std::byte>> encoded;  // shared with the sender; immutable
  Digest digest;                                          // XXH3-128 of the bytes
  double norm = 0;                                        // L2 of what was encoded, for metrics
  double lost_norm = 0;                                   // L2 of what the codec lost of it: ContributionSums
};

// An outer update as it arrives. `encoded` is borrowed for the call.
struct OuterUpdate {
  Version reached{};  // v + 1
  Bytes encoded{};
  Digest hash{};  // ContentHash of the fragment at `reached`
};

// kAhead: a contributor whose update comes later than overlap_steps after its send.
enum class Standing { kContributor, kAhead, kNotContributor };
enum class ReplicaState { kEmpty, kReady, kUnsettled, kDeviant };
enum class ApplyVerdict { kApplied, kDeviant };

class FragmentReplica {
 public:
  // `outer` is caller-owned and must outlive the object; its values do not matter until Install.
  // InvalidArgument when an option is not supported.
  static absl::StatusOr<FragmentReplica> Create(std::span<float> outer, const ReplicaOptions& options);

  // Takes `fragment` as the outer copy at `version`, after checking its content hash. Clears the residual and withdraws
  // an unresolved contribution (new incarnation, full fetch, healing). `fragment` may be the outer span itself, already
  // filled. DataLoss when the hash differs: then the state is kEmpty. Local parameters are not touched: AdoptOuter
  // follows.
  absl::Status Install(std::span<const float> fragment, Version version, Digest hash);

  // Send: delta = outer - local, plus the residual; encoded, kept, labelled with version(). The reference is valid
  // until resolved. FailedPrecondition: one is unresolved (skip this send), or the state is not kReady.
  // InvalidArgument: local holds a non-finite value, or the delta overflows; nothing is stored.
  absl::StatusOr<const StoredContribution*> FormContribution(std::span<const float> local, unsigned threads = 1);
  // The same in two steps, around who forms it elsewhere: its parts, and then what became of them, `blocks` being one
  // for each block begun. Until then no other verb may be called but those that withdraw a contribution, after which
  // TakeFormed is not called. BeginForming: FailedPrecondition as above; Unimplemented with loco, whose memory is not
  // held as fp32. TakeFormed: InvalidArgument for a block that is not finite, and for a wrong size.
  absl::StatusOr<ContributionParts> BeginForming();
  absl::StatusOr<const StoredContribution*> TakeFormed(Bytes encoded, std::span<const FormedBlock> blocks);
  // What the contribution being formed, or formed and unresolved, loses, as fp32; empty without feedback.
  std::span<const float> PendingLoss() const { return errors_.Pending(); }
  // Null when none is unresolved.
  const StoredContribution* unresolved() const { return unresolved_ ? &*unresolved_ : nullptr; }

  // The unresolved contribution will not count (refused, lost, dropped): pending residual and bytes are discarded, the
  // old residual stands. No effect when there is none. The update of that version is then applied as kNotContributor.
  void DropContribution();

  // Apply: outer += D(q), then the hash is compared. `standing` says whether this worker is in the update's list of
  // contributors. kDeviant: the contribution is withdrawn, fetch the fragment and Install it. FailedPrecondition: wrong
  // state, an update that does not reach version() + 1, or a contributor without an unresolved contribution for
  // version(). InvalidArgument: wrong size. On an error nothing is changed.
  absl::StatusOr<ApplyVerdict> ApplyUpdate(const OuterUpdate& update, Standing standing, unsigned threads = 1);

  // The same for a worker that is several versions behind: outer becomes `fragment` (little-endian fp32), the whole
  // fragment at `version`, as if each update up to it had been applied as kNotContributor. FailedPrecondition: wrong
  // state, a version that is not newer, an unresolved contribution (it may be in one of the versions leapt over).
  // InvalidArgument: wrong size. DataLoss: another hash. On an error nothing is changed.
  absl::Status Leap(Bytes fragment, Version version, Digest hash);

  // After ApplyUpdate as kContributor: local := mix * local + (1 - mix) * outer; residual := (1 - mix) * pending
  // + mix * residual, so that delta + residual is what the codec lost, whatever share was kept (docs/adr/0024). `mix`
  // is the job's alpha, or 1 when the update came after its deadline (local and residual stay as they are).
  absl::Status ResolveAsContributor(std::span<float> local, double mix, unsigned threads = 1);
  // The same where `local` is merged elsewhere, once CheckMayMerge has said nothing against it: all but the merge.
  absl::Status CheckMayMerge(double mix) const;
  absl::Status ResolveMerged(double mix);
  // After ApplyUpdate as kAhead: local += outer(v+1) - outer(v) + D(q), q being the contribution: what was contributed
  // is in the outer copy now, what was trained since the send stays, and with it what the codec lost; so the old
  // residual stands (docs/adr/0007).
  absl::Status ResolveAhead(std::span<float> local);
  // After ApplyUpdate as kNotContributor, or Leap: local += outer(v+1) - outer(v); the old residual stands. An
  // unresolved contribution measured against v is dropped.
  absl::Status ResolveAsNonContributor(std::span<float> local);

  // After ApplyUpdate as kNotContributor, where the job dropped this worker's sync on purpose: local stays as it is, so
  // that the next delta holds the way of the outer copy too (DiLoCo 2311.08105, "Dropped communication"); the old
  // residual stands.
  absl::Status KeepLocal();

  // local := outer, residual := 0, an unresolved contribution is withdrawn: joiner, leases taken back, max_missed,
  // deviant. FailedPrecondition in kEmpty and kDeviant. From kUnsettled it settles.
  absl::Status AdoptOuter(std::span<float> local);

  ReplicaState state() const { return state_; }
  Version version() const { return version_; }
  std::span<const float> outer() const { return outer_; }
  // What the next contribution carries of earlier errors. Empty when upload error memory is off.
  std::vector<float> Residual() const { return errors_.Values(); }
  // L2 of outer - local: how much drift the worker holds. Requires kReady. For metrics.
  double DriftNorm(std::span<const float> local) const;

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
  std::vector<float> difference_;                  // outer(v+1) - outer(v) while unsettled, but for kContributor
  Standing standing_ = Standing::kNotContributor;  // meaningful in kUnsettled
};

}  // namespace atl

#endif  // ATOLL_WORKER_SYNC_FRAGMENT_REPLICA_H_
