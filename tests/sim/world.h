// SPDX-License-Identifier: Apache-2.0
// A simulated deployment: the production engine, store, service, worker sessions and links in one thread, on machines
// of their own speed, over a network that delays, loses and parts (sim_network.h), on a disk that tears
// (memory_files.h), with the ledger in memory or in SQLite over that disk. One seed and one script of calls, one run:
// trace() is a hash over every instant at which something moved, message, commit and acceptance. The laws (laws.h) are
// checked after every step of the coordinator.
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
#include "coordinator/store/memory_ledger.h"
#include "tests/sim/laws.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/rerouting_bulk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_thread.h"
#include "tests/sim/sqlite_files.h"
#include "tests/sim/strangers.h"
#include "tests/sim/toy_job.h"
#include "worker/session/session.h"

namespace atl {

enum class Death { kKilled, kPowerCut, kTornPowerCut };

struct SimCoordinator;

class World {
 public:
  // `tell`: the programs' logs are written to standard error.
  World(uint64_t seed, bool sqlite, bool tell);
  ~World();

  // ---- the coordinator
  void StartCoordinator();
  // `silent`: no connection is reset; workers find out by their keepalive.
  void KillCoordinator(Death death, bool silent = false);
  bool coordinator_runs() const { return coordinator_ != nullptr; }
  // It dies after so many turns and jobs of its executors.
  void KillCoordinatorAfter(uint64_t steps) { steps_to_live_ = steps; }
  void StopCoordinator(Duration time);  // SIGSTOP, then SIGCONT
  void SetDiskDelay(Duration most) { disk_delay_ = most; }
  void AskSoon(Event event);  // dropped when there is no coordinator
  // What is durable of the state, as a backup of the running coordinator holds it, and what the laws know of it.
  struct Copy {
    std::map<std::string, std::vector<std::byte>> files;
    MemoryLedgerDisk ledger;
    Laws laws;
  };
  Copy BackUp() const;
  // Ends the coordinator, and leaves the copy as its state, in a line of its own (common/plan/boot_lines.h). Not with
  // SQLite.
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
  // Nothing arrives in the ways given.
  void Part(const std::string& name, bool up, bool down);
  void Join(const std::string& name);
  void StallTransfers(const std::string& name);  // until it joins: nothing that is up- or downloaded moves
  // Both ends are told; only the worker's is, as when the other never hears of it.
  void BreakStream(const std::string& name);
  void LoseStream(const std::string& name);
  void RefuseUploads(const std::string& name, int count);
  void CorruptUploads(const std::string& name, int count);
  // One of strangers.h, drawn: a contribution of before comes again, an older coordinator answers where a worker
  // connects next, or a bit of what a worker fetches next flips behind the check of its transfer. What it is called.
  const char* MeetStranger(Rng& rng);
  // Of what was accepted last, one from an incarnation that is void by now is offered to the round that is open, with
  // nothing else wrong with it. False where there is none.
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
  // A contribution that was accepted is measured against the parameters that were published (I4).
  void CheckBase(const ContributionHeader& header);
  void Trace(uint64_t value) { trace_ = (trace_ ^ value) * 0x100000001b3 + (trace_ >> 29); }
  bool Pass();
  bool TurnCoordinator(bool moved);
  bool TurnWorker(Worker& worker);
  bool RunWork();
  void Advance(Instant end);
  void EndByDisk(const absl::Status& status);
  bool Lives();  // the coordinator, and it is not stopped
  void Look(const std::function<void(const Core&, Instant)>& look);
  std::unique_ptr<Ledger> OpenLedger();

  const uint64_t seed_;
  const bool sqlite_;
  JumpingClock clock_;
  Rng random_;
  SimNetwork network_{clock_.shared, seed_};
  ManualExecutor near_;             // of the wires: what arrives is taken at once
  SimThread work_, snapshot_work_;  // of the coordinator: gone with it
  Log log_;
  MemoryFiles files_;
  SqliteFiles sqlite_files_{files_};
  MemoryLedgerDisk ledger_disk_;
  ToyJobFactory factory_{clock_.shared, Seconds(1)};
  Laws laws_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::map<std::string, std::unique_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<ReroutingBulk>> remains_;  // of dead workers: what is under way may still touch it
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
