// SPDX-License-Identifier: Apache-2.0
// The coordinator around its core: one thread that takes events from a mailbox, steps the core, commits what it decided
// and only then publishes it. The engine never waits: appends, flushes, SQLite, hashing and aggregation are jobs on
// executors whose completion is an event, and a heartbeat queues behind none of them.
//
// The same class runs in production (Run on a thread, thread executors) and in the single-threaded harness (Turn by
// hand, manual executors and clock).
#ifndef ATOLL_COORDINATOR_ENGINE_ENGINE_H_
#define ATOLL_COORDINATOR_ENGINE_ENGINE_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/telemetry/event_log.h"
#include "common/telemetry/metrics.h"
#include "coordinator/core/core.h"
#include "coordinator/engine/commit_pipeline.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/engine/history.h"
#include "coordinator/engine/logs_wishes.h"
#include "coordinator/engine/mailbox.h"
#include "coordinator/engine/watchers.h"
#include "coordinator/store/ledger.h"
#include "coordinator/store/rounds_at_start.h"

namespace atl {

// A worker's control stream as the engine sees it. Both methods are called on the engine thread and must not block.
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void Send(const CoordinatorMessage& message) = 0;
  // After everything sent before; the stream's end is reported back through Engine::ControlClosed.
  virtual void Close() = 0;
};

// NotFound, in the words that every call uses.
absl::Status NoSuchJob(const JobId& job);

// A look at a job for people.
struct JobGlance {
  JobView view;
  std::vector<WorkerView> workers;    // of this job
  std::vector<EventLine> events;      // new since the last glance of this watcher
  std::vector<double> recent_losses;  // newest 120 points, oldest first
  JobHistory totals;                  // events and curves left out; the rest is filled
  double tokens_per_second = 0;       // sum over training workers
  double seconds_left = -1;           // < 0: unknown
};

struct EngineOptions {
  CoreOptions core;
};

// Everything the engine stands on. All outlive the engine.
struct EngineParts {
  Clock& clock;
  Executor& ledger_executor;  // strictly serial
  Ledger& ledger;
  DataPlane& data;
  EventLog& event_log;
  Metrics& metrics;
  Log& log;
  // The ledger can no longer be written: must end the process with the sentence (I24).
  std::function<void(const absl::Status&)> fatal;
};

class Engine {
 public:
  Engine(EngineOptions options, EngineParts parts, RecoveredState recovered);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes up the work that recovery left. Call once, before Run or the first Turn.
  // Rounds that are not whole get a line in their jobs' event logs; a job whose parameters need a damaged one stops
  // when they are loaded.
  void Start(const RoundsAtStart& rounds = {});
  // Handles everything that waits and everything that is due. Returns when it must be called again at the latest.
  Instant Turn();
  // Turns until asked to stop; then returns after what waits has been handled and the rounds that are being merged are
  // committed, or some seconds have passed. The caller's thread is the engine thread.
  void Run(std::stop_token stop);

  // ---- entries; all thread-safe, none blocks -----------------------------------------------------------------------
  // A control stream with its first message. `sink` is kept until ControlClosed.
  ConnectionId OpenControl(Hello hello, std::shared_ptr<ControlSink> sink);
  // False: the mailbox is full, or holds as many of this stream as it may, and the message is lost; the stream must be
  // closed, so that the worker begins anew.
  bool ControlSaid(ConnectionId connection, WorkerMessage message);
  void ControlClosed(ConnectionId connection);

  // An upload conversation. The verdict comes through the sink.
  UploadId OfferUpload(ContributionHeader header, BootNumber boot, std::shared_ptr<UploadSink> sink);
  // The conversation ended before its acceptance, for this reason. Payload goes to the DataPlane directly; what that
  // refuses is told by this.
  void BreakUpload(UploadId upload, absl::Status why);

  // Something that nobody waits for: disk space.
  void Tell(Event event);
  // Calls of people: the event's `request` is filled in; `answer` runs on the engine thread, after the commit.
  void Ask(Event event, std::function<void(const RequestAnswered&)> answer);
  // Runs `look` on the engine thread, at a moment when everything that the core holds is durable. It must not block.
  void Query(std::function<void(const Core& core, const History& history, Instant now)> look);
  // Runs `answer` on the engine thread at its next turn, whatever the ledger does: nothing is told but that it turns.
  void Probe(std::function<void()> answer);
  // The same, with all that is kept of the job's past in `history`. Of a job that had ended before the start that is
  // read when it is first asked for; only the newest of it is there before.
  void QueryPast(JobId job, std::function<void(const Core& core, const History& history, Instant now)> look);
  // Bytes of a download that left; worker empty: not a worker. `kind` is update, fragment, block, checkpoint or blob.
  void CountDownload(JobId job, WorkerId worker, std::string kind, uint64_t bytes);
  // Asks a worker for its newest log lines, none older than `since_wall_nanos`, as LogsWishes has it; `answer` gets
  // them, or an empty list when it is not connected or silent for 10 s.
  void WantLogs(WorkerId worker, uint32_t lines, int64_t since_wall_nanos, LogsWishes::Answer answer);

  // Shows the job on the engine thread at once, at every event of the job and at least twice a second, until Unwatch or
  // the job's end (the glance then shows an ended state). In the first call's place, and then no other comes: NotFound
  // for a job that is not there, ResourceExhausted while too many watch.
  uint64_t Watch(JobId job, uint64_t after_revision, GlanceSink sink);
  void Unwatch(uint64_t watcher);
  // Engine thread only: what Watch shows.
  JobGlance GlanceAt(const JobId& job, uint64_t after_revision, Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_ENGINE_H_
