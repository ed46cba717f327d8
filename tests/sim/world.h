// SPDX-License-Identifier: Apache-2.0
// A simulated deployment in one thread: the production engine, store, service, worker sessions and
// links. Machines have their own speeds, the network delays, loses and partitions (sim_network.h),
// the disk tears (memory_files.h), and the ledger is in memory or in SQLite over that disk. Equal
// seeds and calls give equal runs: trace() hashes every message, commit and acceptance with its
// time. The laws (laws.h) are checked after every step of the coordinator.
#ifndef ATOLL_TESTS_SIM_WORLD_H_
#define ATOLL_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "coordinator/engine/engine.h"
#include "tests/sim/laws.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/rerouting_bulk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_thread.h"
#include "tests/sim/sqlite_files.h"
#include "tests/sim/strangers.h"
#include "tests/sim/toy_job.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_ledger.h"
#include "worker/session/session.h"

namespace atl {

enum class Death { kKilled, kPowerCut, kTornPowerCut };

struct SimCoordinator;

class World {
 public:
  // `tell`: write the programs' logs to standard error.
  World(uint64_t seed, bool sqlite, bool tell);
  ~World();

  // ---- the coordinator
  void StartCoordinator();
  // `silent`: no connection is reset; workers notice through their keepalive.
  void KillCoordinator(Death death, bool silent = false);
  bool coordinator_runs() const { return coordinator_ != nullptr; }
  // Kills the coordinator after that many turns and jobs of its executors.
  void KillCoordinatorAfter(uint64_t steps) { steps_to_live_ = steps; }
  void StopCoordinator(Duration time);  // SIGSTOP, then SIGCONT
  void SetDiskDelay(Duration most) { disk_delay_ = most; }
  void AskSoon(Event event);  // dropped when no coordinator runs
  // The durable state, as a backup of the running coordinator holds it, and the laws at that
  // moment.
  struct Copy {
    std::map<std::string, std::vector<std::byte>> files;
    MemoryLedgerDisk ledger;
    Laws laws;
  };
  Copy BackUp() const;
  // Ends the coordinator and makes the copy its state, on a new line of boot numbers
  // (common/plan/boot_lines.h). Not with SQLite.
  void Restore(const Copy& copy);

  // ---- workers
  struct Machine {
    Duration step = Seconds(1);
    LineQuality link;
    double hostile = 0;  // see ToyJobFactory::SetHostile
  };
  void StartWorker(const std::string& name, const Machine& machine);
  void KillWorker(const std::string& name);
  void LeaveWorker(const std::string& name);
  void StopWorker(const std::string& name, Duration time);
  void SetLink(const std::string& name, const LineQuality& quality);
  // Blocks the given directions.
  void Part(const std::string& name, bool up, bool down);
  void Join(const std::string& name);
  void StallTransfers(const std::string& name);  // no upload or download of the worker moves until Join
  // BreakStream notifies both ends. LoseStream notifies the coordinator only after its keepalive.
  void BreakStream(const std::string& name);
  void LoseStream(const std::string& name);
  void RefuseUploads(const std::string& name, int count);
  void CorruptUploads(const std::string& name, int count);
  // Plays one drawn case of strangers.h and returns its name: a repeated contribution, an older
  // coordinator at the worker's next connect, or a flipped bit in a download after the transfer's
  // check.
  const char* MeetStranger(Rng& rng);
  // Offers a recently accepted contribution of a now void incarnation to the open round; nothing
  // else is wrong with it. Returns false if there is none.
  bool MeetVoid() {
    const bool met = coordinator_runs() && !files_.dead() &&
                     OfferFromAVoidIncarnation(nowhere_, std::span(acknowledged_).first(acknowledged_seen_), laws_);
    poked_ = poked_ || met;
    return met;
  }
  bool HasLeft(const std::string& name) const;
  const Session* session(const std::string& name) const;
  std::vector<std::string> workers() const;

  void RunFor(Duration time);
  bool RunUntil(const std::function<bool()>& done, Duration limit);

  std::optional<JobView> View(const JobId& job);
  std::vector<WorkerView> ViewWorkers();
  Laws& laws() { return laws_; }
  MemoryFiles& files() { return files_; }
  MemoryLedgerDisk& ledger_disk() { return ledger_disk_; }
  bool sqlite() const { return sqlite_; }
  ManualClock& clock() { return clock_.shared; }
  void JumpWallClock(Duration by) { clock_.wall_offset = clock_.wall_offset + by; }
  int64_t WallNanos() const { return clock_.WallNanos(); }
  uint64_t trace() const { return trace_; }
  uint64_t passes() const { return passes_; }
  const SimNetwork& network() const { return network_; }
  bool disk_has_failed() const { return disk_failed_; }

 private:
  struct Worker;
  class WatchedLedger;
  struct JumpingClock final : public Clock {
    ManualClock shared;
    Duration wall_offset{};
    Instant Now() const override { return shared.Now(); }
    int64_t WallNanos() const override { return shared.WallNanos() + wall_offset.ns; }
  };
  void Heard(const std::string& worker, const WorkerMessage& message);
  // An accepted contribution is computed from the published parameters (I4).
  void CheckBase(const ContributionHeader& header);
  void Trace(uint64_t value) { trace_ = (trace_ ^ value) * 0x100000001b3 + (trace_ >> 29); }
  bool Pass();
  bool TurnCoordinator(bool moved);
  bool TurnWorker(Worker& worker);
  bool RunWork();
  void Advance(Instant end);
  void EndByDisk(const absl::Status& status);
  bool Lives();  // the coordinator runs and is not stopped
  void Look(const std::function<void(const Core&, Instant)>& look);
  std::unique_ptr<Ledger> OpenLedger();

  const uint64_t seed_;
  const bool sqlite_;
  JumpingClock clock_;
  Rng random_;
  SimNetwork network_{clock_.shared, seed_};
  ManualExecutor near_;             // of the transport: runs arrivals immediately
  SimThread work_, snapshot_work_;  // of the coordinator; end with it
  Log log_;
  MemoryFiles files_;
  SqliteFiles sqlite_files_{files_};
  MemoryLedgerDisk ledger_disk_;
  ToyJobFactory factory_{clock_.shared, Seconds(1)};
  Laws laws_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::map<std::string, std::unique_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<ReroutingBulk>> remains_;  // of dead workers: calls in flight may still touch them
  std::vector<ContributionHeader> acknowledged_, acknowledged_again_;
  ReroutingBulk nowhere_{acknowledged_again_};
  std::vector<std::unique_ptr<OlderCoordinator>> older_;
  size_t acknowledged_seen_ = 0;
  uint64_t nonce_ = 0, trace_ = 0xcbf29ce484222325, passes_ = 0, crawled_ = 0;
  Instant coordinator_due_{}, stopped_until_{}, next_{};
  Duration disk_delay_{};
  std::optional<uint64_t> steps_to_live_;
  bool poked_ = false, disk_failed_ = false;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_WORLD_H_
