// SPDX-License-Identifier: Apache-2.0
// atoll.v1.TransferService over raw frames: translates between the wire and a BulkHandler. Received
// payload is passed on as views into the received slices, and sent payload is not copied.
#ifndef ATOLL_COMMON_RPC_BULK_SERVICE_H_
#define ATOLL_COMMON_RPC_BULK_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/executor.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"

namespace atl {

constexpr size_t kDownloadsPerConnection = 16;  // concurrent ones; further ones are refused with RESOURCE_EXHAUSTED

struct BulkServiceOptions {
  Duration stall_limit = Seconds(30);      // a transfer without progress for this long is ended
  uint64_t download_bytes_per_second = 0;  // cap over all downloads; 0: none
  size_t reads_at_once = 2;                // concurrent reads of download sources
};

// `reads` is the executor that reads download sources; their reads may occupy reads_at_once of its
// threads. `handler`, `reads` and `clock` must outlive the service, and the service its server.
std::unique_ptr<grpc::Service> MakeBulkService(BulkHandler& handler, Executor& reads, const Clock& clock,
                                               const BulkServiceOptions& options);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_SERVICE_H_
