// SPDX-License-Identifier: Apache-2.0
// What must hold in a simulated run whatever happens (docs/invariants.md names the laws). A broken one ends the run:
// the first sentence is kept.
#ifndef ATOLL_TESTS_SIM_LAWS_H_
#define ATOLL_TESTS_SIM_LAWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/plan/messages.h"
#include "coordinator/core/core.h"
#include "coordinator/store/ledger.h"

namespace atl {

class Laws {
 public:
  // Empty: none is broken.
  const std::string& broken() const { return broken_; }
  void Break(const std::string& law);

  // A transaction is durable. I1 a contribution is merged once; I6 versions grow by one and never change; I8 a round
  // has workers.min, unless its job ends or its data does; I9 a request for samples has one lease, unless that was
  // given back whole, and no two leases bring the same sample into an epoch's parameters, and a contribution to a job
  // of one fragment counts no more tokens and steps than it has samples that are new; I10 boot numbers grow. A job's
  // clock goes back in rollbacks alone. Whoever is given a lease holds no more samples than it may train
  // unsynchronised, and one period on its way.
  void Committed(const std::vector<LedgerRecord>& records);
  // A transaction of which nobody knows whether it is durable: the process died over it.
  void Undecided(const std::vector<LedgerRecord>& records) { undecided_ = records; }
  // What a coordinator found at its start: everything that was committed, nothing else (I4, I26).
  void Recovered(const Ledger& ledger, const RecoveredState& state);
  // After a step of the core, when all is durable that it holds: its own invariants (I1, I6, I8, I9, I10, I12), and now
  // and then, as people see them, the balance of every job, that no round waits for a worker that is lost or has left,
  // that a cordoned worker gets no other job, that a lost worker loses its job with its incarnation (I10), and that a
  // running job keeps workers.min of those that it has where another job takes some.
  void Looked(const Core& core, Instant now);
  // A worker was told that its contribution is accepted. I2: the round that it is for is not made without it, but where
  // the screens have refused it. Not looked at once a job was rolled back.
  void Acknowledged(const ContributionHeader& header);
  // An operator was answered: it may get another job, and be cordoned with it, before the next look.
  void Readmitted(const WorkerId& worker) { cordoned_.erase(worker); }
  // The state is a copy of before, of which `then` is what was known.
  void GoBackTo(const Laws& then);
  // Until the end of the run.
  void Keep(std::shared_ptr<void> something) { kept_.push_back(std::move(something)); }
  // A worker says that it leaves a job with an error: nothing in a simulation is a reason for that.
  void Failed(const WorkerId& worker, const JobFailure& failure);
  // A worker's contribution is refused for what it says: all of them say what is so.
  void NotBelieved(const ContributionHeader& header, const absl::Status& why);
  // After a restart: every contribution to an open round that was acknowledged is among `state`'s accepted (I2), but of
  // the jobs in `damaged`.
  void CheckAcknowledged(const RecoveredState& state, const std::map<JobId, std::string>& damaged);

  // What forbids an answer to a contribution that is offered now; empty: nothing.
  struct Void {
    std::string accepted, granted;
    JobId job;
    uint64_t epoch = 0, boot = 0, screened = 0;  // when it was said
  };
  // I1 another contribution of that worker to that round is accepted; I9 a lease behind it was taken back; I10 its
  // incarnation is void; I11 its sender has seen a newer coordinator.
  Void VoidBy(const ContributionHeader& header, BootNumber boot) const;
  // No coordinator has died since, no rollback been made, and nothing refused by a screen.
  bool StillHolds(const Void& reasons) const;
  // As far as the ledger tells: the newest incarnation, 0 for none; the version of a fragment.
  Incarnation IncarnationOf(const WorkerId& worker) const;
  Version VersionOf(const JobId& job, FragmentIndex fragment) const;
  const JobRecord* JobOf(const JobId& job) const;  // null: it has none
  // None: it is not of this epoch, or no round has made it.
  std::optional<Digest> HashOf(const JobId& job, const FragmentVersion& version) const;
  BootNumber life() const { return life_; }  // of the newest coordinator

  struct Counts {
    uint64_t looks = 0, commits = 0, rounds = 0, contributions = 0, rollbacks = 0, recoveries = 0, leases = 0;
    uint64_t checkpoints = 0, evaluations = 0, quarantines = 0, ended_jobs = 0;
  };
  const Counts& counts() const { return counts_; }
  uint64_t RoundsOf(const JobId& job) const;

 private:
  struct Fragment {
    uint64_t epoch = 0;
    std::map<uint64_t, Digest> hashes;  // by version, of this epoch
    uint64_t version = 0;
  };
  void Record(const RoundRecord& round);
  void Record(const RollbackRecord& rollback);
  void Record(const JobRecord& job);
  void Record(const WorkerRecord& worker);
  void Record(const LeaseRecord& lease);
  void CheckHeld(const LeaseRecord& granted);
  void Record(const CheckpointRecord& checkpoint);
  // A rollback sets the samples back with the parameters, in one transaction.
  void CheckRollback(const RollbackRecord& rollback, const std::vector<LedgerRecord>& records);
  // Whether what it counts is behind it. Before its samples are looked at.
  void CheckCounted(const RoundRecord& round, const ContributionHeader& header);
  // Of one that was told to be accepted, once the version after its own is committed.
  void CheckTakenIn(const ContributionHeader& header);
  // Samples that were merged under one lease, up to a cursor of it.
  void CheckSamples(const RoundRecord& round, const LeaseCursor& cursor);
  void Count(const LedgerRecord& record);
  bool IsOpen(const ContributionHeader& header, uint64_t epoch) const;
  uint64_t EpochOf(const JobId& job, FragmentIndex fragment) const;
  // Empty: it is not.
  std::string OtherAccepted(const ContributionHeader& header) const;
  std::string SenderVoid(const ContributionHeader& header) const;
  void CheckWorkers(const Core& core, Instant now);
  void CheckMoves(const Core& core, Instant now);
  void CheckRounds(const Ledger& ledger, const JobId& job, uint32_t fragment, const Fragment& known);

  std::string broken_;
  Counts counts_;
  uint64_t boot_ = 0;
  std::map<std::pair<JobId, uint32_t>, Fragment> fragments_;
  std::map<JobId, JobRecord> jobs_;
  std::map<JobId, uint64_t> rounds_of_;
  std::map<std::pair<JobId, uint64_t>, uint64_t> clocks_;               // of the newest round, by job and epoch
  std::map<std::pair<JobId, uint64_t>, CheckpointRecord> checkpoints_;  // by job and step
  std::map<JobId, std::pair<uint64_t, uint64_t>> consumed_;             // epoch and samples
  std::set<WorkerId> quarantined_;
  std::map<WorkerId, WorkerRecord> workers_;
  std::set<std::tuple<JobId, FragmentVersion, WorkerId>> screened_;  // of any epoch
  std::set<JobId> damaged_;  // jobs whose log could not be used at a start: what was accepted may be gone
  BootNumber life_;
  std::vector<std::shared_ptr<void>> kept_;
  std::map<WorkerId, JobId> cordoned_;  // and the job that was seen last
  struct Standing {
    JobId job;
    Incarnation incarnation;
    Instant heard;
  };
  std::map<WorkerId, Standing> standing_;  // of those that a job may count, at the last look
  std::set<JobId> disturbed_;              // jobs whose records have changed since
  std::map<WorkerId, Incarnation> lost_;   // with a job, when they were seen last, and their incarnations then
  std::map<std::tuple<JobId, WorkerId, Incarnation, uint64_t>, LeaseId> requests_;
  struct Granted {
    uint64_t begin = 0;
    bool open = true;
    bool used = false;  // samples of it were merged
    bool revoked = false;
    uint64_t left = 0;  // samples that no committed contribution has
  };
  std::map<LeaseId, Granted> leases_;
  std::vector<LeaseRecord> granted_;                              // by the transaction that is looked at
  std::map<std::pair<JobId, WorkerId>, std::set<LeaseId>> held_;  // open and not revoked, at the newest grant
  struct Merged {
    uint64_t end = 0;
    LeaseId lease;
  };
  std::map<std::pair<JobId, uint64_t>, std::map<uint64_t, Merged>> samples_;  // by job and epoch, from their first on
  std::set<std::tuple<JobId, uint64_t, FragmentVersion, WorkerId>> merged_;
  std::vector<LedgerRecord> undecided_;
  std::map<std::tuple<JobId, FragmentVersion, WorkerId>, std::pair<uint64_t, ContributionHeader>> acknowledged_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_LAWS_H_
