// SPDX-License-Identifier: Apache-2.0
// Control streams of workers. The first message must be a Hello. Passes each later message to the
// engine, and each message of the engine to the stream. Holds no state of jobs or workers.
#ifndef ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
#define ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_

#include <memory>
#include <set>
#include <string>

#include "common/base/line_rate.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/message_stream.h"
#include "coordinator/engine/engine.h"
#include "coordinator/service/call_budget.h"

namespace atl {

// The control streams that one identity may begin. Each writes log lines, and a joining worker a ledger record.
inline constexpr CallBudget::Limits kStreamsOfOne = {.at_once = 60, .every = Seconds(10)};

// Thread-safe. Must outlive the transport that calls Accept.
class ControlSessions {
 public:
  ControlSessions(Engine& engine, const Clock& clock, Log& log) : engine_(engine), clock_(clock), log_(log) {}
  ~ControlSessions();
  // Takes over a new stream. At most limits::kWorkers + 64 at a time, 16 of one identity, and kStreamsOfOne
  // of one identity over time; further ones end with ResourceExhausted.
  void Accept(std::unique_ptr<CoordinatorEnd> stream, std::string peer) ATOLL_EXCLUDES(mutex_);

 private:
  class Session;
  // Stores the session and returns "", or returns an error message if a limit is reached.
  std::string Admit(const std::shared_ptr<Session>& session) ATOLL_EXCLUDES(mutex_);
  void Forget(const std::shared_ptr<Session>& session) ATOLL_EXCLUDES(mutex_);

  Engine& engine_;
  const Clock& clock_;
  Log& log_;
  LineRate refusals_;
  Mutex mutex_;
  std::set<std::shared_ptr<Session>> sessions_ ATOLL_GUARDED_BY(mutex_);
  CallBudget begun_ ATOLL_GUARDED_BY(mutex_){kStreamsOfOne};
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
