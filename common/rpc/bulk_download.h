// SPDX-License-Identifier: Apache-2.0
// Server side of one download. Only for bulk_service.cc.
#ifndef ATOLL_COMMON_RPC_BULK_DOWNLOAD_H_
#define ATOLL_COMMON_RPC_BULK_DOWNLOAD_H_

#include <grpcpp/impl/codegen/server_callback.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "common/rpc/bulk_shared.h"

namespace atl {

// Starts to answer `request`. The reactor owns itself until gRPC is done with it.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartDownload(std::shared_ptr<BulkShared> shared,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_DOWNLOAD_H_
