// SPDX-License-Identifier: Apache-2.0
// Memory that is committed only where it is touched.
#ifndef ATOLL_COMMON_BASE_PAGES_H_
#define ATOLL_COMMON_BASE_PAGES_H_

#include <cstddef>
#include <span>

namespace atl {

// A reservation from the system. A page takes memory after its first write; the destructor returns
// everything. Not thread-safe.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // Returns `bytes` bytes: the reservation of an earlier call, with its old content, if it is large enough, otherwise
  // a new one of zeros, which replaces and frees the old one. Ends the process when the system has no memory.
  std::span<std::byte> Room(size_t bytes);
  // For ReusePool: the reservation and its touched pages stay.
  void Clear() {}

 private:
  std::span<std::byte> held_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PAGES_H_
