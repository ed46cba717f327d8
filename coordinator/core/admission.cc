// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/rounds.h"

namespace atl {
namespace {

constexpr int64_t kOneSecond = Seconds(1).ns;
constexpr Duration kLongest = Seconds(86'400);
constexpr uint64_t kFastest = 10'000'000'000;        // bytes per second; higher claims are cut to it
constexpr uint64_t kMostBytes = 10'000'000'000'000;  // so that products fit 64 bits

// The time for `bytes` at `rate`, at most a day; 0 if the rate is unknown (0).
Duration TimeOf(uint64_t bytes, uint64_t rate) {
  if (rate == 0) return {};
  rate = std::min(rate, kFastest);
  if (bytes / rate >= static_cast<uint64_t>(kLongest.ns / kOneSecond)) return kLongest;
  const uint64_t part = bytes % rate * 1'000'000'000 / rate;
  return Seconds(static_cast<int64_t>(bytes / rate)) + Duration{static_cast<int64_t>(part)};
}

// The lowest rate at which `bytes` fit into the period; rounded up.
uint64_t RateFor(uint64_t bytes, Duration period) {
  const auto micros = static_cast<uint64_t>(std::max<int64_t>(1, period.ns / 1000));
  return (std::min(bytes, kMostBytes) * 1'000'000 + micros - 1) / micros;
}

std::string PeriodText(Duration period) {
  return period < Seconds(10) ? absl::StrCat(period.ns / 1'000'000, " ms") : SecondsOf(period);
}

std::string MeasuredText(uint64_t rate) { return rate == 0 ? "an unmeasured rate" : RateText(rate); }

}  // namespace

std::string BytesText(uint64_t bytes) {
  return bytes >= 1'000'000 ? absl::StrCat(bytes / 1'000'000, " MB") : absl::StrCat((bytes + 999) / 1000, " kB");
}

std::string RateText(uint64_t rate) {
  if (rate < 1'000'000) return absl::StrCat(rate / 1000, ".", rate % 1000 / 100, " kB/s");
  return absl::StrCat(rate / 1'000'000, ".", rate % 1'000'000 / 100'000, " MB/s");
}

Duration TransferTime(const PeriodTraffic& traffic, const LinkRates& rates) {
  const Duration up = TimeOf(traffic.upload_bytes, rates.upload_bytes_per_second);
  const Duration down = TimeOf(traffic.download_bytes, rates.download_bytes_per_second);
  const Duration one = TimeOf(traffic.largest_upload_bytes, rates.upload_bytes_per_second) +
                       TimeOf(traffic.largest_download_bytes, rates.download_bytes_per_second);
  return std::max({up, down, one});
}

LinkVerdict JudgeLink(const WorkerId& worker, const PeriodTraffic& traffic, Duration period, const LinkRates& measured,
                      bool admitted) {
  LinkVerdict verdict;
  if (period.ns <= 0) return verdict;
  const uint64_t one = traffic.largest_upload_bytes + traffic.largest_download_bytes;
  verdict.needed = {RateFor(std::max(traffic.upload_bytes, one), period),
                    RateFor(std::max(traffic.download_bytes, one), period)};
  const Duration limit = admitted ? period + period / 4 : period;
  verdict.admitted = TransferTime(traffic, measured) <= limit;
  if (verdict.admitted) return verdict;
  verdict.reason =
      absl::StrCat("the link of worker ", worker.value, " carries ", MeasuredText(measured.upload_bytes_per_second),
                   " up and ", MeasuredText(measured.download_bytes_per_second), " down, and ",
                   MeasuredText(verdict.needed.upload_bytes_per_second), " up and ",
                   MeasuredText(verdict.needed.download_bytes_per_second), " down are needed to move ",
                   BytesText(traffic.upload_bytes), " up and ", BytesText(traffic.download_bytes),
                   " down in its period of ", PeriodText(period));
  return verdict;
}

}  // namespace atl
