// SPDX-License-Identifier: Apache-2.0
// A queue in one piece of memory that is used again: what has passed through leaves room for what follows, so that a
// queue which has reached its length takes nothing more from the heap. (std::deque takes and frees a block every few
// elements.) Memory: for the most that ever waited at once, until it is destroyed.
#ifndef ATOLL_COMMON_BASE_RING_H_
#define ATOLL_COMMON_BASE_RING_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace atl {

// First in, first out. T has a default, which takes the place of what is taken out. Not thread-safe.
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
  // The oldest, which is not in the queue any more. Requires !empty().
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
