// SPDX-License-Identifier: Apache-2.0
// The state of a fragment at one moment, for the writer of a snapshot while later rounds close. Before
// a round changes the arrays, Detach copies the part that the writer has not read yet. Thread-safe.
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

// Views of equal length. An empty momentum or residual means zeros.
struct FragmentArrays {
  std::span<const float> public_copy, momentum, residual;
};

// Memory for the copies, reused by successive shots of one fragment.
using ShotCopies = ReusePool<Pages>;

class StateShot {
 public:
  static constexpr size_t kCopyBytes = size_t{1} << 20;

  // The arrays must not change until Detach returns, or until this object is destroyed. Detach
  // copies into memory from `copies`, so that the next shot reuses pages that the system has
  // already cleared; without `copies` the object allocates its own. `copy_bytes`: size of one copy
  // step.
  explicit StateShot(const FragmentArrays& arrays, const std::shared_ptr<ShotCopies>& copies = nullptr,
                     size_t copy_bytes = kCopyBytes);

  uint64_t elements() const { return elements_; }
  // The bytes from here to the end are zeros: an empty residual, or an empty momentum and residual.
  uint64_t filled_bytes() const { return filled_bytes_; }
  // Reads public copy, momentum and residual, concatenated (12 bytes an element), from `offset`.
  // `offset` must not be below the last Passed.
  void Read(uint64_t offset, std::span<std::byte> out) const ATOLL_EXCLUDES(mutex_);
  // No caller will read below `offset` again.
  void Passed(uint64_t offset) ATOLL_EXCLUDES(mutex_);
  // Called before the arrays change or are freed. Copies the unread bytes from the end towards the
  // start, until it meets the offset that Passed has reached; later reads use the copy. So it takes
  // at most the time of one full copy and at most that of the reader, and memory only for the
  // copied bytes. A second call has no effect. One thread at a time.
  void Detach() ATOLL_EXCLUDES(mutex_);
  // One step of Detach. False: nothing is left to copy.
  bool DetachSome() ATOLL_EXCLUDES(mutex_);
  // Bytes copied by Detach so far.
  uint64_t copied_bytes() const ATOLL_EXCLUDES(mutex_);

 private:
  // Reads from the arrays, not from the copy.
  void ReadArrays(uint64_t offset, std::span<std::byte> out) const;
  void ReadCopy(uint64_t offset, std::span<std::byte> out) const ATOLL_REQUIRES(mutex_);
  // The memory in room_ for the state from `offset` on: `bytes` long, or shorter where a part ends.
  // Parts of copy_bytes_ are stored in the order of copying, from the end of the state, so that
  // each shot reuses the memory of the previous shot.
  std::span<std::byte> PlaceOf(uint64_t offset, size_t bytes) const ATOLL_REQUIRES(mutex_);
  // The place of the next part to copy, which starts at `from` and ends at copied_from_. Empty:
  // nothing is left to copy.
  std::span<std::byte> NextToCopy(uint64_t& from) ATOLL_EXCLUDES(mutex_);

  const uint64_t elements_, filled_bytes_;
  const std::array<std::span<const std::byte>, 3> arrays_;  // public copy, momentum, residual; empty: zeros
  const size_t copy_bytes_;
  const std::shared_ptr<Pages> copy_;
  mutable Mutex mutex_;
  std::span<std::byte> room_ ATOLL_GUARDED_BY(mutex_);  // set by the first copy step
  uint64_t copied_from_ ATOLL_GUARDED_BY(mutex_);       // copied: from here to filled_bytes_
  uint64_t passed_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
