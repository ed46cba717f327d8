// SPDX-License-Identifier: Apache-2.0
// Laws that must hold in every simulated run (docs/invariants.md names them). A broken law ends the
// run; the first broken law is kept.
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
  // The first broken law; empty if none.
  const std::string& broken() const { return broken_; }
  void Break(const std::string& law);

  // Called after a durable transaction. Checks:
  // - I1: a contribution is merged once.
  // - I6: versions grow by one and never change.
  // - I8: a round has workers.min contributions, unless its job or its data ends.
  // - I9: a request for samples gets one lease, unless that lease was returned whole. No two leases
  //   bring the same sample into the parameters of one epoch. In a job of one fragment a
  //   contribution counts no more tokens and steps than its new samples allow.
  // - I10: boot numbers grow.
  // - A job's clock goes back only in rollbacks.
  // - A worker that gets a lease holds at most the samples that it may train unsynchronised, plus
  //   one period in flight.
  void Committed(const std::vector<LedgerRecord>& records);
  // A transaction that may or may not be durable: the process died during the commit.
  void Undecided(const std::vector<LedgerRecord>& records) { undecided_ = records; }
  // Called after a start. The recovered state must be everything that was committed and nothing
  // else (I4, I26).
  void Recovered(const Ledger& ledger, const RecoveredState& state);
  // Called after a step of the core, once all its decisions are durable. Checks the core's own
  // invariants (I1, I6, I8, I9, I10, I12) and, at intervals, the public views:
  // - the sample balance of every job adds up;
  // - no round waits for a worker that is lost or has left;
  // - a cordoned worker gets no other job;
  // - a lost worker loses its incarnation together with its job (I10);
  // - a running job keeps workers.min of its workers when another job takes some.
  void Looked(const Core& core, Instant now);
  // A contribution was reported to its worker as accepted. I2: its round must include it, unless
  // the screens refused it. Not checked after a rollback of the job.
  void Acknowledged(const ContributionHeader& header);
  // An operator readmitted the worker. The worker may get another job and be cordoned again before
  // the next look.
  void Readmitted(const WorkerId& worker) { cordoned_.erase(worker); }
  // The state was replaced by an older copy; `then` are the laws as of that copy.
  void GoBackTo(const Laws& then);
  // Keeps an object alive until the end of the run.
  void Keep(std::shared_ptr<void> something) { kept_.push_back(std::move(something)); }
  // A worker leaves a job with an error. No simulated fault justifies that.
  void Failed(const WorkerId& worker, const JobFailure& failure);
  // The coordinator refuses a contribution as implausible. All simulated contributions are true, so
  // this breaks a law.
  void NotBelieved(const ContributionHeader& header, const absl::Status& why);
  // After a restart: `state` holds every acknowledged contribution to an open round (I2), except
  // those to jobs in `damaged`.
  void CheckAcknowledged(const RecoveredState& state, const std::map<JobId, std::string>& damaged);

  // Reasons that forbid a positive answer to a contribution offered now. Empty: none.
  struct Void {
    std::string accepted, granted;
    JobId job;
    uint64_t epoch = 0, boot = 0, screened = 0;  // the values when the reasons were computed
  };
  // Forbidden are: another contribution of the same worker to the same round is accepted (I1); a
  // lease of the contribution was returned (I9); the incarnation is void (I10); the sender has seen
  // a newer coordinator (I11).
  Void VoidBy(const ContributionHeader& header, BootNumber boot) const;
  // True if since then no coordinator has died, no rollback has happened and no screen has refused
  // a contribution.
  bool StillHolds(const Void& reasons) const;
  // According to the ledger: the newest incarnation (0 if none), and the version of a fragment.
  Incarnation IncarnationOf(const WorkerId& worker) const;
  Version VersionOf(const JobId& job, FragmentIndex fragment) const;
  const JobRecord* JobOf(const JobId& job) const;  // null if the ledger has no such job
  // Empty if the version is not of this epoch or not committed.
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
  // A rollback resets the samples together with the parameters, in one transaction.
  void CheckRollback(const RollbackRecord& rollback, const std::vector<LedgerRecord>& records);
  // The counted tokens and steps are covered by new samples. Called before CheckSamples.
  void CheckCounted(const RoundRecord& round, const ContributionHeader& header);
  // For an acknowledged contribution, once the next version of its fragment is committed.
  void CheckTakenIn(const ContributionHeader& header);
  // Samples merged under one lease, up to a cursor.
  void CheckSamples(const RoundRecord& round, const LeaseCursor& cursor);
  void Count(const LedgerRecord& record);
  bool IsOpen(const ContributionHeader& header, uint64_t epoch) const;
  uint64_t EpochOf(const JobId& job, FragmentIndex fragment) const;
  // Empty if no other contribution of that worker is accepted.
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
  std::set<JobId> damaged_;  // jobs with an unusable log at a start: their accepted contributions may be lost
  BootNumber life_;
  std::vector<std::shared_ptr<void>> kept_;
  std::map<WorkerId, JobId> cordoned_;  // with the job at the last look
  struct Standing {
    JobId job;
    Incarnation incarnation;
    Instant heard;
  };
  std::map<WorkerId, Standing> standing_;  // workers that a job may count, at the last look
  std::set<JobId> disturbed_;              // jobs with changed records since the last look
  std::map<WorkerId, Incarnation> lost_;  // workers that were lost with a job at the last look, with their incarnations
  std::map<std::tuple<JobId, WorkerId, Incarnation, uint64_t>, LeaseId> requests_;
  struct Granted {
    uint64_t begin = 0;
    bool open = true;
    bool used = false;  // its samples were merged
    bool revoked = false;
    uint64_t left = 0;  // samples in no committed contribution
  };
  std::map<LeaseId, Granted> leases_;
  std::vector<LeaseRecord> granted_;                              // granted by the current transaction
  std::map<std::pair<JobId, WorkerId>, std::set<LeaseId>> held_;  // open and not revoked, at the newest grant
  struct Merged {
    uint64_t end = 0;
    LeaseId lease;
  };
  std::map<std::pair<JobId, uint64_t>, std::map<uint64_t, Merged>> samples_;  // by job and epoch, then by first sample
  std::set<std::tuple<JobId, uint64_t, FragmentVersion, WorkerId>> merged_;
  std::vector<LedgerRecord> undecided_;
  std::map<std::tuple<JobId, FragmentVersion, WorkerId>, std::pair<uint64_t, ContributionHeader>> acknowledged_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_LAWS_H_
