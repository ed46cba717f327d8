// SPDX-License-Identifier: Apache-2.0
#include "worker/core/fragment.h"

#include "common/base/check.h"

namespace atl::worker {
namespace {

constexpr size_t kVersionsRemembered = 16;         // announced while a fragment is fetched whole
constexpr uint64_t kVersionsAfterSnapshot = 4096;  // requested at once after a whole fragment; the rest later
constexpr size_t kFetchesAhead = 2;                // concurrent update fetches of one fragment

}  // namespace

Fragment Fragment::Fetching(Version assigned) {
  Fragment f;
  f.outer_ = assigned;
  f.FetchAgain();
  return f;
}

// ---- versions that the job has committed --------------------------------------------------------------------------

bool Fragment::Hear(const Pending& wanted) {
  if (wanted.reached > newest_) newest_clock_ = 0;
  newest_ = std::max(newest_, wanted.reached);
  if (wanted.reached == newest_) newest_clock_ = std::max(newest_clock_, wanted.clock_step);
  for (Pending& known : pending_) {
    if (known.reached != wanted.reached) continue;
    if (!wanted.hash.IsZero())
      known.hash = wanted.hash, known.contributor = wanted.contributor, known.merged = wanted.merged;
    known.clock_step = std::max(known.clock_step, wanted.clock_step);
    return false;
  }
  const bool whole = absent() || leaping();
  if (wanted.reached <= outer_ && !absent()) return false;
  // FillGaps requests the missing updates after the whole fragment; this only keeps hash and contributors.
  if (!whole || pending_.size() < kVersionsRemembered) pending_.push_back(wanted);
  return !whole;
}

void Fragment::FillGaps() {
  const std::deque<Pending> old = std::exchange(pending_, {});
  const uint64_t newest = std::min(std::max(outer_, newest_).value, outer_.value + kVersionsAfterSnapshot);
  for (uint64_t v = outer_.value + 1; v <= newest; ++v) {
    const auto known = std::find_if(old.begin(), old.end(), [&](const Pending& k) { return k.reached.value == v; });
    pending_.push_back(known != old.end() ? *known : Pending{Version{v}, Digest{}, false, false, false});
    Pending& added = pending_.back();
    if (added.reached == newest_) added.clock_step = std::max(added.clock_step, newest_clock_);
  }
}

std::vector<Version> Fragment::StartFetches() {
  std::vector<Version> started;
  if (lacks_update_) return started;
  for (size_t i = 0; i < pending_.size() && i < kFetchesAhead; ++i) {
    Pending& next = pending_[i];
    if (next.fetching || next.fetched) continue;
    next.fetching = true;
    started.push_back(next.reached);
  }
  return started;
}

void Fragment::UpdateFetched(Version version) {
  for (Pending& pending : pending_) {
    if (pending.reached != version || !pending.fetching) continue;
    pending.fetching = false;
    pending.fetched = true;
  }
}

bool Fragment::Fetches(Version version) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const Pending& k) { return k.reached == version && k.fetching; });
}

// ---- the whole fragment -------------------------------------------------------------------------------------------

bool Fragment::WholeFetched() {
  if (auto* const leap = std::get_if<Leaping>(&state_)) return !std::exchange(leap->installing, true);
  auto* const at = std::get_if<Absent>(&state_);
  if (at == nullptr || !at->fetching) return false;
  *at = Absent{.installing = true};
  return true;
}

bool Fragment::WholeNotFetched(Instant again) {
  if (const auto* const leap = std::get_if<Leaping>(&state_)) {
    if (leap->installing) return false;
    state_ = Resting{};
    return true;
  }
  auto* const at = std::get_if<Absent>(&state_);
  if (at == nullptr || !at->fetching) return false;
  *at = Absent{.again = again};
  return true;
}

void Fragment::FetchAgain() {
  ATOLL_CHECK(absent(), "a present fragment is fetched whole by a leap");
  state_ = Absent{.fetching = true};
}

bool Fragment::Installed(Version version) {
  if (!installing()) return false;
  const bool leapt = leaping();
  if (leapt) {
    // A refused contribution missed one sync, regardless of the number of versions since.
    if (TriedHere()) tried_ = Version{version.value - 1};
    state_ = Unsettled{};
    lacks_update_ = false;
  } else {
    state_ = Resting{};
  }
  outer_ = version;
  outer_clock_ = (leapt ? version >= newest_ : version == newest_) ? newest_clock_ : 0;
  return true;
}

bool Fragment::InstalledDamaged(Instant again) {
  if (!installing()) return false;
  if (absent()) state_ = Absent{.again = again};
  return true;
}

bool Fragment::Lose(Instant again) {
  const Version needed{outer_.value + 1};
  const bool in_vain = needed <= fetched_for_;
  Fragment lost;
  lost.outer_ = outer_;
  lost.newest_ = newest_;
  lost.newest_clock_ = newest_clock_;
  lost.fetched_for_ = std::max(needed, fetched_for_);
  if (in_vain) {
    lost.state_ = Absent{.again = again};
  } else {
    lost.state_ = Absent{.fetching = true};
  }
  *this = std::move(lost);
  return !in_vain;
}

void Fragment::BeginLeap() {
  ATOLL_CHECK(MayLeap(), "work in flight may be part of a skipped version, and would count twice");
  pending_.clear();
  state_ = Leaping{};
}

// ---- an update ----------------------------------------------------------------------------------------------------

void Fragment::BeginApply(Standing standing, bool during_steps) {
  ATOLL_CHECK(resting(), "one thing moves at a time");
  state_ = Applying{.standing = standing, .during_steps = during_steps};
}

bool Fragment::Applied(Version version) {
  const Applying* const move = applying();
  if (move == nullptr) return false;
  outer_ = version;
  outer_clock_ = pending_.front().clock_step;
  pending_.pop_front();
  if (move->overtaken) {
    state_ = Resting{};
  } else {
    state_ = Unsettled{move->standing};
  }
  return true;
}

Settlement Fragment::Settle() {
  ATOLL_CHECK(unsettled() != nullptr, "an update was applied");
  const bool contributor = unsettled()->standing != Standing::kNotContributor;
  state_ = Resting{};
  Settlement done{.held = std::exchange(held_, std::nullopt)};
  const std::optional<Version> tried = std::exchange(tried_, std::nullopt);
  told_late_ = false;
  if (done.held && done.held->dropped) return done;
  if (contributor) {
    drift_.steps -= done.held->header.steps;
    drift_.tokens -= done.held->header.tokens;
    drift_.loss_sum_micro -= done.held->loss_sum_micro;
    missed_ = 0;
    return done;
  }
  // Late, refused or lost: the drift stays and is sent again at once, but only once per send step.
  const Version base{outer_.value - 1};
  const bool was_held = done.held && done.held->version == base;
  done.missed = was_held || (tried && *tried == base);
  if (!done.missed) return done;
  ++missed_;
  send_now_ = !(was_held ? done.held->retry : tried_retry_);
  return done;
}

bool Fragment::TakeOuter() {
  drift_ = {};
  missed_ = 0;
  SendNothing();
  if (auto* const move = std::get_if<Applying>(&state_)) {
    move->overtaken = true;  // if it deviates then, there is no outer copy to take
    return false;
  }
  if (unsettled() != nullptr) state_ = Resting{};
  return !absent();
}

// ---- a contribution -----------------------------------------------------------------------------------------------

void Fragment::BeginForm(Held held) {
  ATOLL_CHECK(resting() && !held_, "a contribution is formed of an outer copy that stays");
  state_ = Forming{};
  tried_retry_ = held.retry;
  sent_step_ = held.header.send_step;
  held_ = std::move(held);
}

bool Fragment::Formed(const Digest& digest, uint64_t encoded_bytes, std::optional<uint64_t> upload_error_nano) {
  if (!forming()) return false;
  state_ = Resting{};
  held_->header.digest = digest;
  held_->header.encoded_bytes = encoded_bytes;
  held_->header.upload_error_nano = upload_error_nano;
  return true;
}

std::optional<Held> Fragment::Withdraw() {
  if (forming()) state_ = Resting{};
  return std::exchange(held_, std::nullopt);
}

bool Fragment::IsHeld(Version version, const Digest& digest) const {
  return held_ && held_->version == version && held_->header.digest == digest;
}

bool Fragment::StopUpload() { return held_ && std::exchange(held_->uploading, false); }

void Fragment::Refuse(Instant next_version_by) {
  tried_ = held_->version;
  tried_retry_ = held_->retry;
  next_version_by_ = next_version_by;
}

Instant Fragment::Wait(Instant now, Duration patience, Instant at_most) {
  if (held_->wait_until == kNever) {
    held_->waits_since = now;
    held_->wait_until = now + patience;
  }
  held_->wait_until = std::min(held_->wait_until, at_most);
  return held_->wait_until;
}

// ---- send steps and training --------------------------------------------------------------------------------------

// The fetched fragment replaces training done while it is absent.
void Fragment::Train(uint64_t tokens, int64_t loss_micro) {
  if (absent()) return;
  ++drift_.steps;
  drift_.tokens += tokens;
  drift_.loss_sum_micro += loss_micro;
}

bool Fragment::Skip(bool may) {
  skipped_ = may && !skipped_ && missed_ == 0;
  return skipped_;
}

void Fragment::SetClockBack(uint64_t steps) {
  due_ = skipped_ = false;
  sent_until_ = sent_step_;
  if (!held_ || HasUpdate()) return;
  held_->ahead = true;
  held_->apply_at += steps;
  held_->wait_until = kNever;
}

// ---- the view of it -----------------------------------------------------------------------------------------------

bool Fragment::installing() const {
  if (const auto* const leap = std::get_if<Leaping>(&state_)) return leap->installing;
  return absent() && std::get<Absent>(state_).installing;
}

uint64_t Fragment::Unsent() const {
  const uint64_t sent = held_ ? held_->header.steps : 0;
  return drift_.steps > sent ? drift_.steps - sent : 0;
}

Standing Fragment::StandingIn(const Pending& pending) const {
  if (!held_ || held_->version.value + 1 != pending.reached.value) return Standing::kNotContributor;
  // The merged contribution may be one sent by an earlier incarnation of this worker.
  const bool merged = pending.contributor && (pending.merged.IsZero() || pending.merged == held_->header.digest);
  if (!held_->committed && !merged) return Standing::kNotContributor;
  return held_->ahead ? Standing::kAhead : Standing::kContributor;
}

void Fragment::CheckInvariants() const {
  if (absent() || leaping()) ATOLL_CHECK(!held_, "what is fetched whole has nothing in flight");
  if (absent()) return;
  if (forming()) ATOLL_CHECK(held_.has_value(), "what is being formed is held");
  const Standing* merged = unsettled() != nullptr ? &unsettled()->standing : nullptr;
  if (const Applying* const move = applying(); move != nullptr && !move->overtaken) merged = &move->standing;
  if (merged != nullptr && *merged != Standing::kNotContributor) {
    ATOLL_CHECK(held_.has_value(), "what an update counts is held until it is merged");
    ATOLL_CHECK(held_->ahead == (*merged == Standing::kAhead),
                "an update is merged in the role in which it was applied");
  }
  if (leaping()) return;
  for (size_t i = 0; i < pending_.size(); ++i)
    ATOLL_CHECK(pending_[i].reached.value == outer_.value + i + 1, "updates are applied in version order");
  if (!held_) return;
  const uint64_t base = outer_.value - (unsettled() != nullptr ? 1 : 0);
  ATOLL_CHECK(held_->version.value == base, "a contribution is measured against the newest version applied");
  ATOLL_CHECK(held_->header.steps <= drift_.steps, "a contribution carries no more than the drift");
}

}  // namespace atl::worker
