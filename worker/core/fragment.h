// SPDX-License-Identifier: Apache-2.0
// The state of one fragment in the worker's core. Private to worker/core.
#ifndef ATOLL_WORKER_CORE_FRAGMENT_H_
#define ATOLL_WORKER_CORE_FRAGMENT_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl::worker {

// A contribution with unknown fate, or the placeholder of a dropped one. Steps, tokens and loss are
// those at the send; digest and size are set when it is formed.
struct Held {
  Version version;  // base of the delta
  ContributionHeader header;
  int64_t loss_sum_micro = 0;
  uint64_t apply_at = 0;        // steps taken at which its update is merged
  bool ahead = false;           // the others had sent earlier: merged on arrival, overwrites nothing
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

// The role in which an update was applied to the outer copy. The replica merges it in the same role.
struct Standing {
  bool contributor = false;
  bool ahead = false;  // a contributor that sent ahead of the others
};

struct Fragment {
  bool installed = false;
  Version outer;                      // of the outer copy; valid once installed
  uint64_t outer_clock = 0;           // of the job when it was published; 0: not sent
  Version newest;                     // highest assigned or published version
  uint64_t newest_clock = 0;          // as outer_clock, of that version
  std::optional<Standing> unsettled;  // outer copy changed, local parameters not yet
  std::optional<Held> held;           // held->version == outer, or outer - 1 while unsettled
  std::deque<Pending> pending;        // contiguous from outer + 1 once installed
  bool forming = false;               // `held` is being formed during training: the outer copy stays
  std::optional<Standing> applying;   // the outer copy is changing
  bool applying_beside = false;       // in parallel with steps, before its apply step
  bool installing = false;
  bool overtaken = false;     // take the outer copy once the update is applied
  bool fetching = false;      // whole
  bool leaping = false;       // being fetched whole to skip versions, with its drift; nothing is in flight
  bool lacks_update = false;  // leaping, or fetched whole after an evaluation, because an update is no longer stored
  Version no_leap_before;     // no snapshot worth a leap existed
  Instant refetch_at = kNever;
  Version fetched_for;  // newest version for which it was fetched whole; 0: none
  bool due = false, send_now = false;
  bool skipped = false;          // skipped the last send: the others had sent there for the outer copy's version
  uint64_t sent_step = 0;        // of the newest formed contribution
  uint64_t sent_until = 0;       // send steps up to here were served before the clock was set back
  std::optional<Version> tried;  // version of a refused contribution
  Instant next_version_by{};     // limit of the wait for a version after the refused one
  bool tried_retry = false, told_late = false;
  uint32_t missed = 0;
  uint64_t steps = 0, tokens = 0;  // since the last counted contribution: the drift
  int64_t loss_sum_micro = 0;      // over those steps

  // There are known committed versions that the outer copy has not reached.
  bool Behind() const { return leaping || !pending.empty(); }
  // The update that decides whether `held` counts is applied, or being applied.
  bool HasUpdate() const { return applying || unsettled; }
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_FRAGMENT_H_
