// SPDX-License-Identifier: Apache-2.0
// Control streams of workers. The first message must be a Hello. Each later message goes to the
// engine, and each message of the engine to the stream. Never touches state.
#ifndef ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
#define ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_

#include <memory>
#include <set>
#include <string>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/rpc/message_stream.h"
#include "coordinator/engine/engine.h"

namespace atl {

// Thread-safe. Outlives the transport that calls Accept.
class ControlSessions {
 public:
  ControlSessions(Engine& engine, Log& log) : engine_(engine), log_(log) {}
  ~ControlSessions();
  // Takes over a new stream. At most limits::kWorkers + 64 at a time, and 16 of one identity;
  // further ones end with ResourceExhausted.
  void Accept(std::unique_ptr<CoordinatorEnd> stream, std::string peer) ATOLL_EXCLUDES(mutex_);

 private:
  class Session;
  // Keeps the session. Returns an error message if it may not.
  std::string Admit(const std::shared_ptr<Session>& session) ATOLL_EXCLUDES(mutex_);
  void Forget(const std::shared_ptr<Session>& session) ATOLL_EXCLUDES(mutex_);

  Engine& engine_;
  Log& log_;
  Mutex mutex_;
  std::set<std::shared_ptr<Session>> sessions_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
