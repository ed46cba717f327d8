// Refuses calls in the thread that reads them, before a handler or an interceptor is made ready for them. What comes
// later (the counter of common/rpc/acceptor.h, which ends connections) runs in other threads: a reader that gets more
// of the processor is thousands of calls ahead of them, tens of kilobytes each, and a peer that never acknowledges the
// server's settings is held to no number of streams by gRPC.
#ifndef ATOLL_COMMON_RPC_CALL_BRAKE_H_
#define ATOLL_COMMON_RPC_CALL_BRAKE_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

// Calls in a second. More than a connection may begin before it is ended, so that this is the second fence.
struct CallBrakeLimits {
  uint32_t per_connection = 600;
  uint32_t all = 4000;   // of all connections; beyond, calls are refused, but no connection is ended for it
  uint32_t always = 16;  // that a connection may make in any case: who calls seldom is not crowded out
};

// Thread-safe; never waits. Remembers the connections of two seconds.
class CallBrake {
 public:
  using Connection = uint64_t;

  explicit CallBrake(CallBrakeLimits limits = {}) : limits_(limits) {}
  // The number of the connection that `context` belongs to, given with its first call and never again.
  Connection NumberOf(grpc::AuthContext& context) ATOLL_EXCLUDES(mutex_);
  // The same of a call that has begun; 0 where none was given.
  static Connection Numbered(const grpc::AuthContext& context);
  // A call begins. ResourceExhausted when it is one too many. Never earlier than an earlier `now`.
  absl::Status Begin(Connection connection, Instant now) ATOLL_EXCLUDES(mutex_);
  // Whether the connection began more than its own in this second or the one before. Not when it was all too many.
  bool Refused(Connection connection, Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  struct Second {
    std::unordered_map<Connection, uint32_t> begun;
    std::unordered_set<Connection> refused;
  };
  void TurnTo(Instant now) ATOLL_REQUIRES(mutex_);

  const CallBrakeLimits limits_;
  Mutex mutex_;
  Connection newest_ ATOLL_GUARDED_BY(mutex_) = 0;
  Instant began_ ATOLL_GUARDED_BY(mutex_) = {};
  Second this_ ATOLL_GUARDED_BY(mutex_), last_ ATOLL_GUARDED_BY(mutex_);
  uint32_t all_ ATOLL_GUARDED_BY(mutex_) = 0;
};

// Says whether a call may be made; on the reading thread, must not wait.
using EarlyCheck = std::function<absl::Status(const std::string& method, const grpc::AuthContext& context)>;

// Brakes, then asks `check`, where there is one.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeBrakingProcessor(std::shared_ptr<CallBrake> brake, EarlyCheck check);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_CALL_BRAKE_H_
