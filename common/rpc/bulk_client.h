// SPDX-License-Identifier: Apache-2.0
// BulkClient over gRPC: raw frames of 1 MiB, sent from where they lie. A token bucket paces what this side sends; a cap
// on what it receives goes to the sender with each request.
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
  // Without a frame either way, or an answer. A frame is 1 MiB at most, so this is the rate below which a link is given
  // up, 35 kB/s, whatever the size of the transfer. It bounds small ones as a whole: a data block is one frame, a
  // manifest 64 at most, and both are asked for again. A long one that moves is not ended, since it goes on by offset
  // and nothing is gained by beginning anew: what the command line moves may take days, and a person watches it. Where
  // somebody waits for the whole of it, contributions, updates and fragments of a worker, the link sets a limit by size
  // and measured rate beside this (worker/link/transfer_limit.h).
  Duration stall_limit = Seconds(30);
  BulkCaps caps;
};

// The destructor cancels what still runs and waits for its end, unless it is called from a `done`; then whoever calls
// it still holds the channel. It must not be called from a source or a sink. `clock` must outlive the client.
std::unique_ptr<BulkClient> MakeGrpcBulkClient(std::shared_ptr<grpc::Channel> channel, const Clock& clock,
                                               const BulkClientOptions& options);

// For programs that have nothing else to do: block until done. The stall limit of the client bounds the wait.
BulkResult UploadAndWait(BulkClient& client, UploadHeader header, std::shared_ptr<BulkSource> source);
// A download ends with Cancelled when `stop` is requested.
BulkResult DownloadAndWait(BulkClient& client, DownloadRequest request, std::shared_ptr<BulkSink> sink,
                           const std::stop_token& stop = {});
absl::StatusOr<std::vector<Sha256>> MissingBlobsAndWait(BulkClient& client, std::vector<Sha256> blobs);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_CLIENT_H_
