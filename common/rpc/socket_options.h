// SPDX-License-Identifier: Apache-2.0
// How much a connection keeps in the kernel before it is on its way. The kernel takes megabytes from a sender at once;
// what is said afterwards, a request or a grant of a transfer, then waits behind all of them, on a slow link for as
// long as a fragment takes, so that nothing goes up while something comes down. With a short queue it waits in gRPC
// instead, which lets streams take turns. Plain TCP options; what a system does not know is left as it is.
#ifndef ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_
#define ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_

#include <grpcpp/support/channel_arguments.h>

namespace atl {

// Not sent yet; what is sent and not acknowledged does not count. A twentieth of a second at 10 Mbit/s.
constexpr int kUnsentBytes = 64 * 1024;

// On a connection that this process has accepted.
void KeepUnsentShort(int fd);
// On every connection of channels that are made with these arguments.
void KeepUnsentShort(grpc::ChannelArguments& args);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_
