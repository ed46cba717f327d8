// SPDX-License-Identifier: Apache-2.0
// Runs the coordinator's core. One thread takes events from a mailbox, steps the core, commits its
// decisions, and only then publishes them. The engine never waits: appends, flushes, SQLite,
// hashing and aggregation are jobs on executors that complete with an event. A heartbeat never
// queues after any of them.
//
// The same class runs in production (Run on a thread, thread executors) and in the single-threaded
// harness (Turn called by hand, manual executors and clock).
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

// A worker's control stream (coordinator/service implements it). Both methods are called on the engine thread and must
// not block.
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void Send(const CoordinatorMessage& message) = 0;
  // Takes effect after all earlier messages. The end of the stream is reported through
  // Engine::ControlClosed.
  virtual void Close() = 0;
};

// NotFound for a job that does not exist, with the message that every call uses.
absl::Status NoSuchJob(const JobId& job);

// One view of a job, for people.
struct JobGlance {
  JobView view;
  std::vector<WorkerView> workers;    // of this job
  std::vector<EventLine> events;      // new since this watcher's last glance
  std::vector<double> recent_losses;  // newest 120 points, oldest first
  JobHistory totals;                  // without events, next_revision and curves
  double tokens_per_second = 0;       // sum over training workers
  double seconds_left = -1;           // < 0: unknown
};

inline constexpr size_t kLooksAtOnce = 4;  // queries in a row; then all waiting events

struct EngineOptions {
  CoreOptions core;
};

// The dependencies of the engine. All outlive it.
struct EngineParts {
  Clock& clock;
  Executor& ledger_executor;  // strictly serial
  Ledger& ledger;
  DataPlane& data;
  EventLog& event_log;
  Metrics& metrics;
  Log& log;
  // The ledger can no longer be written: must end the process with this status (I24).
  std::function<void(const absl::Status&)> fatal;
};

class Engine {
 public:
  Engine(EngineOptions options, EngineParts parts, RecoveredState recovered);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Resumes the work that recovery found. Call once, before Run or the first Turn. Each cut or
  // damaged round is logged in its job's event log. A job with an unusable round log stops; one
  // whose parameters need a damaged round stops when they are loaded.
  void Start(const RoundsAtStart& rounds = {});
  // Handles the waiting and due work that no hold (ReadFairness) delays. Returns the latest time for the next call.
  Instant Turn();
  // Turns until asked to stop. Then returns once the waiting work is handled and the rounds being
  // merged are committed, or after a few seconds. The caller's thread is the engine thread.
  void Run(std::stop_token stop);

  // ---- entries; all thread-safe, none blocks -----------------------------------------------------------------------
  // Opens a control stream with its first message. `sink` is kept until ControlClosed.
  ConnectionId OpenControl(Hello hello, std::shared_ptr<ControlSink> sink);
  // False: the mailbox is full, or holds the maximum for this stream, and the message is lost. The
  // stream must be closed, so that the worker reconnects.
  bool ControlSaid(ConnectionId connection, WorkerMessage message);
  void ControlClosed(ConnectionId connection);

  // Begins an upload conversation. The verdict, or a refusal of the header, reaches `sink` later.
  UploadId OfferUpload(ContributionHeader header, BootNumber boot, std::shared_ptr<UploadSink> sink);
  // The upload ended before its acceptance, for this reason. Payload is sent to the DataPlane directly;
  // refusals of payload are reported to the engine through this call. No effect if the upload has ended.
  void BreakUpload(UploadId upload, absl::Status why);

  // Passes an event without a requester to the core, such as a change of disk space.
  void Tell(Event event);
  // Passes a person's call to the core with `request` filled in. `answer` runs on the engine thread after the commit.
  void Ask(Event event, std::function<void(const RequestAnswered&)> answer);
  // Runs `look` on the engine thread when all of the core's state is durable and looks have time left
  // (LookShare). At most kLooksAtOnce run in a row; then waiting events are handled. `look` must not block.
  void Query(std::function<void(const Core& core, const History& history, Instant now)> look);
  // Runs `answer` on the engine thread at its next turn, independent of the ledger: shows only that
  // the engine turns.
  void Probe(std::function<void()> answer);
  // Calls Query once `history` holds the job's complete past. The log of a job that ended before the start
  // is read at the first call; until then, or if it cannot be read, `history` has only its newest part.
  void QueryPast(JobId job, std::function<void(const Core& core, const History& history, Instant now)> look);
  // Counts the bytes sent for a download, if the job exists. An empty worker: the client is no
  // worker. `kind` is update, fragment, block or checkpoint; downloads of other kinds name no job.
  void CountDownload(JobId job, WorkerId worker, std::string kind, uint64_t bytes);
  // Asks a worker for its newest log lines, none older than `since_wall_nanos` (see LogsWishes).
  // `answer` gets the lines; an empty list if the worker is not connected or does not answer within
  // 10 s; or ResourceExhausted if too many calls wait for this worker.
  void WantLogs(WorkerId worker, uint32_t lines, int64_t since_wall_nanos, LogsWishes::Answer answer);

  // Shows the job to `sink` on the engine thread, once its past is read, at every event of the job and
  // about twice a second, until Unwatch or the job's end (the last glance shows the ended state). Glances
  // have the events after `after_revision`; 0: those from now on. On an error the sink gets one call with
  // it, and no other: NotFound for an unknown job, ResourceExhausted while there are too many watchers.
  uint64_t Watch(JobId job, uint64_t after_revision, GlanceSink sink);
  void Unwatch(uint64_t watcher);
  // Engine thread only: the view that Watch shows.
  JobGlance GlanceAt(const JobId& job, uint64_t after_revision, Instant now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_ENGINE_H_
