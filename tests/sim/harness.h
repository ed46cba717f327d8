// SPDX-License-Identifier: Apache-2.0
// The whole system in one thread: the production engine, store, service and worker sessions with
// toy jobs, in-memory streams, an in-memory file system and a manual clock. Runs with equal seeds
// give equal hashes. Faults: coordinator and workers die and restart; the network breaks.
#ifndef ATOLL_TESTS_SIM_HARNESS_H_
#define ATOLL_TESTS_SIM_HARNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/telemetry/metrics.h"
#include "coordinator/engine/engine.h"
#include "coordinator/service/bulk_sessions.h"
#include "coordinator/service/control_sessions.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/sqlite_files.h"
#include "tests/sim/toy_job.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_ledger.h"
#include "worker/link/network_link.h"
#include "worker/session/session.h"

namespace atl {

// A small resolved job: a few thousand parameters, real layout.
JobSpec SmallJob(const std::string& name);

struct SimCoordinator;

class Harness {
 public:
  // `sqlite`: the ledger is a SQLite file on files(), so that its writes and flushes meet disk
  // faults too. Otherwise the ledger is in memory and a commit is one call.
  explicit Harness(uint64_t seed = 1, bool sqlite = false);
  ~Harness();

  // Does nothing if a disk fault (MemoryFiles::FailAt) prevents the start; the caller may then
  // start again.
  void StartCoordinator();
  // Kills the process: memory and unsynced bytes are lost, streams break.
  void KillCoordinator();
  // Stops the process in order, as on SIGTERM; the power fails right after. Returns the number of
  // snapshots that the stop wrote.
  size_t StopCoordinator();
  bool coordinator_runs() const { return coordinator_ != nullptr; }
  void StartWorker(const std::string& name);
  // A worker on its own machine: its steps take `step` while the other workers proceed.
  void StartWorkerOfSpeed(const std::string& name, Duration step);
  // A worker of the common speed; its contributions are `times` times too large
  // (ToyJobFactory::SetHostile).
  void StartHostileWorker(const std::string& name, double times);
  void KillWorker(const std::string& name);
  // Breaks the stream; the worker reconnects by itself.
  void BreakStream(const std::string& name);
  // The next `count` uploads of the worker are refused permanently, like a broken frame.
  void RefuseUploads(const std::string& name, int count);
  // One byte of each of the next `count` uploads of the worker is changed in transit.
  void CorruptUploads(const std::string& name, int count);
  // Limits the rate of the worker's later uploads. 0: unlimited, the default.
  void LimitUploads(const std::string& name, uint64_t bytes_per_second);
  // Each later download of the worker takes `each`, one after the other.
  void DelayDownloads(const std::string& name, Duration each);
  void LeaveWorker(const std::string& name);

  // Contributions that were reported to workers as accepted (I2).
  const std::vector<ContributionHeader>& acknowledged() const { return acknowledged_; }

  // Submits and waits for the answer. The dataset has `dataset_samples` samples; by default it is
  // endless.
  absl::Status Submit(const JobSpec& spec, uint64_t dataset_samples = UINT64_MAX);
  absl::Status Control(const std::string& job, JobAction action);
  absl::Status Purge(const std::string& job);
  absl::Status RollBack(const std::string& job, uint64_t checkpoint_step);
  absl::Status Ask(Event event);
  void AskWithoutWaiting(Event event);
  // Posts the event, then runs only `turns` turns and jobs of the executors.
  void AskAndTurn(Event event, int turns);

  // Runs everything until `done`, and advances the clock when nothing else can happen. Returns
  // false after `limit` of virtual time.
  bool RunUntil(const std::function<bool()>& done, Duration limit = Seconds(600));
  void RunFor(Duration time);

  std::optional<JobView> View(const std::string& job) const;
  std::vector<WorkerView> ViewWorkers() const;
  bool Ended(const std::string& job) const;
  Version VersionOf(const std::string& job, uint32_t fragment = 0) const;
  Digest HashOf(const std::string& job, uint32_t fragment = 0) const;
  std::vector<CurvePoint> Curve(const std::string& job, const std::string& name) const;
  std::vector<EventLine> EventLines(const std::string& job) const;  // the newest lines, oldest first
  // The page that a scrape of the coordinator would return.
  std::string MetricsPage() const;
  const Session* session(const std::string& worker) const;
  const ToyJobFactory& factory() const { return factory_; }
  ToyJobFactory& factory() { return factory_; }
  bool sqlite() const { return sqlite_; }
  MemoryLedgerDisk& ledger_disk() { return ledger_disk_; }  // used when the ledger is in memory
  MemoryFiles& files() { return files_; }
  ManualClock& clock() { return clock_; }
  // Committed hashes of a fragment by version, from the in-memory ledger.
  std::map<uint64_t, Digest> CommittedHashes(const std::string& job, uint32_t fragment = 0) const;
  // Committed rounds of a fragment by version, from the in-memory ledger.
  std::map<uint64_t, RoundRecord> CommittedRounds(const std::string& job, uint32_t fragment = 0) const;

 private:
  struct Worker;
  // Calls `look` once the ledger holds all decisions; nothing else moves meanwhile.
  void Look(const std::function<void(const Core&, Instant)>& look) const;
  bool TurnAll();
  void EndByDisk(const absl::Status& status);
  std::unique_ptr<Ledger> OpenLedger();  // null if a disk fault prevents it
  bool DeadByDisk() const { return coordinator_ != nullptr && files_.dead(); }
  Instant next_;

  const uint64_t seed_;
  const bool sqlite_;
  ManualClock clock_;
  ManualExecutor executor_;      // the transport, and worker jobs that run in parallel with training
  mutable ManualExecutor work_;  // the coordinator's; cleared when the coordinator dies
  Log log_{{.minimum = LogLevel::kError}};
  MemoryFiles files_;
  MemoryLedgerDisk ledger_disk_;
  SqliteFiles sqlite_files_{files_};
  ToyJobFactory factory_{clock_, Milliseconds(50)};
  std::unique_ptr<SimCoordinator> coordinator_;
  std::map<std::string, std::unique_ptr<Worker>> workers_;
  uint64_t nonce_ = 0;
  std::vector<ContributionHeader> acknowledged_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_HARNESS_H_
