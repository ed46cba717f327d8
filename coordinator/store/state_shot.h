// SPDX-License-Identifier: Apache-2.0
// The state of a fragment as it is at one moment, for whoever writes it to a file meanwhile: where it is about to
// change before the writer is through, what is not written yet is copied. Thread-safe.
#ifndef ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
#define ATOLL_COORDINATOR_STORE_STATE_SHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/mutex.h"
#include "common/base/pages.h"
#include "common/base/reuse_pool.h"

namespace atl {

// Views; equal lengths. Empty momentum or residual means zeros.
struct FragmentArrays {
  std::span<const float> public_copy, momentum, residual;
};

// What shots of one fragment, one after the other, copy into.
using ShotCopies = ReusePool<Pages>;

class StateShot {
 public:
  static constexpr size_t kCopyBytes = size_t{1} << 20;

  // The arrays must stay as they are until Detach, or for the life of this. What Detach copies lies in room of
  // `copies`, so that the next shot finds memory that the system has cleared already; without one in room of its own.
  // `copy_bytes`: as much is copied at a time.
  explicit StateShot(const FragmentArrays& arrays, const std::shared_ptr<ShotCopies>& copies = nullptr,
                     size_t copy_bytes = kCopyBytes);

  uint64_t elements() const { return elements_; }
  // Behind these bytes there are zeros: of a residual that is empty, or of both.
  uint64_t filled_bytes() const { return filled_bytes_; }
  // Bytes of public copy, momentum and residual, one behind the other (12 bytes an element), from `offset`, which is
  // not below what was passed.
  void Read(uint64_t offset, std::span<std::byte> out) const ATOLL_EXCLUDES(mutex_);
  // Nobody reads below `offset` any more.
  void Passed(uint64_t offset) ATOLL_EXCLUDES(mutex_);
  // Before the arrays change or go: what may still be read of them is copied, from its end on, until that meets what
  // was passed meanwhile; later reads are of the copy. So it takes no longer than a copy of all of it, nor than whoever
  // reads, and memory for what it has copied. The second time it does nothing. One thread at a time.
  void Detach() ATOLL_EXCLUDES(mutex_);
  // A part of Detach; false: nothing is left of it.
  bool DetachSome() ATOLL_EXCLUDES(mutex_);
  // What Detach has copied.
  uint64_t copied_bytes() const ATOLL_EXCLUDES(mutex_);

 private:
  // Of the arrays themselves.
  void ReadArrays(uint64_t offset, std::span<std::byte> out) const;
  void ReadCopy(uint64_t offset, std::span<std::byte> out) const ATOLL_REQUIRES(mutex_);
  // Where a part of the state from `offset` on lies in the room: `bytes` of it, or what of them lies in one piece.
  // Parts of copy_bytes_ lie there in the order in which they are copied, so that each shot uses the memory of the one
  // before.
  std::span<std::byte> PlaceOf(uint64_t offset, size_t bytes) const ATOLL_REQUIRES(mutex_);
  // The place of the part from `from` to what is copied already; empty: nothing is left to copy.
  std::span<std::byte> NextToCopy(uint64_t& from) ATOLL_EXCLUDES(mutex_);

  const uint64_t elements_, filled_bytes_;
  const std::array<std::span<const std::byte>, 3> arrays_;  // public copy, momentum, residual; empty: zeros
  const size_t copy_bytes_;
  const std::shared_ptr<Pages> copy_;
  mutable Mutex mutex_;
  std::span<std::byte> room_ ATOLL_GUARDED_BY(mutex_);  // once Detach has begun
  uint64_t copied_from_ ATOLL_GUARDED_BY(mutex_);       // from here to filled_bytes_
  uint64_t passed_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
