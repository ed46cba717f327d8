// SPDX-License-Identifier: Apache-2.0
#include "common/base/buffer_shelf.h"

#include <algorithm>
#include <utility>

namespace atl {
namespace {

// A shared buffer, which returns to its shelf.
struct Lent {
  Lent(const std::shared_ptr<BufferShelf>& from, std::vector<std::byte> b) : bytes(std::move(b)), shelf(from) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    if (const auto alive = shelf.lock()) alive->GiveBack(std::move(bytes));
  }

  std::vector<std::byte> bytes;
  const std::weak_ptr<BufferShelf> shelf;
};

bool HasLess(const std::vector<std::byte>& buffer, size_t room) { return buffer.capacity() < room; }

}  // namespace

std::vector<std::byte> BufferShelf::Take(size_t bytes) {
  std::vector<std::byte> taken;
  {
    MutexLock lock(mutex_);
    const auto fits = std::lower_bound(buffers_.begin(), buffers_.end(), bytes, HasLess);
    if (fits != buffers_.end()) {
      taken = std::move(*fits);
      buffers_.erase(fits);
    }
  }
  taken.reserve(bytes);
  return taken;
}

void BufferShelf::GiveBack(std::vector<std::byte> buffer) {
  MutexLock lock(mutex_);
  const auto at = std::lower_bound(buffers_.begin(), buffers_.end(), buffer.capacity(), HasLess);
  buffers_.insert(at, std::move(buffer));
  if (buffers_.size() > kept_) buffers_.erase(buffers_.begin());
}

std::shared_ptr<const std::vector<std::byte>> ShareFrom(const std::shared_ptr<BufferShelf>& shelf,
                                                        std::vector<std::byte> bytes) {
  const auto lent = std::make_shared<Lent>(shelf, std::move(bytes));
  return {lent, &lent->bytes};
}

}  // namespace atl
