// SPDX-License-Identifier: Apache-2.0
// Limits the unsent bytes that the kernel queues for a connection. By default the kernel takes
// megabytes at once. A request or a grant then queues after all of them, which on a slow link takes
// as long as a fragment, and uploads stall during downloads. With a short kernel queue the messages
// wait in gRPC, which alternates between streams. Plain TCP options; options that the system does
// not know are skipped.
#ifndef ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_
#define ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_

#include <grpcpp/support/channel_arguments.h>

namespace atl {

// Limit of bytes not sent yet; sent but unacknowledged bytes do not count. They take a twentieth of a
// second at 10 Mbit/s.
constexpr int kUnsentBytes = 64 * 1024;

// For one TCP socket; errors are ignored.
void KeepUnsentShort(int fd);
// For all connections of channels made with these arguments.
void KeepUnsentShort(grpc::ChannelArguments& args);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_SOCKET_OPTIONS_H_
