// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/fetching.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/slow_step.h"
#include "coordinator/core/admission.h"

namespace atl {
namespace {

constexpr Duration kPreparation = Seconds(120);  // manifests, memory, a model on its device
constexpr uint64_t kParameterBytes = 4;
constexpr uint64_t kSlowLink = 1'250'000;  // bytes per second: 10 Mbit/s

}  // namespace

FetchTime FetchTimeOf(const JobSpec& spec, uint64_t measured_rate) {
  const uint64_t bytes = RoughParameters(spec.model) * kParameterBytes;
  const uint64_t rate = measured_rate > 0 ? measured_rate : kSlowLink;
  PeriodTraffic traffic;
  traffic.download_bytes = bytes;
  const Duration transfer = TransferTime(traffic, {.download_bytes_per_second = rate});
  return {kPreparation + transfer * 2,
          absl::StrCat(BytesText(bytes), " at ", RateText(rate), measured_rate > 0 ? ", as measured" : ", as assumed")};
}

Duration FetchDeadline(Duration allowed, uint32_t passed) {
  return allowed * ((int64_t{2} << std::min(passed, kFetchDeadlines)) - 1);
}

}  // namespace atl
