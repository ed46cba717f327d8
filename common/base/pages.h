// SPDX-License-Identifier: Apache-2.0
// Memory that is only taken where it is touched.
#ifndef ATOLL_COMMON_BASE_PAGES_H_
#define ATOLL_COMMON_BASE_PAGES_H_

#include <cstddef>
#include <span>

namespace atl {

// Room from the system, of which a page takes memory once something was written to it; it all goes back at the end. Not
// thread-safe.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // So many bytes, with what was in them before: the room of an earlier call where it is large enough, otherwise new
  // room of zeros. Ends the process when the system has none.
  std::span<std::byte> Room(size_t bytes);
  // For ReusePool: the room stays, and what was touched of it.
  void Clear() {}

 private:
  std::span<std::byte> held_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PAGES_H_
