// SPDX-License-Identifier: Apache-2.0
// Uninitialised bytes for a caller that overwrites all of them. Allocation touches no page of memory:
// the threads that write the bytes are the first to touch it, which places it near them.
#ifndef ATOLL_COMMON_BASE_RAW_BYTES_H_
#define ATOLL_COMMON_BASE_RAW_BYTES_H_

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace atl {

// std::allocator that leaves elements without an initial value uninitialised.
template <typename T>
struct UnclearedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UnclearedAllocator<U>;
  };
  UnclearedAllocator() = default;
  template <typename U>
  UnclearedAllocator(const UnclearedAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as std::allocator
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Values>
  void construct(U* at, Values&&... values) {
    std::construct_at(at, std::forward<Values>(values)...);
  }
};

using RawBytes = std::vector<std::byte, UnclearedAllocator<std::byte>>;

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_RAW_BYTES_H_
