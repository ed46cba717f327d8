// Control streams of workers: the first message must be a Hello; after that every message goes to the engine and every
// message of the engine to the stream. Never touches state.
#ifndef ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
#define ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_

#include <map>
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
  // Takes a new stream over. At most limits::kWorkers + 64 at a time, and 16 of one identity; further ones are told
  // ResourceExhausted.
  void Accept(std::unique_ptr<CoordinatorEnd> stream, std::string peer) ATOLL_EXCLUDES(mutex_);

 private:
  class Session;
  // Counts one more stream of `identity` (empty: none is shown), or says why not.
  std::string Admit(const std::string& identity) ATOLL_EXCLUDES(mutex_);
  void Forget(const std::shared_ptr<Session>& session) ATOLL_EXCLUDES(mutex_);

  Engine& engine_;
  Log& log_;
  Mutex mutex_;
  std::set<std::shared_ptr<Session>> sessions_ ATOLL_GUARDED_BY(mutex_);
  size_t admitted_ ATOLL_GUARDED_BY(mutex_) = 0;                        // and not ended
  std::map<std::string, size_t> of_identity_ ATOLL_GUARDED_BY(mutex_);  // by name; none of those that show none
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CONTROL_SESSIONS_H_
