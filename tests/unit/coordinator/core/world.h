// SPDX-License-Identifier: Apache-2.0
// A coordinator's core among workers that do anything, legal or not, drawn from a seed: messages,
// broken connections, lost uploads, and coordinator restarts, some of which cannot read the
// accepted contributions. Laws are checked after every step, and the state after a restart is
// compared with the state before.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_CORE_WORLD_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_CORE_WORLD_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/plan/ledger_fold.h"
#include "coordinator/core/core.h"
#include "tests/unit/coordinator/core/honest_claims.h"

namespace atl {

// The part of a job's state that a restart must recover.
std::string Durable(const JobView& view);

class World {
 public:
  explicit World(uint64_t seed);
  // One random event.
  void Chaos();
  // Faults stop: new, honest workers. Returns the states of the jobs that have not ended after
  // `seconds`.
  std::vector<std::string> Calm(int seconds);
  // Recovers a core from the ledger and the trailers. Empty if it equals this core, otherwise the
  // difference.
  std::string RecoveryDifference() const;
  uint64_t rounds() const { return rounds_; }
  uint64_t Succeeded() const;  // in jobs

 private:
  struct Worker {
    std::optional<ConnectionId> connection;
    uint64_t nonce = 1, request = 0;
    Incarnation incarnation;
    JobId job;
    uint64_t step = 0, stop = 0;  // stop: ClosingStarted has arrived
    std::map<LeaseId, SampleRange> leases;
    std::optional<uint64_t> evaluation;
    bool said_done = false;
  };

  void Give(const Event& event);
  void Take(const Effects& effects);
  void Accept(const ContributionHeader& header);
  void MergeSamples(const RoundRecord& round, const ContributionHeader& header, const LeaseCursor& cursor);
  void Hear(Worker& worker, const CoordinatorMessage& message);
  void ConnectSomeone();
  void SaySomething();
  void Offer(const std::string& name, Worker& worker, const JobId& job, FragmentVersion target, bool honest);
  void OfferSomething();
  void MoveAnUpload();
  void FinishATask();
  bool Finish(size_t index, bool may_screen);
  bool FailTask(const Task& failed);
  void AskSomething();
  void Submit();
  // `damage`: the accepted contributions of some jobs cannot be read until the next restart.
  void Restart(bool damage);
  void CalmWorker(const std::string& name, Worker& worker);
  RecoveredState Recovered(uint64_t boot, bool with_flushing) const;
  bool Chance(uint64_t one_in) { return rng_.Below(one_in) == 0; }

  Rng rng_;
  CoreOptions options_{Seconds(2), Seconds(20)};
  Instant now_{1'000'000'000};
  uint64_t boot_ = 1;
  LedgerFold ledger_;
  std::unique_ptr<Core> core_;
  std::map<std::string, Worker> workers_;
  std::map<ConnectionId, std::string> names_;
  struct Upload {
    ContributionHeader header;
    bool flushing = false;
  };
  std::map<UploadId, Upload> uploads_;
  std::vector<ContributionHeader> accepted_;
  HonestClaims honest_claims_;
  std::map<JobId, std::string> damaged_;
  std::map<LeaseId, LeaseRecord> leases_;  // open
  using Claim = std::tuple<JobId, WorkerId, FragmentVersion, LeaseCursor>;
  std::map<Claim, uint64_t> claimed_;  // of accepted contributions: the begin of the lease
  std::map<std::pair<JobId, uint64_t>, std::map<uint64_t, uint64_t>> merged_;  // by job and epoch: from, to (I9)
  std::vector<Task> tasks_;
  uint64_t next_ = 1, jobs_ = 0, rounds_ = 0;
  std::map<std::pair<JobId, uint32_t>, std::pair<uint64_t, uint64_t>> newest_;  // (epoch, version): I6
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_CORE_WORLD_H_
