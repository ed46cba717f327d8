// SPDX-License-Identifier: Apache-2.0
// Measures a link with arbitrary bytes (the probes of transfer.proto).
#ifndef ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_
#define ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_

#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"

namespace atl {

// Returns the upload rate of one connection in bytes a second. Probes grow fourfold from 256 KiB
// until one takes a second or reaches limits::kProbeBytes; the last one determines the rate.
// Blocks. Returns the client's error when a probe makes no progress within the client's stall
// limit.
absl::StatusOr<double> MeasureUpload(BulkClient& client, const Clock& clock);
// Same for downloads. `worker`: its name, so that the coordinator applies the worker's cap; empty: not a worker.
absl::StatusOr<double> MeasureDownload(BulkClient& client, const Clock& clock, const std::string& worker);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_LINK_RATE_H_
