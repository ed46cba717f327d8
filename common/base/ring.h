// SPDX-License-Identifier: Apache-2.0
// A queue in one reused block of memory. A queue that has reached its length allocates nothing
// more. (std::deque allocates and frees a block every few elements.) Memory: for the longest queue
// so far, until destruction.
#ifndef ATOLL_COMMON_BASE_RING_H_
#define ATOLL_COMMON_BASE_RING_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace atl {

// First in, first out. T has a default value, which replaces removed elements. Not thread-safe.
template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void push_back(T value) {
    if (size_ == slots_.size()) Grow();
    slots_[(first_ + size_) % slots_.size()] = std::move(value);
    ++size_;
  }
  // Removes and returns the oldest element. Requires !empty().
  T Take() {
    T out = std::exchange(slots_[first_], T());
    first_ = (first_ + 1) % slots_.size();
    --size_;
    return out;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move(slots_[(first_ + i) % slots_.size()]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_RING_H_
