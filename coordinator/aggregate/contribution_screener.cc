// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/contribution_screener.h"

#include <algorithm>
#include <cmath>

#include "common/codec/codec.h"
#include "common/codec/fused.h"

namespace atl {

void ScreenSum::Add(const vecmath::BlockStats& block) {
  squares_ += block.sum_squares;
  max_abs_ = std::max(max_abs_, block.max_abs);
  finite_ = finite_ && block.finite;
}

ContributionScreen ScreenSum::screen() const {
  if (!finite_) return {.finite = false, .norm = 0, .max_abs = 0};
  return {.finite = true, .norm = std::sqrt(squares_), .max_abs = max_abs_};
}

ContributionScreener::ContributionScreener(CodecKind codec, uint64_t elements) : codec_(codec), elements_(elements) {
  block_.reserve(EncodedSize(codec, std::min<uint64_t>(elements, kCodecBlock)));
}

void ContributionScreener::Update(uint64_t offset, std::span<const Bytes> pieces) {
  uint64_t size = 0;
  for (const Bytes& piece : pieces) size += piece.size();
  if (offset != bytes_ || size > EncodedSize(codec_, elements_) - bytes_) gap_ = true;
  if (gap_) return;
  bytes_ += size;
  for (const Bytes& piece : pieces) Take(piece);
}

void ContributionScreener::Take(Bytes piece) {
  while (!piece.empty()) {
    const uint64_t whole = EncodedSize(codec_, std::min<uint64_t>(kCodecBlock, elements_ - screened_));
    const Bytes part = piece.first(std::min<uint64_t>(piece.size(), whole - block_.size()));
    block_.insert(block_.end(), part.begin(), part.end());
    piece = piece.subspan(part.size());
    if (block_.size() == whole) Screen();
  }
}

void ContributionScreener::Screen() {
  const uint64_t elements = std::min<uint64_t>(kCodecBlock, elements_ - screened_);
  sum_.Add(DecodedStatistics(codec_, block_, 0, elements));
  screened_ += elements;
  block_.clear();
}

std::optional<ContributionScreen> ContributionScreener::Finish() const {
  if (gap_ || screened_ != elements_) return std::nullopt;
  return sum_.screen();
}

}  // namespace atl
