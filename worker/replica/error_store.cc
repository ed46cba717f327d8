// SPDX-License-Identifier: Apache-2.0
#include "worker/replica/error_store.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"

namespace atl {
namespace {

constexpr CodecKind kStore = CodecKind::kInt8;

}  // namespace

ErrorStore::ErrorStore(ErrorMemory kind, const LocoSpec& loco, size_t elements, const ErrorPlaces& places)
    : kind_(kind), loco_(loco), elements_(elements), places_(places) {
  ATOLL_CHECK(places.memory.empty() || (places.memory.size() == elements && places.pending.size() == elements),
              "places of an error memory are as long as its fragment");
  if (kind == ErrorMemory::kFeedback && places.memory.empty()) {
    own_memory_ = NewFloats();
    std::ranges::fill(own_memory_.values, 0.0f);
  }
  memory_ = places.memory.empty() ? own_memory_.values : places.memory;
  if (kind == ErrorMemory::kLoco) small_.assign(EncodedSize(kStore, elements), std::byte{0});
}

void ErrorStore::Begin() {
  if (kind_ == ErrorMemory::kFeedback && !places_.pending.empty()) {
    pending_ = places_.pending;
  } else if (kind_ == ErrorMemory::kFeedback) {
    own_pending_ = NewFloats();
    pending_ = own_pending_.values;
  }
  small_pending_.assign(small_.size(), std::byte{0});
}

// operator new with an alignment would map fresh pages each time.
ErrorStore::Floats ErrorStore::NewFloats() const {
  constexpr size_t kLine = 64;
  Floats made{std::make_unique_for_overwrite<float[]>(elements_ + kLine / sizeof(float)), {}};
  const size_t beyond = reinterpret_cast<uintptr_t>(made.block.get()) % kLine;
  made.values = {made.block.get() + (kLine - beyond) / sizeof(float), elements_};
  return made;
}

void ErrorStore::Read(size_t at, std::span<float> out) const {
  if (kind_ == ErrorMemory::kFeedback) {
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  } else {
    DecodeRange(kStore, small_, at, out);
  }
}

std::span<const float> ErrorStore::MemoryAt(size_t at, std::span<float> scratch) const {
  if (!Remembers()) return {};
  if (kind_ == ErrorMemory::kFeedback) return memory_.subspan(at, scratch.size());
  Read(at, scratch);
  return scratch;
}

void ErrorStore::Keep(size_t at, std::span<const float> lost) {
  if (kind_ == ErrorMemory::kFeedback) std::copy(lost.begin(), lost.end(), pending_.data() + at);
  if (kind_ != ErrorMemory::kLoco) return;
  std::array<float, kCodecBlock> memory;
  const std::span<float> average = std::span(memory).first(lost.size());
  Read(at, average);
  vecmath::Merge(loco_.beta, lost, average);
  const ByteRange range = EncodedRange(kStore, at, lost.size());
  Encode(kStore, average, std::span(small_pending_).subspan(range.offset, range.bytes));
}

std::span<float> ErrorStore::PendingAt(size_t at, size_t elements) {
  if (kind_ != ErrorMemory::kFeedback) return {};
  ATOLL_CHECK(pending_.size() == elements_ && at + elements <= elements_, "an error memory is kept after Begin");
  return pending_.subspan(at, elements);
}

void ErrorStore::Commit(double share) {
  if (!Remembers()) return;
  if (kind_ == ErrorMemory::kFeedback) {
    ATOLL_CHECK(pending_.size() == elements_, "an error memory is committed after Begin");
    if (share == 1) {
      std::swap(own_memory_, own_pending_);
      std::swap(places_.memory, places_.pending);
      memory_ = pending_;
    } else {
      vecmath::Merge(1 - share, pending_, memory_);
    }
  } else if (++syncs_ >= loco_.reset_syncs) {
    Clear();
  } else {
    ATOLL_CHECK(small_pending_.size() == small_.size(), "an error memory is committed after Begin");
    if (share < 1) BlendSmall(share);
    std::swap(small_, small_pending_);
  }
  Discard();
}

// Writes the mean of the old memory and the pending one, with weights 1 - share and share, to the pending memory.
void ErrorStore::BlendSmall(double share) {
  std::array<float, kCodecBlock> old, pending;
  for (size_t at = 0; at < elements_; at += kCodecBlock) {
    const size_t count = std::min(kCodecBlock, elements_ - at);
    const std::span<float> values = std::span(old).first(count), fresh = std::span(pending).first(count);
    const ByteRange range = EncodedRange(kStore, at, count);
    const std::span<std::byte> bytes = std::span(small_pending_).subspan(range.offset, range.bytes);
    Read(at, values);
    Decode(kStore, bytes, fresh);
    vecmath::Merge(1 - share, fresh, values);
    Encode(kStore, values, bytes);
  }
}

void ErrorStore::Discard() {
  own_pending_ = {};
  pending_ = {};
  std::vector<std::byte>().swap(small_pending_);
}

void ErrorStore::Clear() {
  std::fill(memory_.begin(), memory_.end(), 0.0f);
  std::fill(small_.begin(), small_.end(), std::byte{0});
  syncs_ = 0;
  Discard();
}

std::vector<float> ErrorStore::Values() const {
  std::vector<float> out(Remembers() ? elements_ : 0);
  for (size_t at = 0; at < out.size(); at += kCodecBlock) {
    Read(at, std::span(out).subspan(at, std::min(kCodecBlock, elements_ - at)));
  }
  return out;
}

}  // namespace atl
