// SPDX-License-Identifier: Apache-2.0
// A pool of large buffers. The kernel maps a new buffer of tens of megabytes page by page and
// unmaps it at the end, which costs more than the copy into it. A reused buffer avoids that cost.
#ifndef ATOLL_COMMON_BASE_BUFFER_SHELF_H_
#define ATOLL_COMMON_BASE_BUFFER_SHELF_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace atl {

// Thread-safe. Memory: at most `kept` returned buffers.
class BufferShelf {
 public:
  explicit BufferShelf(size_t kept) : kept_(kept) {}

  // Returns a buffer with capacity for at least `bytes`: the smallest stored buffer that is large enough,
  // with its old content and size, otherwise a new empty one. resize() then clears only the bytes beyond
  // the old size.
  std::vector<std::byte> Take(size_t bytes) ATOLL_EXCLUDES(mutex_);
  // Stores the buffer. With more than `kept` stored, frees the smallest.
  void GiveBack(std::vector<std::byte> buffer) ATOLL_EXCLUDES(mutex_);

 private:
  const size_t kept_;
  Mutex mutex_;
  std::vector<std::vector<std::byte>> buffers_ ATOLL_GUARDED_BY(mutex_);  // by capacity, ascending
};

// Shares `bytes` among several owners. The last owner returns the buffer to the shelf, if the shelf
// still exists.
std::shared_ptr<const std::vector<std::byte>> ShareFrom(const std::shared_ptr<BufferShelf>& shelf,
                                                        std::vector<std::byte> bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_BUFFER_SHELF_H_
