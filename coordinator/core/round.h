// SPDX-License-Identifier: Apache-2.0
// One fragment's round, as a machine of its own: the workers that are expected in it, the contributions that are sent
// to it, accepted and committed, and the verdict when those suffice (docs/design.md section 6; quorum and grace of
// Decoupled DiLoCo, 2604.21428). A function sees the round's own state and its arguments: the time, and facts about
// the fleet. It returns what follows from it, and the parent (job.h) carries that out. Pure; owned by the engine
// thread.
#ifndef ATOLL_COORDINATOR_CORE_ROUND_H_
#define ATOLL_COORDINATOR_CORE_ROUND_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/time.h"
#include "common/plan/records.h"
#include "coordinator/core/events.h"

namespace atl {

// A worker's contribution to the round: first it is sent, then flushed, then accepted, then committed.
struct Contribution {
  ContributionHeader header;
  UploadId upload = 0;
  bool flushing = false;  // the trailer is being flushed: it will be accepted
  Instant at{};           // when it was accepted
};

// A sync that its worker reported as dropped on purpose.
struct Drop {
  uint64_t send_step = 0;
  Instant at;
};

// Facts about the job and its fleet that a verdict needs.
struct RoundRule {
  uint32_t minimum = 1;  // workers.min
  uint32_t quorum = 0;   // 0: majority of the expected workers and of others that have contributed
  Duration grace{};      // from the quorum on
  // Workers that are finished, or have nothing left to train, without a contribution to this
  // fragment: they count for the minimum.
  uint32_t finished = 0;
  // For a round held over a pause: unexpected workers that were assigned to the job again. They
  // count for the majority.
  uint32_t on_their_way = 0;
};

enum class RoundStage {
  kMerging,   // it is closed
  kFlushing,  // it would close, but the trailer of a contribution is still being flushed
  kShort,     // it lacks contributions
  kGrace,     // it has its quorum, and waits for others
  kLate,      // it has its quorum, and the grace window has passed
  kComplete,  // every expected worker has contributed or dropped its sync
};

struct RoundVerdict {
  RoundStage stage = RoundStage::kMerging;
  bool close = false;
  bool overdue = false;   // the deadline has passed without a quorum
  Instant wake = kNever;  // when to decide again
  bool nobody = false;    // it lacks contributions, and no worker is expected in it
};

// The round that turns version() into the next one. Each fragment has exactly one.
class Round {
 public:
  Round() = default;
  Round(Version version, const Digest& hash) : version_(version), hash_(hash) {}

  // ---- contributions
  // The answer, if the round alone can decide (for example: too late, or accepted before). None: other checks decide.
  std::optional<UploadVerdict> Judge(const ContributionHeader& header) const;
  struct Offered {
    std::optional<UploadId> superseded;  // of the same worker
    Digest replaces;                     // of this worker's contribution that a screen has refused; zero: none
  };
  Offered Offer(UploadId upload, const ContributionHeader& header);
  void Finish(const WorkerId& worker) { uploads_.at(worker).flushing = true; }  // its trailer is being flushed
  bool Durable(UploadId upload, Instant now);  // false: no such upload is being flushed
  void Break(UploadId upload);                 // no effect while its trailer is being flushed
  // Ends the uploads of the worker (null: of every worker), except those being flushed. Returns the ended ones.
  std::vector<UploadId> DropUploads(const WorkerId* worker);
  // The worker dropped its sync. False, without effect: the round closes, has another version or its contribution.
  bool DropSync(Version version, const WorkerId& worker, uint64_t send_step, Instant now);
  // A screen refused the worker's accepted contribution: takes it out, and expects none. Returns its digest, if any.
  std::optional<Digest> Refuse(const WorkerId& worker);

  // ---- workers
  void Open(std::set<WorkerId> expected, bool past_finished, Instant now, Instant deadline);
  void ExpectJoiner(const WorkerId& worker);  // before any acceptance, at version 0 or while no worker is expected
  void ExpectOnly(std::set<WorkerId> expected, bool past_finished);  // in an ending job
  void StopExpecting(const WorkerId& worker) { expected_.erase(worker); }
  void PassFinished(const WorkerId& worker);  // it has nothing left to train: not waited for, unless it is uploading
  void Leave(const WorkerId& worker);
  // ---- time
  void Begin(Instant now, Instant deadline);  // restarts the clock: a worker can contribute from now on
  void Extend(Instant deadline) { deadline_ = deadline; }
  void Excuse(Duration time, Instant now);  // does not count this time, until now: the coordinator did not run
  void HoldOver() { held_over_ = !accepted_.empty(); }
  void ReportWait() { wait_reported_ = true; }
  // ---- the end
  RoundVerdict Decide(const RoundRule& rule, Instant now) const;
  std::vector<UploadId> Close();  // returns the uploads that are too late
  void Reopen() { closing_ = false; }
  void Commit(Version version, const Digest& hash);
  std::vector<UploadId> End();  // of the job: returns the uploads that end with it
  void RollBack(Version version, const Digest& hash) { *this = Round(version, hash); }
  void ClearTails() { tails_.clear(); }
  // Forgets the contributions to older versions that came from workers for which `known` returns false.
  void ForgetOlder(const std::function<bool(const WorkerId&)>& known);
  // ---- from the ledger and the round log
  void SetHash(const Digest& hash) { hash_ = hash; }
  void RestoreAccepted(ContributionHeader header, Instant now);
  void RestoreRefused(const WorkerId& worker, const Digest& digest);
  void RestoreCommitted(ContributionHeader header);

  // ---- the view of it
  Version version() const { return version_; }                      // committed
  const Digest& hash() const { return hash_; }                      // content hash at that version
  Instant opened() const { return opened_; }                        // when it opened, or was restarted (Begin)
  Instant deadline() const { return deadline_; }                    // without a quorum it is reported then
  const std::set<WorkerId>& expected() const { return expected_; }  // training at the opening, not lost since
  const std::map<WorkerId, Contribution>& accepted() const { return accepted_; }  // durable
  const std::map<WorkerId, Drop>& dropped() const { return dropped_; }            // disjoint from accepted()
  const std::map<WorkerId, Contribution>& uploads() const { return uploads_; }    // not accepted yet; at most one each
  const Contribution* Sent(UploadId upload) const;                                // null: the round has no such upload
  const std::map<WorkerId, Contribution>& committed() const { return committed_; }  // each worker's newest
  bool closing() const { return closing_; }              // it is being merged: nothing is accepted any more
  bool wait_reported() const { return wait_reported_; }  // that it waits, and that this is no fault
  bool held_over() const { return held_over_; }  // its job was paused after something was accepted, and has gone on
  bool past_finished() const { return past_finished_; }  // a training worker has nothing more for it
  bool HasArrived(const WorkerId& worker) const { return accepted_.contains(worker) || dropped_.contains(worker); }
  bool HasRefused(const WorkerId& worker, const Digest& digest) const;
  bool IsMerged(const WorkerId& worker) const;  // its contribution is in version()
  bool IsUploading(const WorkerId& worker) const { return uploads_.contains(worker); }
  uint32_t Flushing() const;
  uint32_t Arrived() const { return static_cast<uint32_t>(accepted_.size() + dropped_.size()); }
  std::vector<WorkerId> Missing() const;          // expected and not arrived, by name
  uint32_t Quorum(const RoundRule& rule) const;   // contributions that suffice once the grace window has passed
  Duration Spread() const;                        // from the first arrival to the last
  uint32_t TailOf(const WorkerId& worker) const;  // its contributions merged since the last round not past_finished

 private:
  Instant ArrivalNumber(size_t index) const;
  bool NobodyMissing() const;

  Version version_;
  Digest hash_;
  Instant opened_{}, deadline_{};
  std::set<WorkerId> expected_;
  std::map<WorkerId, Contribution> accepted_;  // only a screen, a commit, a rollback or the job's end takes one out
  std::map<WorkerId, Digest> screened_;        // the newest digest that a screen refused in this round
  std::map<WorkerId, Drop> dropped_;
  std::map<WorkerId, Contribution> uploads_;
  std::map<WorkerId, Contribution> committed_;
  // The past_finished rounds that each worker was merged in since a round that was not, or since
  // the end began. Bounds the rounds that a single remaining worker decides alone to the number that
  // an honest one needs. Cleared at a restart.
  std::map<WorkerId, uint32_t> tails_;
  bool closing_ = false, wait_reported_ = false, held_over_ = false, past_finished_ = false;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ROUND_H_
