// SPDX-License-Identifier: Apache-2.0
// Executes the decisions of worker/core: one worker on one thread, without its own thread, clock or
// socket. It owns the core, the outer copies and replicas, and the job's parts; the network is a Link, training a
// TrainingModel. A daemon calls Turn on its train thread, a harness on its only thread. An executor forms
// contributions, and applies early updates, in parallel with training.
// During a step the session also handles events of the link and the executor that concern transfers
// and leases: a step takes seconds, which would delay the start of a transfer.
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
#include "worker/replica/replicas.h"
#include "worker/session/job.h"

namespace atl {

// A step that was taken, for metrics.
struct StepTaken {
  uint64_t clock_step = 0;  // after the step
  double learning_rate = 0;
  StepOutcome outcome;
  Duration took{};       // of the model
  Duration data_wait{};  // waits for samples, summed since the previous step
  Duration sync_wait{};  // waits of the core (at apply steps, for leases and others), summed since the previous step
  // All other time: snapshots, applying, merging, evaluating. The four durations add up to the time since
  // the end of the previous step; for the first step of a job, since the session asked for its samples.
  Duration sync_work{};
};

// Work that blocks the session's thread until the device has finished. kBetweenSteps: all such work
// except steps, for example merging updates, snapshots for contributions, evaluating.
enum class TrainWork { kStep, kBetweenSteps };

struct SessionOptions {
  worker::CoreOptions core;
  // How long one Turn may wait for samples; zero in harnesses.
  Duration sample_wait = Milliseconds(200);
  SyncThreads sync_threads{};
  // Called around each piece of work on the device, on the session's thread; may be null.
  std::function<void(const JobId& job, const JobSpec& spec, TrainWork work)> work_begins;
  std::function<void()> work_ended;
  // Called on the session's thread when the session leaves and starts to release device resources, with whether
  // the device is known to be lost. Releasing may block forever on a lost device. May be null.
  std::function<void(bool device_lost)> on_letting_go;
  // Called after each step, on the session's thread; may be null.
  std::function<void(const StepTaken&)> on_step;
  // Called for each formed contribution with a norm above 0, on the session's thread or in ListenInStep: the norm of
  // the codec's loss over the norm of its input. May be null.
  std::function<void(double error_ratio)> on_contribution;
  // Metrics for the next heartbeats; may be null.
  std::function<std::vector<MetricSample>()> heartbeat_metrics;
};

struct TurnResult {
  bool progressed = false;  // turn again at once
  Instant next{};           // otherwise: at the latest then, or after a Post
};

struct SessionExit {
  worker::ExitReason reason = worker::ExitReason::kLeft;
  std::string text;
  bool device_lost = false;  // it left because a device was lost: see Step and WhyLost in job.h
};

class Session {
 public:
  // All arguments outlive the session. `executor` runs the work in parallel with training. Post and
  // the executor call `wake` (may be null) from their threads: then Turn must be called, and
  // ListenInStep by a thread that is not in Turn.
  Session(SessionOptions options, Link& link, JobFactory& factory, Executor& executor, const Clock& clock, Log& log,
          std::function<void()> wake);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Thread-safe, never blocks.
  void Post(LinkEvent event);
  // For SIGTERM and similar requests. Thread-safe.
  void RequestLeave(std::string reason);

  // Handles posted events and all due work; at most one inner step, evaluation or job preparation per call.
  TurnResult Turn();
  // While Turn runs a step of the model: handles posted events in order, up to the first that must wait for the end
  // of the step (worker::Core::HeardInStep) or that has an answer, and starts the resulting transfers. The result of
  // an early update is only stored. Otherwise no effect. Thread-safe; never waits for the step.
  void ListenInStep();
  // Set once, when all final messages have been passed to the link.
  const std::optional<SessionExit>& exit() const;

  // For harnesses and tests, on the session's thread.
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
