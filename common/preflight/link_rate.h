// SPDX-License-Identifier: Apache-2.0
// What a link carries, measured with bytes that mean nothing (the probes of transfer.proto).
#ifndef ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_
#define ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_

#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"

namespace atl {

// Bytes a second of one connection, one way. Probes grow fourfold from 256 KiB until one takes a second, or is
// limits::kProbeBytes: the last one counts. Blocks; ends early with the client's error when a probe makes no progress
// within the client's stall limit.
absl::StatusOr<double> MeasureUpload(BulkClient& client, const Clock& clock);
// Likewise towards the caller; `worker` as in DownloadRequest, so that the client's cap holds.
absl::StatusOr<double> MeasureDownload(BulkClient& client, const Clock& clock, const std::string& worker);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_
