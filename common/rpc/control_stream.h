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

// Opens the stream; the connection is made in the background, a failure comes as on_closed. The destructor of the end
// waits until the call is over (at most about a second after Close, then it cancels); whoever drops an end from its own
// handler still holds the channel.
std::unique_ptr<WorkerEnd> OpenControlStream(std::shared_ptr<grpc::Channel> channel);

// Called for each new stream with its coordinator's end and the peer (PeerText of
// common/trust/identity.h), on a transport thread. The acceptor takes the end over and calls Start on it, at once or
// later; dropping it refuses the stream.
using ControlAcceptor = std::function<void(std::unique_ptr<CoordinatorEnd> stream, std::string peer)>;

struct ControlServiceOptions {
  // From Start of a coordinator's end to the worker's first message. A stream that stays silent for longer ends with
  // DeadlineExceeded at both ends: until then it takes a place that a worker could have.
  Duration first_message = Seconds(30);
  // From the decision to end a stream until it is over, which a peer that takes no bytes would never let it be: then it
  // is broken off.
  Duration ending = Seconds(10);
};

// atoll.v1.WorkerService. Must outlive the server it is registered with.
std::unique_ptr<grpc::Service> MakeControlService(ControlAcceptor acceptor, ControlServiceOptions options = {});

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CONTROL_STREAM_H_
