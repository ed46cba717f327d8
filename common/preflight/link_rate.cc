// SPDX-License-Identifier: Apache-2.0
#include "common/preflight/link_rate.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "common/plan/limits.h"
#include "common/rpc/bulk_client.h"

namespace atl {
namespace {

constexpr uint64_t kFirstBytes = uint64_t{256} << 10;
constexpr Duration kLongEnough = Seconds(1);

class Counter final : public BulkSink {
 public:
  absl::Status OnHeader(const DownloadHeader&) override { return absl::OkStatus(); }
  absl::Status OnBytes(uint64_t, Bytes) override { return absl::OkStatus(); }
};

// `move` transfers the given number of bytes.
absl::StatusOr<double> Measure(const Clock& clock, const std::function<absl::Status(uint64_t bytes)>& move) {
  for (uint64_t bytes = kFirstBytes;; bytes = std::min(4 * bytes, limits::kProbeBytes)) {
    const Instant begin = clock.Now();
    ATOLL_RETURN_IF_ERROR(move(bytes));
    const Duration took = std::max(clock.Now() - begin, Milliseconds(1));
    if (took >= kLongEnough || bytes == limits::kProbeBytes) return static_cast<double>(bytes) / ToSeconds(took);
  }
}

}  // namespace

absl::StatusOr<double> MeasureUpload(BulkClient& client, const Clock& clock) {
  return Measure(
      clock, [&client](uint64_t bytes) { return UploadAndWait(client, Probe{bytes}, MakeProbeSource(bytes)).status; });
}

absl::StatusOr<double> MeasureDownload(BulkClient& client, const Clock& clock, const std::string& worker) {
  return Measure(clock, [&client, &worker](uint64_t bytes) {
    DownloadRequest request;
    request.key = Probe{bytes};
    request.worker = WorkerId{worker};
    return DownloadAndWait(client, std::move(request), std::make_shared<Counter>()).status;
  });
}

}  // namespace atl
