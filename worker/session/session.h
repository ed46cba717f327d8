// SPDX-License-Identifier: Apache-2.0
// Carries out what worker/core decides: one worker in one thread, without a thread, clock or socket of its own. It owns
// the core, the outer copies and replicas, and the job's parts; the network is a Link, training a TrainingModel. A
// daemon turns it on its train thread, a harness in its only one. Contributions are formed, and updates that come early
// applied, on an executor while training goes on, and what the link and the executor tell meanwhile is heard while the
// model takes a step, as far as it concerns transfers and leases: a step takes seconds, and a transfer that began
// behind it would be that much later.
//
//   link -> Post(event) -> inbox -> Turn: core.Step -> effects -> replicas, model, link -> events -> core ...
//                            ^--------------------- executor <-------'
#ifndef ATOLL_WORKER_SESSION_SESSION_H_
#define ATOLL_WORKER_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "worker/core/core.h"
#include "worker/link/link.h"
#include "worker/session/job.h"

namespace atl {

// A step that was taken, for metrics.
struct StepTaken {
  uint64_t clock_step = 0;  // after it
  double learning_rate = 0;
  StepOutcome outcome;
  Duration took{};       // of the model
  Duration data_wait{};  // before it, in all since the step before
  Duration sync_wait{};  // likewise, at apply steps and for leases
  // Likewise, with neither: snapshots, applying, merging, evaluating. These four add up to the time from the end of the
  // step before, or of the first step of a job from its beginning.
  Duration sync_work{};
};

// What holds the session's thread until the device has done it. Between steps: taking up and merging what came, sending
// snapshots on, evaluating.
enum class TrainWork { kStep, kBetweenSteps };

struct SessionOptions {
  worker::CoreOptions core;
  // How long one Turn may wait for samples; zero in harnesses.
  Duration sample_wait = Milliseconds(200);
  SyncThreads sync_threads{};
  // Around each piece of work on the device, in the session's thread; may be empty.
  std::function<void(const JobId& job, const JobSpec& spec, TrainWork work)> work_begins;
  std::function<void()> work_ended;
  // The session leaves, and from here on lets go of what it has of the device, which may wait for ever where that is
  // lost. Told in its thread, with whether it is known to be; may be empty.
  std::function<void(bool device_lost)> on_letting_go;
  // Told after each step, in the session's thread; may be empty.
  std::function<void(const StepTaken&)> on_step;
  // Told of each contribution formed, in the session's thread or in ListenInStep: norm of what the codec lost over norm
  // of what was encoded; may be empty.
  std::function<void(double error_ratio)> on_contribution;
  // Metrics for the next heartbeats; may be empty.
  std::function<std::vector<MetricSample>()> heartbeat_metrics;
};

struct TurnResult {
  bool progressed = false;  // turn again at once
  Instant next{};           // otherwise: at the latest then, or after a Post
};

struct SessionExit {
  worker::ExitReason reason = worker::ExitReason::kLeft;
  std::string text;
  bool device_lost = false;  // it left because a step was Unavailable (job.h)
};

class Session {
 public:
  // Everything given outlives the session. `executor` runs what goes on beside training. `wake` (may be empty) is
  // called by Post and by the executor, from their threads: Turn is to be called, and ListenInStep by a thread that
  // is not in Turn.
  Session(SessionOptions options, Link& link, JobFactory& factory, Executor& executor, const Clock& clock, Log& log,
          std::function<void()> wake);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Thread-safe, never blocks.
  void Post(LinkEvent event);
  // SIGTERM and the like. Thread-safe.
  void RequestLeave(std::string reason);

  // Takes in what was posted and does what is due; at most one inner step, evaluation or job preparation a call.
  TurnResult Turn();
  // While Turn has the model take a step: takes in what was posted, in order, up to what only a step's end allows
  // (worker::Core::HeardInStep), and starts the transfers that come of it. Otherwise nothing. Thread-safe, and never
  // waits for the step.
  void ListenInStep();
  // Set once: everything that was to be said was given to the link.
  const std::optional<SessionExit>& exit() const;

  // For harnesses and tests, in the session's thread.
  const worker::Core& core() const;
  // Empty before the job is prepared.
  std::span<const float> outer_parameters() const;
  std::span<const float> local_parameters() const;  // of a CPU job

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_SESSION_H_
