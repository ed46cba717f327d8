#include "common/base/buffer_shelf.h"

#include <algorithm>
#include <utility>

namespace atl {
namespace {

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
  buffer.clear();
  MutexLock lock(mutex_);
  const auto at = std::lower_bound(buffers_.begin(), buffers_.end(), buffer.capacity(), HasLess);
  buffers_.insert(at, std::move(buffer));
  if (buffers_.size() > kept_) buffers_.erase(buffers_.begin());
}

std::shared_ptr<const std::vector<std::byte>> ShareFrom(const std::shared_ptr<BufferShelf>& shelf,
                                                        std::vector<std::byte> bytes) {
  const auto end = [weak = std::weak_ptr(shelf)](std::vector<std::byte>* given) {
    const std::unique_ptr<std::vector<std::byte>> owned(given);
    if (const auto alive = weak.lock()) alive->GiveBack(std::move(*owned));
  };
  return {new std::vector<std::byte>(std::move(bytes)), end};
}

}  // namespace atl
