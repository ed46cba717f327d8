// SPDX-License-Identifier: Apache-2.0
// One end of a two-way stream of messages. Implementations: gRPC (control_stream.h) and, in tests,
// memory. A conformance test runs the same cases on both.
//
//   made -> Start -> on_message* -> on_closed (once and last, unless the end is destroyed before)
//
// Thread rule: Send, Close, Cancel, PauseReading and ResumeReading are thread-safe, never block and
// never call a handler inside the call. Handlers of one end run one at a time, on threads of the
// transport or on the given executor. After the destructor returns, no handler of this end runs any
// more. The destructor waits for a running handler, unless it is called from a handler of the same
// end.
#ifndef ATOLL_COMMON_RPC_MESSAGE_STREAM_H_
#define ATOLL_COMMON_RPC_MESSAGE_STREAM_H_

#include <functional>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/plan/messages.h"

namespace atl {

template <typename In>
struct StreamHandlers {
  std::function<void(In)> on_message;
  // Why the stream ended. At both ends: OK after an orderly end, Cancelled after a Cancel of either end,
  // ResourceExhausted when this end's outbox overflowed, InvalidArgument when the peer sent an invalid message,
  // DeadlineExceeded when the worker's first message was late (ControlServiceOptions). At the worker's end also:
  // the status given to the coordinator's Close, and Unavailable when the connection broke or was never made. The
  // coordinator's end reports a broken connection as Cancelled.
  std::function<void(absl::Status)> on_closed;
};

template <typename Out, typename In>
class MessageStream {
 public:
  virtual ~MessageStream() = default;  // cancels unless Close was called
  // Call once. Received messages wait until then.
  virtual void Start(StreamHandlers<In> handlers) = 0;
  // Queues a message; the transport sends messages in order. Returns ResourceExhausted and cuts the
  // stream when limits::kOutboxMessages are already queued. Returns FailedPrecondition after Close,
  // Cancel or the end.
  virtual absl::Status Send(Out message) = 0;
  // Sends the queued messages, then ends this end. The coordinator's `status` is passed to the
  // worker's on_closed; the worker's is ignored. on_closed follows once the peer is done too.
  virtual void Close(absl::Status status) = 0;
  // Drops the queued messages and ends the stream at once. on_closed follows later, not inside this call.
  virtual void Cancel() = 0;
  // Stops on_message until ResumeReading, except for a call already in progress. Backpressure slows
  // down the peer.
  virtual void PauseReading() = 0;
  virtual void ResumeReading() = 0;
};

using WorkerEnd = MessageStream<WorkerMessage, CoordinatorMessage>;
using CoordinatorEnd = MessageStream<CoordinatorMessage, WorkerMessage>;

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_MESSAGE_STREAM_H_
