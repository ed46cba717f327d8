// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/bulk.h"

#include <algorithm>
#include <atomic>

#include "common/base/random.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

class MemorySource final : public BulkSource {
 public:
  MemorySource(Bytes bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)), known_(bytes.size() / limits::kFramePayloadBytes + 1) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  bool in_memory() const override { return true; }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
      return absl::OutOfRangeError(
          absl::StrCat("bytes ", offset, " to ", offset + bytes, " of ", bytes_.size(), " in memory"));
    }
    return BulkBytes{bytes_.subspan(static_cast<size_t>(offset), bytes), owner_};
  }
  uint32_t Crc32cOf(uint64_t offset, const BulkBytes& bytes) const override {
    constexpr uint64_t kFrame = limits::kFramePayloadBytes, kKnown = uint64_t{1} << 32;
    const bool whole = offset % kFrame == 0 && bytes.size() == std::min(kFrame, bytes_.size() - offset);
    if (!whole) return BulkSource::Crc32cOf(offset, bytes);
    std::atomic<uint64_t>& known = known_[offset / kFrame];
    uint64_t told = known.load(std::memory_order_relaxed);
    if (told == 0) known.store(told = kKnown | BulkSource::Crc32cOf(offset, bytes), std::memory_order_relaxed);
    return static_cast<uint32_t>(told);
  }

 private:
  const Bytes bytes_;
  const std::shared_ptr<const void> owner_;
  mutable std::vector<std::atomic<uint64_t>> known_;  // by frame: 0, or kKnown and its CRC
};

std::shared_ptr<const std::vector<std::byte>> MakeNoise() {
  auto noise = std::make_shared<std::vector<std::byte>>(size_t{1} << 20);
  Rng random(StreamKey(0, "probe"));
  for (std::byte& byte : *noise) byte = static_cast<std::byte>(random() >> 56);
  return noise;
}

// Returns the same MiB again and again. All sources share one buffer, which the first one fills, so
// that a large probe request costs no more memory than a small one.
class ProbeSource final : public BulkSource {
 public:
  explicit ProbeSource(uint64_t bytes) : size_(bytes) {
    static const std::shared_ptr<const std::vector<std::byte>> noise = MakeNoise();
    buffer_ = noise;
  }
  uint64_t size_bytes() const override { return size_; }
  bool in_memory() const override { return true; }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    if (offset > size_ || bytes > size_ - offset) {
      return absl::OutOfRangeError(absl::StrCat("bytes ", offset, " to ", offset + bytes, " of a probe of ", size_));
    }
    if (bytes <= buffer_->size()) return BulkBytes{Bytes(*buffer_).first(bytes), buffer_};
    const auto pieces = std::make_shared<std::vector<Bytes>>();
    for (size_t left = bytes; left > 0; left -= pieces->back().size()) {
      pieces->push_back(Bytes(*buffer_).first(std::min(left, buffer_->size())));
    }
    return BulkBytes{std::span<const Bytes>(*pieces), pieces};  // the noise lives as long as the process
  }

 private:
  const uint64_t size_;
  std::shared_ptr<const std::vector<std::byte>> buffer_;
};

}  // namespace

uint32_t BulkSource::Crc32cOf(uint64_t, const BulkBytes& bytes) const {
  uint32_t crc = 0;
  for (const Bytes& piece : bytes.pieces) crc = Crc32c(crc, piece);
  return crc;
}

size_t BulkBytes::size() const {
  size_t total = 0;
  for (const Bytes& piece : pieces) total += piece.size();
  return total;
}

std::shared_ptr<BulkSource> MakeMemorySource(Bytes bytes, std::shared_ptr<const void> owner) {
  return std::make_shared<MemorySource>(bytes, std::move(owner));
}

std::shared_ptr<BulkSource> MakeMemorySource(std::shared_ptr<const std::vector<std::byte>> bytes) {
  const Bytes view(*bytes);
  return MakeMemorySource(view, std::move(bytes));
}

std::shared_ptr<BulkSource> MakeMemorySource(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return MakeMemorySource(AsBytes(*owner), owner);
}

std::shared_ptr<BulkSource> MakeProbeSource(uint64_t bytes) { return std::make_shared<ProbeSource>(bytes); }

}  // namespace atl
