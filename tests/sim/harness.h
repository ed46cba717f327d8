// SPDX-License-Identifier: Apache-2.0
// The whole system in one thread: the production engine, store, service and worker sessions with toy jobs, in-memory
// streams, a file system in memory and a clock that moves only when told. One seed, one run: the same seed gives the
// same hashes. Faults here: coordinator and workers die and come back; the network breaks.
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
#include "coordinator/store/memory_ledger.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/sqlite_files.h"
#include "tests/sim/toy_job.h"
#include "worker/link/network_link.h"
#include "worker/session/session.h"

namespace atl {

// A small resolved job: a few thousand parameters, real layout.
JobSpec SmallJob(const std::string& name);

struct SimCoordinator;

class Harness {
 public:
  // `sqlite`: the ledger is a SQLite file on files(), whose writes and flushes meet faults too; otherwise it is in
  // memory and a commit is one call.
  explicit Harness(uint64_t seed = 1, bool sqlite = false);
  ~Harness();

  // Does nothing when the disk (MemoryFiles::FailAt) lets it not start; then start it again.
  void StartCoordinator();
  // The process dies: memory and unsynced bytes are gone, streams break.
  void KillCoordinator();
  // The process ends in order, as on SIGTERM, and the power goes behind its last word. Returns how many snapshots it
  // has written for that.
  size_t StopCoordinator();
  bool coordinator_runs() const { return coordinator_ != nullptr; }
  void StartWorker(const std::string& name);
  // A worker on a machine of its own: its steps take `step`, and meanwhile the others go on.
  void StartWorkerOfSpeed(const std::string& name, Duration step);
  // Likewise, of the common speed, and its contributions are so many times too large (ToyJobFactory::SetHostile).
  void StartHostileWorker(const std::string& name, double times);
  void KillWorker(const std::string& name);
  // The stream breaks; the worker comes back by itself.
  void BreakStream(const std::string& name);
  // The next `count` uploads of the worker are refused for good, as a broken frame would be.
  void RefuseUploads(const std::string& name, int count);
  // The next `count` uploads of the worker arrive with other bytes.
  void CorruptUploads(const std::string& name, int count);
  // The worker's uploads to come go up at this rate; 0: at once, as all do otherwise.
  void LimitUploads(const std::string& name, uint64_t bytes_per_second);
  // Each of the worker's downloads to come takes so long, one after the other.
  void DelayDownloads(const std::string& name, Duration each);
  void LeaveWorker(const std::string& name);

  // Contributions that workers were told to be accepted (I2).
  const std::vector<ContributionHeader>& acknowledged() const { return acknowledged_; }

  // Submits and waits for the answer. The dataset has so many samples: without end where nothing is said.
  absl::Status Submit(const JobSpec& spec, uint64_t dataset_samples = UINT64_MAX);
  absl::Status Control(const std::string& job, JobAction action);
  absl::Status Purge(const std::string& job);
  absl::Status RollBack(const std::string& job, uint64_t checkpoint_step);
  absl::Status Ask(Event event);
  void AskWithoutWaiting(Event event);
  // Asks, and lets only so many turns and jobs of the executors happen.
  void AskAndTurn(Event event, int turns);

  // Turns everything until `done`, letting time pass when nothing else can happen. False when `limit` of virtual time
  // passed.
  bool RunUntil(const std::function<bool()>& done, Duration limit = Seconds(600));
  void RunFor(Duration time);

  std::optional<JobView> View(const std::string& job) const;
  std::vector<WorkerView> ViewWorkers() const;
  bool Ended(const std::string& job) const;
  Version VersionOf(const std::string& job, uint32_t fragment = 0) const;
  Digest HashOf(const std::string& job, uint32_t fragment = 0) const;
  std::vector<CurvePoint> Curve(const std::string& job, const std::string& name) const;
  std::vector<EventLine> EventLines(const std::string& job) const;  // the newest, oldest first
  // What a scrape of the coordinator would show.
  std::string MetricsPage() const;
  const Session* session(const std::string& worker) const;
  const ToyJobFactory& factory() const { return factory_; }
  ToyJobFactory& factory() { return factory_; }
  bool sqlite() const { return sqlite_; }
  MemoryLedgerDisk& ledger_disk() { return ledger_disk_; }  // of a ledger in memory
  MemoryFiles& files() { return files_; }
  ManualClock& clock() { return clock_; }
  // Committed hashes of a fragment by version, as the ledger in memory holds them.
  std::map<uint64_t, Digest> CommittedHashes(const std::string& job, uint32_t fragment = 0) const;
  // Committed rounds of a fragment by version, likewise.
  std::map<uint64_t, RoundRecord> CommittedRounds(const std::string& job, uint32_t fragment = 0) const;

 private:
  struct Worker;
  // Answered once the ledger has what was decided; nothing else moves meanwhile.
  void Look(const std::function<void(const Core&, Instant)>& look) const;
  bool TurnAll();
  void EndByDisk(const absl::Status& status);
  std::unique_ptr<Ledger> OpenLedger();  // null where the disk does not let it
  bool DeadByDisk() const { return coordinator_ != nullptr && files_.dead(); }
  Instant next_;

  const uint64_t seed_;
  const bool sqlite_;
  ManualClock clock_;
  ManualExecutor executor_;      // of the wires, and of what workers do beside training
  mutable ManualExecutor work_;  // of the coordinator: gone with it
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
