// SPDX-License-Identifier: Apache-2.0
#include "worker/link/rate_window.h"

#include <algorithm>

namespace atl {

RateWindow::Use::Use(RateWindow& window) : window_(window), began_(window.clock_.Now()), shared_(window.Shared()) {
  window_.Change(1);
}

RateWindow::Use::~Use() { window_.Change(-1); }

void RateWindow::Change(int by) {
  shared_ = Shared();
  changed_ = clock_.Now();
  running_ += by;
}

void RateWindow::Sample(const Use& use, uint64_t bytes) {
  const Duration took = clock_.Now() - use.began_;
  if (took.ns <= 0 || bytes < kLeastBytes) return;
  const double seconds = ToSeconds(took);
  const double sharers = std::max(1.0, (Shared() - use.shared_) / seconds);
  const double rate = static_cast<double>(bytes) / seconds * sharers;
  const bool telling = bytes >= kBytes || took >= kTime;
  if (!telling && (rates_.empty() || rate <= *std::max_element(rates_.begin(), rates_.end()))) return;
  rates_.push_back(rate);
  if (rates_.size() > kSamples) rates_.pop_front();
}

uint64_t RateWindow::BytesPerSecond() const {
  if (rates_.size() < kLeastSamples) return 0;
  constexpr double kMost = 1e15;
  return static_cast<uint64_t>(std::clamp(*std::max_element(rates_.begin(), rates_.end()), 1.0, kMost));
}

}  // namespace atl
