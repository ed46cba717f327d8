// SPDX-License-Identifier: Apache-2.0
// One fragment of this worker's replica, as a machine of its own: where its parameters are, the updates that they
// lack, the contribution that waits for its update, and the drift that is in no merged contribution (docs/design.md
// section 3: Send, Apply, Not a contributor). Functions that report a result (WholeFetched, Applied, Formed) return
// false, and change nothing, if the fragment does not wait for it. Comments of commands name the states in which they
// may be given. The parent (state.h) decides when, and carries out what follows. Pure. Private to worker/core.
#ifndef ATOLL_WORKER_CORE_FRAGMENT_H_
#define ATOLL_WORKER_CORE_FRAGMENT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/time.h"
#include "common/plan/messages.h"
#include "worker/core/standing.h"

namespace atl::worker {

// A contribution with unknown fate, or the placeholder of a dropped one. Steps, tokens and loss are
// those at the send; digest and size are set when it is formed.
struct Held {
  Version version;  // base of the delta
  ContributionHeader header;
  int64_t loss_sum_micro = 0;
  uint64_t apply_at = 0;        // steps taken at which its update is merged
  bool ahead = false;           // sent before the others' send step: merged on arrival, overwrites nothing
  Instant wait_until = kNever;  // set when apply_at is reached; training continues after it
  Instant waits_since{};        // set at the same time
  bool uploading = false;
  bool accepted = false;
  Instant accepted_at{};   // by this process's clock
  bool committed = false;  // reported by a Welcome: part of version + 1
  bool retry = false;      // the second attempt of one send step
  bool dropped = false;    // nothing is sent (experiment.drop_sync_probability); uses version, apply_at, wait_until
  uint64_t send_step = 0;  // of a dropped one

  void Accept(Instant now) {
    if (!accepted) accepted_at = now;
    accepted = true;
  }
};

// A committed version that is not applied yet.
struct Pending {
  Version reached;
  Digest hash;               // zero: not sent; the download's own counts
  bool contributor = false;  // this worker is listed
  bool fetching = false, fetched = false;
  uint64_t clock_step = 0;  // of the job when it was published; 0: not sent
  Digest merged = {};       // this worker's merged contribution, if listed; zero: not sent
};

// ---- where the fragment's parameters are
// The parameters are not in memory. They are being downloaded, or installed, or are downloaded again at `again`.
struct Absent {
  bool fetching = false, installing = false;
  Instant again = kNever;
};
struct Resting {};
// held() is being formed while training continues: the outer copy does not change.
struct Forming {};
// The outer copy is changing to the next version.
struct Applying {
  Standing standing{};
  bool during_steps = false;  // in parallel with steps, before its apply step
  bool overtaken = false;     // take the outer copy once the update is applied
};
// The outer copy has changed, the local parameters have not.
struct Unsettled {
  Standing standing{};
};
// The fragment is being fetched whole to skip versions, and keeps its drift. No contribution is in flight.
struct Leaping {
  bool installing = false;
};

// Work in no merged contribution.
struct Drift {
  uint64_t steps = 0, tokens = 0;
  int64_t loss_sum_micro = 0;  // over those steps
};

// The outcome of an update for this worker's contribution to its round.
struct Settlement {
  std::optional<Held> held;  // the contribution
  bool missed = false;       // this worker's sync is not part of the version: a further one in a row
};

class Fragment {
 public:
  Fragment() = default;
  // Absent, and being downloaded; `assigned`: the version that the job has.
  static Fragment Fetching(Version assigned);

  // ---- versions that the job has committed
  // Adds a version, or completes a known one. True: added, and FillGaps is needed; not while it is fetched whole.
  bool Hear(const Pending& wanted);
  void Expect(Version version) { newest_ = std::max(newest_, version); }
  // Makes pending() contiguous from outer() + 1 to the newest known version, at most 4,096 of them at once. A whole
  // fragment comes from a snapshot that may be older than the newest version; the updates since then are stored.
  void FillGaps();
  std::vector<Version> StartFetches();  // the updates that are to be downloaded now
  void UpdateFetched(Version version);
  bool Fetches(Version version) const;  // that update

  // ---- the whole fragment
  bool WholeFetched();                   // Absent, Leaping: it is to be installed
  bool WholeNotFetched(Instant again);   // Absent: tried again then. Leaping -> Resting
  void FetchAgain();                     // Absent
  bool Installed(Version version);       // Absent -> Resting. Leaping -> Unsettled, as a non-contributor
  bool InstalledDamaged(Instant again);  // Absent: fetched again then. Leaping: Lose follows
  // -> Absent, without its drift, being downloaded. False: that was tried for this version; downloaded at `again`.
  bool Lose(Instant again);
  bool MayLeap() const { return resting() && !held_; }
  void BeginLeap();  // -> Leaping
  void LackUpdate() { lacks_update_ = true; }
  void ForbidLeaps() { no_leap_before_ = std::max(outer_, newest_); }  // until outer() reaches it

  // ---- an update
  void BeginApply(Standing standing, bool during_steps);  // Resting -> Applying
  bool Applied(Version version);                          // Applying -> Unsettled; Resting if it was overtaken
  Settlement Settle();                                    // Unsettled -> Resting
  // Discards the drift, for the outer copy. False: not yet, because the outer copy is absent or changing.
  bool TakeOuter();

  // ---- a contribution
  void BeginForm(Held held);  // Resting -> Forming
  bool Formed(const Digest& digest, uint64_t encoded_bytes, std::optional<uint64_t> upload_error_nano);
  void DropSync(Held place) { held_ = std::move(place); }
  std::optional<Held> Withdraw();  // Forming -> Resting
  bool IsHeld(Version version, const Digest& digest) const;
  void StartUpload() { held_->uploading = true; }
  bool StopUpload();
  void Accept(Instant now) { held_->Accept(now); }
  void LoseAcceptance() { held_->accepted = false; }
  void Commit(Instant now) {
    held_->Accept(now);
    held_->committed = true;
  }
  void Refuse(Instant next_version_by);  // Withdraw follows
  // Begins the contribution's wait for its update, if it has not begun; returns its end, which is at most `at_most`.
  Instant Wait(Instant now, Duration patience, Instant at_most);
  bool ReportLate() { return !std::exchange(told_late_, true); }  // false: reported before

  // ---- send steps and training
  void Train(uint64_t tokens, int64_t loss_micro);
  void SendStepPassed() { due_ = true; }  // by OnStepDone (training.cc)
  void SendNow() { send_now_ = true; }
  void SendNothing() { due_ = send_now_ = false; }
  void ForgetServed(uint64_t clock) { due_ = due_ && clock > sent_until_; }
  bool Skip(bool may);                // this send; never two in a row, nor after a miss
  void SetClockBack(uint64_t steps);  // the worker's clock goes back by that many of its steps

  // ---- the view of it
  bool absent() const { return std::holds_alternative<Absent>(state_); }
  bool resting() const { return std::holds_alternative<Resting>(state_); }
  bool forming() const { return std::holds_alternative<Forming>(state_); }
  bool leaping() const { return std::holds_alternative<Leaping>(state_); }
  const Applying* applying() const { return std::get_if<Applying>(&state_); }
  const Unsettled* unsettled() const { return std::get_if<Unsettled>(&state_); }
  bool installing() const;
  Instant fetched_again_at() const { return absent() ? std::get<Absent>(state_).again : kNever; }
  Version outer() const { return outer_; }               // of the outer copy; absent: as assigned
  uint64_t outer_clock() const { return outer_clock_; }  // of the job when it was published; 0: not sent
  Version newest() const { return newest_; }             // highest assigned or published version
  const std::optional<Held>& held() const { return held_; }
  const std::deque<Pending>& pending() const { return pending_; }  // unless Absent, contiguous from outer() + 1
  bool lacks_update() const { return lacks_update_; }
  Version no_leap_before() const { return no_leap_before_; }
  bool due() const { return due_; }                               // a send step has passed
  bool send_now() const { return send_now_; }                     // without one
  const std::optional<Version>& tried() const { return tried_; }  // version of a refused contribution
  bool TriedHere() const { return tried_ && *tried_ == outer_; }
  bool tried_retry() const { return tried_retry_; }
  Instant next_version_by() const { return next_version_by_; }  // limit of the wait for a version after tried()
  uint32_t missed() const { return missed_; }                   // syncs in a row
  const Drift& drift() const { return drift_; }
  uint64_t Unsent() const;  // steps that are in no contribution
  // There are known committed versions that the outer copy has not reached.
  bool IsOutdated() const { return leaping() || !pending_.empty(); }
  bool IsUpToDate() const { return !absent() && unsettled() == nullptr && !IsOutdated(); }
  // The update that decides whether held() counts is applied, or being applied.
  bool HasUpdate() const { return applying() != nullptr || unsettled() != nullptr; }
  Standing StandingIn(const Pending& pending) const;
  void CheckInvariants() const;

 private:
  std::variant<Absent, Resting, Forming, Applying, Unsettled, Leaping> state_;
  Version outer_;
  uint64_t outer_clock_ = 0;
  Version newest_;
  uint64_t newest_clock_ = 0;  // as outer_clock_, of that version
  std::optional<Held> held_;   // of outer_, or of outer_ - 1 while Unsettled
  std::deque<Pending> pending_;
  bool lacks_update_ = false;  // leaping, or fetched whole after an evaluation, because an update is no longer stored
  Version no_leap_before_;
  Version fetched_for_;  // newest version for which it was fetched whole; 0: none
  bool due_ = false, send_now_ = false;
  bool skipped_ = false;          // the last send
  uint64_t sent_step_ = 0;        // of the newest formed contribution
  uint64_t sent_until_ = 0;       // send steps up to here were served before the clock was set back
  std::optional<Version> tried_;  // version of a refused contribution
  Instant next_version_by_{};
  bool tried_retry_ = false, told_late_ = false;
  uint32_t missed_ = 0;
  Drift drift_;
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_FRAGMENT_H_
