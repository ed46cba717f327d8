// SPDX-License-Identifier: Apache-2.0
// The control stream over gRPC: the worker's end on a channel and the coordinator's end as a service.
#ifndef ATOLL_COMMON_RPC_CONTROL_STREAM_H_
#define ATOLL_COMMON_RPC_CONTROL_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/time.h"
#include "common/rpc/message_stream.h"

namespace atl {

// Returns an end; its Start opens the stream. The connection is made in the background; on_closed reports a failure.
// The destructor, unless called in a handler of this end, waits until the call is over: after Close at most about a
// second, then it cancels. A caller that destroys an end in its own handler must still hold the channel.
std::unique_ptr<WorkerEnd> OpenControlStream(std::shared_ptr<grpc::Channel> channel);

// Called on a transport thread for each new stream, with the coordinator's end and the peer
// (PeerText of common/trust/identity.h). The acceptor takes over the end and calls Start on it, at
// once or later. Dropping the end refuses the stream.
using ControlAcceptor = std::function<void(std::unique_ptr<CoordinatorEnd> stream, std::string peer)>;

struct ControlServiceOptions {
  // Longest time from Start of a coordinator's end to the worker's first message. A stream that is
  // silent for longer, without being paused, ends with DeadlineExceeded at both ends, because it
  // occupies a place that another worker could use.
  Duration first_message = Seconds(30);
  // Longest time from the decision to end a stream to its end. After it the stream is aborted,
  // because a peer that reads nothing would never let it end.
  Duration ending = Seconds(10);
};

// atoll.v1.WorkerService. Must outlive the server it is registered with.
std::unique_ptr<grpc::Service> MakeControlService(ControlAcceptor acceptor, ControlServiceOptions options = {});

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CONTROL_STREAM_H_
