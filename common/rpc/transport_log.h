// SPDX-License-Identifier: Apache-2.0
// The lines that gRPC and protobuf write to standard error of their own accord.
#ifndef ATOLL_COMMON_RPC_TRANSPORT_LOG_H_
#define ATOLL_COMMON_RPC_TRANSPORT_LOG_H_

namespace atl {

// Turns them off: whatever they could say reaches the program as a status, and a peer that sends broken messages must
// not fill the log, without bound and with text of its own. GRPC_VERBOSITY, where it is set, is left as it is, for
// people who look into gRPC itself. Call it first in main, while there is one thread.
void SilenceTransportLog();

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TRANSPORT_LOG_H_
