// SPDX-License-Identifier: Apache-2.0
// BulkClient over gRPC: raw frames of 1 MiB, sent without a copy. A token bucket limits the upload
// rate. The download cap is sent to the server with each request.
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
  // Time without a frame in either direction, or without an answer. A frame has at most 1 MiB, so
  // the slowest usable link has 35 kB/s, whatever the size of the transfer. The limit bounds small
  // transfers as a whole (a data block is one frame, a manifest at most 64), and both are requested
  // again. The client never ends a long transfer that makes progress: restarting gains nothing,
  // since transfers resume by offset, and a transfer of the command line may take days under the
  // eyes of its user. For contributions, updates and fragments of a worker,
  // worker/link/transfer_limit.h adds a limit computed from size and measured rate.
  Duration stall_limit = Seconds(30);
  BulkCaps caps;
};

// The destructor cancels all running calls and waits for their end. When it is called from a
// `done`, it does not wait, and the caller must still hold the channel. It must not be called from
// a source or a sink. `clock` must outlive the client.
std::unique_ptr<BulkClient> MakeGrpcBulkClient(std::shared_ptr<grpc::Channel> channel, const Clock& clock,
                                               const BulkClientOptions& options);

// Blocking forms, for programs with nothing else to do. The stall limit of the client bounds the
// wait.
BulkResult UploadAndWait(BulkClient& client, UploadHeader header, std::shared_ptr<BulkSource> source);
// A download ends with Cancelled when `stop` is requested.
BulkResult DownloadAndWait(BulkClient& client, DownloadRequest request, std::shared_ptr<BulkSink> sink,
                           const std::stop_token& stop = {});

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_CLIENT_H_
