// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/state_shot.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace atl {
namespace {

// Number of arrays up to the last one that is not empty.
uint64_t Filled(const FragmentArrays& arrays) {
  if (!arrays.residual.empty()) return 3;
  return arrays.momentum.empty() ? 1 : 2;
}

// The part of `out`, whose bytes begin at `offset`, between the offsets `from` and `to`.
std::span<std::byte> PartOf(uint64_t offset, std::span<std::byte> out, uint64_t from, uint64_t to) {
  const uint64_t begin = std::max(offset, from), end = std::min(offset + out.size(), to);
  return begin < end ? out.subspan(begin - offset, end - begin) : std::span<std::byte>();
}

}  // namespace

StateShot::StateShot(const FragmentArrays& arrays, const std::shared_ptr<ShotCopies>& copies, size_t copy_bytes)
    : elements_(arrays.public_copy.size()),
      filled_bytes_(Filled(arrays) * arrays.public_copy.size_bytes()),
      arrays_{std::as_bytes(arrays.public_copy), std::as_bytes(arrays.momentum), std::as_bytes(arrays.residual)},
      copy_bytes_(copy_bytes),
      copy_(copies == nullptr ? std::make_shared<Pages>() : copies->Take()),
      copied_from_(filled_bytes_) {}

void StateShot::ReadArrays(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t array_bytes = arrays_.front().size();
  uint64_t begin = 0;  // offset of the array in the concatenation
  for (const std::span<const std::byte> array : arrays_) {
    const std::span<std::byte> part = PartOf(offset, out, begin, begin + array_bytes);
    if (!part.empty() && array.empty()) std::memset(part.data(), 0, part.size());
    if (!part.empty() && !array.empty())
      std::memcpy(part.data(), array.data() + (std::max(offset, begin) - begin), part.size());
    begin += array_bytes;
  }
}

void StateShot::Read(uint64_t offset, std::span<std::byte> out) const {
  const uint64_t all = 3 * arrays_.front().size();
  ATOLL_CHECK(offset <= all && out.size() <= all - offset, "reads stay inside the state");
  MutexLock lock(mutex_);
  ATOLL_CHECK(offset >= passed_, "what was passed is not read");
  ReadArrays(offset, PartOf(offset, out, 0, copied_from_));
  ReadCopy(std::max(offset, copied_from_), PartOf(offset, out, copied_from_, filled_bytes_));
  ReadArrays(std::max(offset, filled_bytes_), PartOf(offset, out, filled_bytes_, all));  // zeros
}

std::span<std::byte> StateShot::PlaceOf(uint64_t offset, size_t bytes) const {
  const uint64_t from_end = filled_bytes_ - offset, copy = (from_end - 1) / copy_bytes_;
  const uint64_t in_copy = (copy + 1) * copy_bytes_ - from_end;  // the end of a part is the end of its place
  return room_.subspan(copy * copy_bytes_ + in_copy, std::min<uint64_t>(bytes, copy_bytes_ - in_copy));
}

void StateShot::ReadCopy(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::span<const std::byte> copied = PlaceOf(offset, out.size());
    std::memcpy(out.data(), copied.data(), copied.size());
    out = out.subspan(copied.size());
    offset += copied.size();
  }
}

void StateShot::Passed(uint64_t offset) {
  MutexLock lock(mutex_);
  passed_ = std::max(passed_, offset);
}

void StateShot::Detach() {
  while (DetachSome()) {
  }
}

bool StateShot::DetachSome() {
  uint64_t from = 0;
  const std::span<std::byte> place = NextToCopy(from);
  if (place.empty()) return false;
  // No lock is needed: no thread reads this place before copied_from_ is lowered, and the arrays do
  // not change yet.
  ReadArrays(from, place);
  MutexLock lock(mutex_);
  copied_from_ = from;
  return true;
}

std::span<std::byte> StateShot::NextToCopy(uint64_t& from) {
  MutexLock lock(mutex_);
  if (copied_from_ <= passed_) return {};
  if (room_.empty()) room_ = copy_->Room((filled_bytes_ + copy_bytes_ - 1) / copy_bytes_ * copy_bytes_);
  from = copied_from_ - std::min<uint64_t>(copied_from_ - passed_, copy_bytes_);
  return PlaceOf(from, copied_from_ - from);
}

uint64_t StateShot::copied_bytes() const {
  MutexLock lock(mutex_);
  return filled_bytes_ - copied_from_;
}

}  // namespace atl
