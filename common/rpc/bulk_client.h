// SPDX-License-Identifier: Apache-2.0
// BulkClient over gRPC: raw frames of at most 1 MiB, sent without a copy. A token bucket limits the
// upload rate. The download cap is sent to the server with each request.
#ifndef ATOLL_COMMON_RPC_BULK_CLIENT_H_
#define ATOLL_COMMON_RPC_BULK_CLIENT_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"

namespace atl {

struct BulkClientOptions {
  // A transfer ends after this time without a complete frame in either direction, or without an
  // answer. A frame has at most 1 MiB, so a link of 35 kB/s is fast enough for a transfer of any
  // size. The client never ends a long transfer that makes progress: restarting gains
  // nothing, since transfers resume by offset, and a transfer of the command line may take days
  // while its user watches it. For contributions, updates and fragments of a worker,
  // worker/link/transfer_limit.h adds a limit computed from the size of the transfer and the
  // measured rate of the link.
  Duration stall_limit = Seconds(30);
  BulkCaps caps;
};

// The destructor cancels all running calls and waits for their end. When it is called from a
// `done`, it does not wait, and the caller must still hold the channel. It must not be called from
// a source or a sink. `clock` must outlive the client.
std::unique_ptr<BulkClient> MakeGrpcBulkClient(std::shared_ptr<grpc::Channel> channel, const Clock& clock,
                                               const BulkClientOptions& options);

// Blocking forms, for programs with nothing else to do. They return when the transfer has ended. The
// stall limit of the client ends a transfer that makes no progress; the total time has no limit.
BulkResult UploadAndWait(BulkClient& client, UploadHeader header, std::shared_ptr<BulkSource> source);
// The download ends with Cancelled when `stop` is requested before its end.
BulkResult DownloadAndWait(BulkClient& client, DownloadRequest request, std::shared_ptr<BulkSink> sink,
                           const std::stop_token& stop = {});

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_CLIENT_H_
