// SPDX-License-Identifier: Apache-2.0
// Checks whether the coordinator is alive: its engine thread and each of its ports answers. Read by
// /healthz, and every few seconds for the service manager, which ends a process that stops reporting.
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
  // Makes the engine thread call the argument at its next turn (Engine::Probe).
  std::function<void(std::function<void()>)> probe;
  Ports& ports;
  const ServiceManager& manager;
  Log& log;
  Duration engine_limit = Seconds(2);  // for an answer of the engine
};

// The parts outlive it.
class Vitals {
 public:
  static constexpr Duration kLookEvery = Seconds(5);  // more often if the service manager requires it

  explicit Vitals(VitalsParts parts) : parts_(std::move(parts)) {}

  // DeadlineExceeded if the engine thread does not answer within engine_limit. A slow flush of the ledger is no error:
  // a coordinator on a slow disk is healthy, and a restart would not help. Any thread; blocks for engine_limit at most.
  absl::Status EngineAnswers() ATOLL_EXCLUDES(mutex_);
  // As EngineAnswers, and Unavailable with the port's name while a port does not answer
  // (Ports::Answering). Any thread.
  absl::Status Healthy() ATOLL_EXCLUDES(mutex_);
  // Dials every port and asks the engine; notifies the service manager only if all is well. Blocks
  // for a few seconds at most. One caller at a time.
  void Look() ATOLL_EXCLUDES(mutex_);
  // Calls Look until asked to stop.
  void Run(const std::stop_token& stop) ATOLL_EXCLUDES(mutex_);

 private:
  const VitalsParts parts_;
  Mutex mutex_;
  // The newest question to the engine. No other is asked while it is open, so that questions do not pile up.
  std::shared_future<void> answer_ ATOLL_GUARDED_BY(mutex_);
  bool manager_deaf_ = false;  // whether the failed notification was logged; used by Look
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_VITALS_H_
