// The state of a fragment as it is at one moment, for whoever writes it to a file meanwhile: where it is about to
// change before the writer is through, what is not written yet is copied. Thread-safe.
#ifndef ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
#define ATOLL_COORDINATOR_STORE_STATE_SHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/buffer_shelf.h"
#include "common/base/mutex.h"

namespace atl {

// Views; equal lengths. Empty momentum or residual means zeros.
struct FragmentArrays {
  std::span<const float> public_copy, momentum, residual;
};

class StateShot {
 public:
  static constexpr size_t kCopies = 3;  // of one shot, each of an array's bytes

  // The arrays must stay as they are until Detach, or for the life of this. What Detach copies comes from `copies` and
  // goes back there in the end; without one it comes from the system.
  explicit StateShot(const FragmentArrays& arrays, std::shared_ptr<BufferShelf> copies = nullptr);

  uint64_t elements() const { return elements_; }
  // Bytes of public copy, momentum and residual, one behind the other (12 bytes an element), from `offset`, which is
  // not below what was passed.
  void Read(uint64_t offset, std::span<std::byte> out) const ATOLL_EXCLUDES(mutex_);
  // Nobody reads below `offset` any more.
  void Passed(uint64_t offset) ATOLL_EXCLUDES(mutex_);
  // Before the arrays change or go: copies what may still be read of them (12 bytes an element in memory at most, fewer
  // where arrays are empty), and later reads are of the copy. The second time it does nothing.
  void Detach() ATOLL_EXCLUDES(mutex_);

 private:
  struct Array {
    std::span<const std::byte> held;  // of the array, or of the copy from byte `first`
    uint64_t first = 0;
    std::shared_ptr<const std::vector<std::byte>> copy;
  };

  uint64_t array_bytes() const { return elements_ * sizeof(float); }

  const uint64_t elements_;
  const std::shared_ptr<BufferShelf> copies_;
  mutable Mutex mutex_;
  std::array<Array, 3> arrays_ ATOLL_GUARDED_BY(mutex_);  // public copy, momentum, residual; nothing held: zeros
  uint64_t passed_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool detached_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
