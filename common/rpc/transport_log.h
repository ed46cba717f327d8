// SPDX-License-Identifier: Apache-2.0
// Log output of gRPC and protobuf on standard error.
#ifndef ATOLL_COMMON_RPC_TRANSPORT_LOG_H_
#define ATOLL_COMMON_RPC_TRANSPORT_LOG_H_

namespace atl {

// Turns the output off. Errors reach the program as a status, and a peer that sends broken messages
// must not fill the log with its own text. An existing GRPC_VERBOSITY is respected, for debugging
// gRPC itself. Call first in main, while the process has one thread.
void SilenceTransportLog();

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TRANSPORT_LOG_H_
