#include "coordinator/store/state_shot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace atl {

StateShot::StateShot(const FragmentArrays& arrays, std::shared_ptr<BufferShelf> copies)
    : elements_(arrays.public_copy.size()),
      copies_(std::move(copies)),
      arrays_{Array{std::as_bytes(arrays.public_copy), 0, {}}, Array{std::as_bytes(arrays.momentum), 0, {}},
              Array{std::as_bytes(arrays.residual), 0, {}}} {}

void StateShot::Read(uint64_t offset, std::span<std::byte> out) const {
  ATOLL_CHECK(offset <= 3 * array_bytes() && out.size() <= 3 * array_bytes() - offset, "reads stay inside the state");
  MutexLock lock(mutex_);
  ATOLL_CHECK(offset >= passed_, "what was passed is not read");
  uint64_t begin = 0;  // of the array, in all of them
  for (const Array& array : arrays_) {
    const uint64_t from = std::max(offset, begin);
    const uint64_t to = std::min(offset + out.size(), begin + array_bytes());
    if (from < to) {
      const std::span<std::byte> part = out.subspan(from - offset, to - from);
      if (array.held.empty()) {
        std::memset(part.data(), 0, part.size());
      } else {
        std::memcpy(part.data(), array.held.data() + (from - begin - array.first), part.size());
      }
    }
    begin += array_bytes();
  }
}

void StateShot::Passed(uint64_t offset) {
  MutexLock lock(mutex_);
  passed_ = std::max(passed_, offset);
}

void StateShot::Detach() {
  MutexLock lock(mutex_);
  if (detached_) return;
  uint64_t begin = 0;
  for (Array& array : arrays_) {
    const uint64_t passed = std::clamp(passed_, begin, begin + array_bytes()) - begin;
    begin += array_bytes();
    if (array.held.empty()) continue;
    array.first = passed;
    const std::span<const std::byte> left = array.held.subspan(passed);
    if (left.empty()) continue;  // nobody reads it any more
    // With room for the whole array, whatever is left of it: so the buffer fits the next one.
    std::vector<std::byte> copy = copies_ == nullptr ? std::vector<std::byte>() : copies_->Take(array_bytes());
    copy.assign(left.begin(), left.end());
    array.copy = ShareFrom(copies_, std::move(copy));
    array.held = *array.copy;
  }
  detached_ = true;
}

}  // namespace atl
