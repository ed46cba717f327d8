// SPDX-License-Identifier: Apache-2.0
// Whether a coordinator that runs is alive: its engine turns and each of its ports answers who dials it. Looked at by
// /healthz, and every few seconds for the service manager, which ends a process of which it hears nothing.
#ifndef ATOLL_COORDINATOR_SERVICE_VITALS_H_
#define ATOLL_COORDINATOR_SERVICE_VITALS_H_

#include <functional>
#include <future>
#include <stop_token>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/service_manager.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "coordinator/service/ports.h"

namespace atl {

struct VitalsParts {
  // Has the engine thread call this at its next turn (Engine::Probe).
  std::function<void(std::function<void()>)> probe;
  Ports& ports;
  const ServiceManager& manager;
  Log& log;
  Duration engine_limit = Seconds(2);  // for an answer of the engine
};

// What it is made of outlives it.
class Vitals {
 public:
  static constexpr Duration kLookEvery = Seconds(5);  // oftener where the service manager wants it

  explicit Vitals(VitalsParts parts) : parts_(std::move(parts)) {}

  // DeadlineExceeded when the engine does not turn within its limit. Its ledger may take long to flush: a coordinator
  // on a slow disk is well, and to start it again would help nobody. Any thread; blocks until then.
  absl::Status EngineAnswers() ATOLL_EXCLUDES(mutex_);
  // The same, and Unavailable with the port's name while one does not answer (Ports::Answering). Any thread.
  absl::Status Healthy() ATOLL_EXCLUDES(mutex_);
  // Dials every port and asks the engine; where all is well the service manager is told so, and nothing where it is
  // not. Blocks for some seconds at most. One caller at a time.
  void Look() ATOLL_EXCLUDES(mutex_);
  // Looks until it is asked to stop.
  void Run(const std::stop_token& stop) ATOLL_EXCLUDES(mutex_);

 private:
  const VitalsParts parts_;
  Mutex mutex_;
  // The newest question to the engine: while it is not answered there is no other, or they would pile up.
  std::shared_future<void> answer_ ATOLL_GUARDED_BY(mutex_);
  bool manager_deaf_ = false;  // that was said; of Look
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_VITALS_H_
