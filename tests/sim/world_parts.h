// SPDX-License-Identifier: Apache-2.0
// Private to world.cc: the ledger as observed by the laws, and one life of a worker.
#ifndef ATOLL_TESTS_SIM_WORLD_PARTS_H_
#define ATOLL_TESTS_SIM_WORLD_PARTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/machine_clock.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/step_ear.h"
#include "tests/sim/world.h"
#include "tests/support/memory_bulk.h"
#include "worker/link/network_link.h"

namespace atl {

// A ledger that reports its commits to the laws.
class World::WatchedLedger final : public Ledger {
 public:
  WatchedLedger(World& world, std::unique_ptr<Ledger> ledger) : world_(world), ledger_(std::move(ledger)) {}
  absl::Status Commit(const std::vector<LedgerRecord>& records) override {
    const bool was_dead = world_.files_.dead();
    absl::Status done = ledger_->Commit(records);
    if (was_dead) return done;
    world_.Trace(records.size());
    if (done.ok()) {
      world_.laws_.Committed(records);
    } else {
      world_.laws_.Undecided(records);
    }
    return done;
  }
  absl::StatusOr<RecoveredState> Recover() override { return ledger_->Recover(); }
  absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                  Version after, size_t limit) const override {
    return ledger_->Rounds(job, epoch, fragment, after, limit);
  }
  absl::Status PutToken(const TokenRecord& token) override { return ledger_->PutToken(token); }
  absl::Status DropToken(const std::string& id) override { return ledger_->DropToken(id); }
  absl::StatusOr<std::vector<TokenRecord>> Tokens() const override { return ledger_->Tokens(); }
  absl::Status PutRevocation(const RevocationRecord& r) override { return ledger_->PutRevocation(r); }
  absl::Status DropRevocation(const std::string& name) override { return ledger_->DropRevocation(name); }
  absl::StatusOr<std::vector<RevocationRecord>> Revocations() const override { return ledger_->Revocations(); }

 private:
  World& world_;
  const std::unique_ptr<Ledger> ledger_;
};

// One life of a worker. Its lines and its bulk connection outlive it.
struct World::Worker {
  Worker(World& w, const std::string& called, uint64_t nonce, const Machine& machine)
      : name(called),
        up(w.network_.NewLine()),
        down(w.network_.NewLine()),
        bulk_line(w.network_.NewLine()),
        beside(w.network_.NewLine()),
        clock(w.clock_.shared),
        ear(std::make_shared<StepEar>(beside, nonce % 3 == 0, [this] { session_poked = true; })),
        factory(
            w.factory_,
            [this](Duration d) {
              ear->Hear();
              session.ListenInStep();
              clock.Spend(d);
            },
            machine.step),
        rerouting(std::make_shared<ReroutingBulk>(
            w.acknowledged_,
            [&w](const ContributionHeader& header, const absl::Status& why) { w.laws_.NotBelieved(header, why); })),
        bulk(MakeMemoryBulkClient(*rerouting, bulk_line,
                                  {.frame_bytes = 4096, .cut = [r = rerouting] { return r->cut(); }})),
        link(
            {.worker = WorkerId{name}, .seed = w.seed_ * 1000 + nonce}, [this, &w] { return Open(w); }, *bulk, w.clock_,
            w.log_,
            [this](LinkEvent event) {
              ear->Keep([this, e = std::move(event)]() mutable { session.Post(std::move(e)); });
            },
            [this] { link_poked = true; }),
        session({.core = {.worker = WorkerId{name}, .program_version = "sim", .start_nonce = nonce, .device = "cpu"},
                 .sample_wait = {}},
                link, factory, *ear, clock, w.log_, [this] { session_poked = true; }) {
    // From zero to longer than a step. Computed, not drawn, so that the other draws stay unchanged.
    constexpr uint64_t kKinds = 4;
    beside.quality.delay = machine.step * static_cast<int64_t>(nonce % kKinds) / 2;
    factory.SetHostile(machine.hostile);
    SetQuality(machine.link);
  }
  ~Worker() { ear->Close(); }

  void SetQuality(const LineQuality& wished) { quality = up.quality = down.quality = bulk_line.quality = wished; }

  std::unique_ptr<WorkerEnd> Open(World& w) {
    ControlStreamPair pair = MakeSimStreamPair(
        w.near_, up, down, [this, &w](const WorkerMessage& message) { w.Heard(name, message); },
        [&w](const CoordinatorMessage& message) { w.Trace(message.index()); });
    break_connection = pair.break_connection;
    if (std::exchange(meets_older, false)) {
      w.older_.push_back(std::make_unique<OlderCoordinator>(std::move(pair.coordinator), w.laws_));
      return std::move(pair.worker);
    }
    if (w.coordinator_ != nullptr) w.coordinator_->controls.Accept(std::move(pair.coordinator), "memory");
    return std::move(pair.worker);  // without a coordinator its end is dropped and the stream ends
  }

  const std::string name;
  SimNetwork::Line& up;
  SimNetwork::Line& down;
  SimNetwork::Line& bulk_line;
  SimNetwork::Line& beside;  // carries jobs of the parallel thread: each takes the line's delay
  LineQuality quality;
  MachineClock clock;
  const std::shared_ptr<StepEar> ear;
  ToyJobFactory factory;
  std::shared_ptr<ReroutingBulk> rerouting;
  std::function<void()> break_connection = [] {};
  std::unique_ptr<BulkClient> bulk;
  bool link_poked = true, session_poked = true, meets_older = false;
  Instant due{}, stopped_until{};
  NetworkLink link;
  Session session;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_WORLD_PARTS_H_
