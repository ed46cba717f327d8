// SPDX-License-Identifier: Apache-2.0
// What a fragment's upload codec lost, for the next contribution (docs/design.md section 3, "Residuals"; 2407.04480).
//
//   off       nothing is kept.
//   feedback  the newest loss, whole: fp32.
//   loco      memory := beta * memory + (1 - beta) * loss, stored as the int8 codec stores it, cleared after every
//             `reset_syncs` syncs that counted.
//
// It is transactional: encoding gives a pending memory, and the old one stands until the fate of the contribution is
// known. Begin -> { AddTo, Keep } for each block -> Commit | Discard.
//
// Memory, N elements: feedback 4N, and 4N more while pending, its own or its owner's; loco about N, and about N more
// while pending. Thread rule: calls on one object must not overlap, but that MemoryAt,
// Keep and PendingAt may for different blocks.
#ifndef ATOLL_WORKER_SYNC_ERROR_STORE_H_
#define ATOLL_WORKER_SYNC_ERROR_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/plan/job_spec.h"

namespace atl {

// Memory of the owner's for `feedback`, which outlives the store: as many elements each, zeros in `memory`.
struct ErrorPlaces {
  std::span<float> memory{}, pending{};
};

class ErrorStore {
 public:
  // Nothing remembered yet. Where `places` are given they are used in the place of memory of its own; the owner writes
  // between Begin and Commit alone, and to what Pending says alone: the two change places with each other.
  ErrorStore(ErrorMemory kind, const LocoSpec& loco, size_t elements, const ErrorPlaces& places = {});

  bool Remembers() const { return kind_ != ErrorMemory::kOff; }

  // Opens a pending memory; an older one is discarded.
  void Begin();
  // The memory of the elements from `at` on, in `scratch` where it is not held as fp32; empty when off. Here and below
  // `at` is a multiple of kCodecBlock, and the span is one codec block or reaches the end.
  std::span<const float> MemoryAt(size_t at, std::span<float> scratch) const;
  // The whole memory as it is held; empty unless `feedback`.
  std::span<const float> Memory() const { return kind_ == ErrorMemory::kFeedback ? memory_ : std::span<float>(); }
  // The whole pending memory; empty unless `feedback` after Begin.
  std::span<const float> Pending() const { return pending_; }
  // The pending memory of these elements, from what the codec lost of them. Requires Begin. No effect when off.
  void Keep(size_t at, std::span<const float> lost);
  // Where Keep would copy what was lost to, for a caller that computes it in place. Empty unless `feedback`.
  std::span<float> PendingAt(size_t at, size_t elements);
  // The contribution counted: memory := (1 - share) * memory + share * pending, with `share` in [0, 1] (1 - mix;
  // docs/adr/0024). Requires Keep for every block. Counts a sync. With a share of 1 nothing is copied.
  void Commit(double share);
  // The contribution does not count: the old memory stands.
  void Discard();
  // Memory := 0, nothing pending, the count of syncs starts again.
  void Clear();

  // The memory as fp32; empty when off.
  std::vector<float> Values() const;

 private:
  // `elements_` values of its own, from a whole cache line on: what is lost can then go past the caches
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
  ErrorPlaces places_;                            // of the owner's, or empty
  Floats own_memory_, own_pending_;               // feedback, without places; the second is written before it is read
  std::span<float> memory_, pending_;             // feedback: either's; the second is empty but after Begin
  std::vector<std::byte> small_, small_pending_;  // loco: encoded as int8
};

}  // namespace atl

#endif  // ATOLL_WORKER_SYNC_ERROR_STORE_H_
