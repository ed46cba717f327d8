// SPDX-License-Identifier: Apache-2.0
// The loss of a fragment's upload codec, kept for the next contribution (docs/design.md section 3,
// "Residuals"; 2407.04480).
//
//   off       nothing is kept.
//   feedback  pending := loss, in fp32.
//   loco      pending := beta * memory + (1 - beta) * loss, stored as the int8 codec stores it; memory is cleared by
//             every `reset_syncs`-th Commit.
//
// The store is transactional: encoding gives a pending memory, and the old memory stays until the contribution's fate
// is known. Then Commit takes a share of it. Begin -> { MemoryAt, Keep } for each block -> Commit | Discard.
//
// Bytes of memory for N elements: feedback 4N, and 4N more while pending, both in the owner's memory if it gives
// ErrorPlaces; loco about N, and about N more while pending. Thread rule: calls on one object must not overlap,
// except MemoryAt, Keep and PendingAt for different blocks.
#ifndef ATOLL_WORKER_REPLICA_ERROR_STORE_H_
#define ATOLL_WORKER_REPLICA_ERROR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/plan/job_spec.h"

namespace atl {

// The owner's memory for `feedback`, which outlives the store: equal sizes, zeros in `memory`.
struct ErrorPlaces {
  std::span<float> memory{}, pending{};
};

class ErrorStore {
 public:
  // Starts with zeros. `places`, if given, replace memory of the store's own. Their owner writes only between Begin
  // and Commit, and only to the span that PendingAt returns: Commit may swap the two memories.
  ErrorStore(ErrorMemory kind, const LocoSpec& loco, size_t elements, const ErrorPlaces& places = {});

  bool Remembers() const { return kind_ != ErrorMemory::kOff; }

  // Opens a pending memory; an older one is discarded.
  void Begin();
  // The memory of the elements from `at` on, in `scratch` if it is not stored as fp32; empty when off. Here and
  // below `at` is a multiple of kCodecBlock, and the span is one codec block or reaches the end.
  std::span<const float> MemoryAt(size_t at, std::span<float> scratch) const;
  // The whole memory as stored; empty unless `feedback`.
  std::span<const float> Memory() const { return kind_ == ErrorMemory::kFeedback ? memory_ : std::span<float>(); }
  // The whole pending memory, with `feedback` from Begin until Commit or Discard; otherwise empty.
  std::span<const float> Pending() const { return pending_; }
  // Sets the pending memory of these elements from the codec's loss. Requires Begin. No effect when off.
  void Keep(size_t at, std::span<const float> lost);
  // The destination of Keep, for a caller that computes the loss in place. Empty unless `feedback`.
  std::span<float> PendingAt(size_t at, size_t elements);
  // The contribution counted: memory := (1 - share) * memory + share * pending, with `share` in [0, 1] (1 - mix;
  // docs/adr/0024); with loco, every `reset_syncs`-th call clears instead. Requires Keep for every block.
  void Commit(double share);
  // The contribution does not count: the old memory stays.
  void Discard();
  // Memory := 0, nothing pending, the count of syncs restarts.
  void Clear();

  // The memory as fp32; empty when off.
  std::vector<float> Values() const;

 private:
  // `elements_` values, aligned to a cache line, so that losses can be written past the caches
  // (common/codec/fused.h).
  struct Floats {
    std::unique_ptr<float[]> block;
    std::span<float> values;
  };
  Floats NewFloats() const;
  void BlendSmall(double share);
  void Read(size_t at, std::span<float> out) const;

  ErrorMemory kind_;
  LocoSpec loco_;
  size_t elements_;
  uint32_t syncs_ = 0;                            // since the last reset
  ErrorPlaces places_;                            // the owner's, or empty
  Floats own_memory_, own_pending_;               // feedback without places; the second is written before it is read
  std::span<float> memory_, pending_;             // feedback: the ones in use; the second is empty except after Begin
  std::vector<std::byte> small_, small_pending_;  // loco: encoded as int8
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_ERROR_STORE_H_
