// SPDX-License-Identifier: Apache-2.0
// A pool of small objects that keep their allocated memory, including the control block of the
// shared pointer. A pool that has reached its size allocates nothing more.
#ifndef ATOLL_COMMON_BASE_REUSE_POOL_H_
#define ATOLL_COMMON_BASE_REUSE_POOL_H_

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace atl {

// T has a default constructor and `void Clear()`, which releases resources and keeps memory. Clear
// runs when an object returns, on the thread of its last owner. Thread-safe. Memory: at most `kept`
// returned objects. An object in use keeps the pool alive.
template <typename T>
class ReusePool : public std::enable_shared_from_this<ReusePool<T>> {
 public:
  static std::shared_ptr<ReusePool> Make(size_t kept) { return std::shared_ptr<ReusePool>(new ReusePool(kept)); }

  // Takes an object out of the pool, or makes a new one.
  std::shared_ptr<T> Take() ATOLL_EXCLUDES(mutex_) {
    Place* place = TakePlace().release();
    place->home = this->shared_from_this();
    return std::shared_ptr<T>(
        &place->value, [](T* value) { value->Clear(); }, CountsInPlace<T>{place});
  }

 private:
  struct Place {
    T value;
    std::shared_ptr<ReusePool> home;                             // set while the object is in use
    alignas(std::max_align_t) std::array<std::byte, 64> counts;  // control block of the shared pointer
  };
  // Allocates the shared pointer's control block in the place itself. The control block is freed
  // last, and the place then returns to the pool.
  template <typename U>
  struct CountsInPlace {
    using value_type = U;
    Place* place = nullptr;
    CountsInPlace() = default;
    explicit CountsInPlace(Place* p) : place(p) {}
    template <typename V>
    CountsInPlace(const CountsInPlace<V>& other) : place(other.place) {}  // NOLINT(google-explicit-constructor)
    U* allocate(size_t) {
      static_assert(sizeof(U) <= sizeof(place->counts) && alignof(U) <= alignof(std::max_align_t));
      return reinterpret_cast<U*>(place->counts.data());
    }
    void deallocate(U*, size_t) { std::exchange(place->home, nullptr)->GiveBack(std::unique_ptr<Place>(place)); }
    bool operator==(const CountsInPlace&) const = default;
  };

  explicit ReusePool(size_t kept) : kept_(kept) { places_.reserve(kept); }
  std::unique_ptr<Place> TakePlace() ATOLL_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!places_.empty()) {
        std::unique_ptr<Place> place = std::move(places_.back());
        places_.pop_back();
        return place;
      }
    }
    return std::make_unique<Place>();
  }
  void GiveBack(std::unique_ptr<Place> place) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (places_.size() < kept_) places_.push_back(std::move(place));
  }

  const size_t kept_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Place>> places_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_REUSE_POOL_H_
