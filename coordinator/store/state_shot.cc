#include "coordinator/store/state_shot.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace atl {

StateShot::StateShot(const FragmentArrays& arrays) : elements_(arrays.public_copy.size()), arrays_(arrays) {}

void StateShot::Read(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t array_bytes = elements_ * sizeof(float);
  ATOLL_CHECK(offset <= 3 * array_bytes && out.size() <= 3 * array_bytes - offset, "reads stay inside the state");
  MutexLock lock(mutex_);
  uint64_t begin = 0;  // of the array, in all of them
  for (const std::span<const float> values : {arrays_.public_copy, arrays_.momentum, arrays_.residual}) {
    const uint64_t from = std::max(offset, begin);
    const uint64_t to = std::min(offset + out.size(), begin + array_bytes);
    if (from < to) {
      const std::span<std::byte> part = out.subspan(from - offset, to - from);
      if (values.empty()) {
        std::memset(part.data(), 0, part.size());
      } else {
        std::memcpy(part.data(), std::as_bytes(values).data() + (from - begin), part.size());
      }
    }
    begin += array_bytes;
  }
}

void StateShot::Detach() {
  MutexLock lock(mutex_);
  if (detached_) return;
  public_copy_.assign(arrays_.public_copy.begin(), arrays_.public_copy.end());
  momentum_.assign(arrays_.momentum.begin(), arrays_.momentum.end());
  residual_.assign(arrays_.residual.begin(), arrays_.residual.end());
  arrays_ = {public_copy_, momentum_, residual_};
  detached_ = true;
}

}  // namespace atl
