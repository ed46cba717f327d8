// SPDX-License-Identifier: Apache-2.0
// One end of a two-way stream of messages, behind which stands gRPC (control_client.h, control_service.h) or memory
// (memory_stream.h); a conformance test runs the same cases on both.
//
//   made -> Start -> on_message* -> on_closed (exactly once, last)
//
// Thread rule: Send, Close, Cancel, PauseReading and ResumeReading are thread-safe, never block and never call a
// handler inside the call. Handlers of one end run one at a time, on threads of the transport or on the given executor.
// After the destructor returns no handler of this end runs any more; the destructor may be called from a handler of the
// same end, otherwise it waits for a running one.
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
  // Why the stream ended. At both ends: OK after an end in order, Cancelled after a Cancel of either end,
  // ResourceExhausted when this end's outbox overflowed, InvalidArgument when the peer sent what is not a valid
  // message. At the worker's end also the status given to the coordinator's Close, and Unavailable when the connection
  // broke or was never made; the coordinator's end says Cancelled to that.
  std::function<void(absl::Status)> on_closed;
};

template <typename Out, typename In>
class MessageStream {
 public:
  virtual ~MessageStream() = default;  // cancels unless Close was called
  // Call once; messages wait until then.
  virtual void Start(StreamHandlers<In> handlers) = 0;
  // Queues a message; the transport sends in order. ResourceExhausted when limits::kOutboxMessages wait already: the
  // stream is then cut. FailedPrecondition after Close, Cancel or the end.
  virtual absl::Status Send(Out message) = 0;
  // Sends what is queued, then ends this end. At a server `status` reaches the peer's on_closed; a client ends in order
  // whatever it is. on_closed follows once the peer is done too.
  virtual void Close(absl::Status status) = 0;
  // Ends at once; what is queued is dropped. on_closed follows.
  virtual void Cancel() = 0;
  // No further on_message until ResumeReading; one already under way may still come. The peer is slowed down in turn.
  virtual void PauseReading() = 0;
  virtual void ResumeReading() = 0;
};

using WorkerEnd = MessageStream<WorkerMessage, CoordinatorMessage>;
using CoordinatorEnd = MessageStream<CoordinatorMessage, WorkerMessage>;

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_MESSAGE_STREAM_H_
