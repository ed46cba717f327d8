// SPDX-License-Identifier: Apache-2.0
#include "common/base/pages.h"

#include <sys/mman.h>

#include "common/base/check.h"

namespace atl {

Pages::~Pages() {
  if (!held_.empty()) ::munmap(held_.data(), held_.size());
}

std::span<std::byte> Pages::Room(size_t bytes) {
  if (held_.size() < bytes) {
    if (!held_.empty()) ::munmap(held_.data(), held_.size());
    void* room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ATOLL_CHECK(room != MAP_FAILED, "the system has no memory left");
    held_ = {static_cast<std::byte*>(room), bytes};
  }
  return held_.first(bytes);
}

}  // namespace atl
