// SPDX-License-Identifier: Apache-2.0
// Large buffers that are used again. The kernel hands out a fresh buffer of tens of megabytes page by page and takes it
// back at the end, which costs more than the copy into it; one that was there before costs nothing.
#ifndef ATOLL_COMMON_BASE_BUFFER_SHELF_H_
#define ATOLL_COMMON_BASE_BUFFER_SHELF_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace atl {

// Thread-safe. Memory: of the buffers that came back, at most `kept`.
class BufferShelf {
 public:
  explicit BufferShelf(size_t kept) : kept_(kept) {}

  // With room for so many bytes, and what its last user left in it: the smallest that came back and is large enough,
  // otherwise a new one, which is empty. So who writes into all of it has it cleared once at most.
  std::vector<std::byte> Take(size_t bytes) ATOLL_EXCLUDES(mutex_);
  // What is beyond `kept` goes, the smallest first.
  void GiveBack(std::vector<std::byte> buffer) ATOLL_EXCLUDES(mutex_);

 private:
  const size_t kept_;
  Mutex mutex_;
  std::vector<std::vector<std::byte>> buffers_ ATOLL_GUARDED_BY(mutex_);  // by room, ascending
};

// `bytes` for several owners; given back to the shelf by the last of them, unless the shelf is gone by then.
std::shared_ptr<const std::vector<std::byte>> ShareFrom(const std::shared_ptr<BufferShelf>& shelf,
                                                        std::vector<std::byte> bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_BUFFER_SHELF_H_
