// The state of a fragment as it is at one moment, for whoever writes it to a file meanwhile: copied only if it is about
// to change before the writer is through. Thread-safe.
#ifndef ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
#define ATOLL_COORDINATOR_STORE_STATE_SHOT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/mutex.h"

namespace atl {

// Views; equal lengths. Empty momentum or residual means zeros.
struct FragmentArrays {
  std::span<const float> public_copy, momentum, residual;
};

class StateShot {
 public:
  // The arrays must stay as they are until Detach, or for the life of this.
  StateShot(const FragmentArrays& arrays);  // NOLINT(google-explicit-constructor): arrays that lie still are one

  uint64_t elements() const { return elements_; }
  // Bytes of public copy, momentum and residual, one behind the other (12 bytes an element), from `offset`.
  void Read(uint64_t offset, std::span<std::byte> out) const ATOLL_EXCLUDES(mutex_);
  // Before the arrays change or go: copies them (12 bytes an element in memory, fewer where arrays are empty), and
  // later reads are of the copy. The second time it does nothing.
  void Detach() ATOLL_EXCLUDES(mutex_);

 private:
  const uint64_t elements_;
  mutable Mutex mutex_;
  FragmentArrays arrays_ ATOLL_GUARDED_BY(mutex_);
  bool detached_ ATOLL_GUARDED_BY(mutex_) = false;
  std::vector<float> public_copy_ ATOLL_GUARDED_BY(mutex_);
  std::vector<float> momentum_ ATOLL_GUARDED_BY(mutex_);
  std::vector<float> residual_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_STATE_SHOT_H_
