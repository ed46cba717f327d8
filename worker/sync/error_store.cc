#include "worker/sync/error_store.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/vecmath/vecmath.h"

namespace atl {
namespace {

constexpr CodecKind kStore = CodecKind::kInt8;

}  // namespace

ErrorStore::ErrorStore(ErrorMemory kind, const LocoSpec& loco, size_t elements)
    : kind_(kind), loco_(loco), elements_(elements) {
  if (kind == ErrorMemory::kFeedback) memory_.assign(elements, 0.0f);
  if (kind == ErrorMemory::kLoco) small_.assign(EncodedSize(kStore, elements), std::byte{0});
}

void ErrorStore::Begin() {
  if (kind_ == ErrorMemory::kFeedback) pending_ = std::make_unique_for_overwrite<float[]>(elements_);
  small_pending_.assign(small_.size(), std::byte{0});
}

void ErrorStore::Read(size_t at, std::span<float> out) const {
  if (kind_ == ErrorMemory::kFeedback) {
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  } else {
    DecodeRange(kStore, small_, at, out);
  }
}

void ErrorStore::AddTo(size_t at, std::span<float> h) const {
  if (!Remembers()) return;
  if (kind_ == ErrorMemory::kFeedback) return vecmath::Add(std::span(memory_).subspan(at, h.size()), h);
  std::array<float, kCodecBlock> memory;
  const std::span<float> held = std::span(memory).first(h.size());
  Read(at, held);
  vecmath::Add(held, h);
}

void ErrorStore::Keep(size_t at, std::span<const float> lost) {
  if (kind_ == ErrorMemory::kFeedback) std::copy(lost.begin(), lost.end(), pending_.get() + at);
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
  ATOLL_CHECK(pending_ != nullptr && at + elements <= elements_, "an error memory is kept after Begin");
  return {pending_.get() + at, elements};
}

void ErrorStore::Commit(double share) {
  if (!Remembers()) return;
  if (kind_ == ErrorMemory::kFeedback) {
    ATOLL_CHECK(pending_ != nullptr, "an error memory is committed after Begin");
    vecmath::Scale(static_cast<float>(share), {pending_.get(), elements_}, memory_);
  } else if (++syncs_ >= loco_.reset_syncs) {
    Clear();
  } else {
    ATOLL_CHECK(small_pending_.size() == small_.size(), "an error memory is committed after Begin");
    std::swap(small_, small_pending_);
    if (share < 1) ScaleSmall(static_cast<float>(share));
  }
  Discard();
}

void ErrorStore::ScaleSmall(float share) {
  std::array<float, kCodecBlock> memory;
  for (size_t at = 0; at < elements_; at += kCodecBlock) {
    const std::span<float> values = std::span(memory).first(std::min(kCodecBlock, elements_ - at));
    Read(at, values);
    vecmath::Scale(share, values, values);
    const ByteRange range = EncodedRange(kStore, at, values.size());
    Encode(kStore, values, std::span(small_).subspan(range.offset, range.bytes));
  }
}

void ErrorStore::Discard() {
  pending_.reset();
  small_pending_ = {};
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
