// SPDX-License-Identifier: Apache-2.0
#include "worker/link/transfer_limit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atl {
namespace {

constexpr Duration kShortestLimit = Seconds(60);
constexpr uint64_t kSlowestBytesPerSecond = 64 * 1024;  // assumed before any measurement, and the minimum
constexpr uint64_t kTimesPromised = 8;                  // factor: several fragments share the link, and rates change
constexpr uint64_t kLongestSeconds = 24 * 3600;         // maximum of the part that depends on the size

std::string Megabytes(uint64_t bytes) { return absl::StrFormat("%.2f", static_cast<double>(bytes) / 1e6); }

}  // namespace

TransferLimit TransferLimit::Of(uint64_t bytes, double measured_bytes_per_second) {
  const auto rate = static_cast<uint64_t>(measured_bytes_per_second);
  return {bytes, std::max(rate, kSlowestBytesPerSecond), rate >= kSlowestBytesPerSecond};
}

Duration TransferLimit::whole() const {
  const uint64_t seconds = std::min(bytes / bytes_per_second * kTimesPromised, kLongestSeconds);
  return kShortestLimit + Seconds(static_cast<int64_t>(seconds));
}

std::string TransferLimit::Passed(Duration waited, uint64_t moved, uint64_t total) const {
  const std::string there = moved < total
                                ? absl::StrCat(Megabytes(moved), " of ", Megabytes(total), " MB have arrived")
                                : absl::StrCat("all ", Megabytes(total), " MB were sent, and no answer has arrived");
  return absl::StrFormat(
      "waited %.1f s: %s; the limit is %.0f s, which is %.0f s and %u times the time of %s MB at the %s %s MB/s",
      ToSeconds(waited), there, ToSeconds(whole()), ToSeconds(kShortestLimit), kTimesPromised, Megabytes(bytes),
      measured ? "measured" : "assumed", Megabytes(bytes_per_second));
}

}  // namespace atl
