// SPDX-License-Identifier: Apache-2.0
// What the worker's core remembers of one fragment. Private to worker/core.
#ifndef ATOLL_WORKER_CORE_FRAGMENT_H_
#define ATOLL_WORKER_CORE_FRAGMENT_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl::worker {

// A contribution whose fate is not known, or the place of one that the job drops. Steps, tokens and loss are what it
// carries: those of the send, though its digest and size come when it is formed.
struct Held {
  Version version;  // measured against
  ContributionHeader header;
  int64_t loss_sum_micro = 0;
  uint64_t apply_at = 0;  // steps taken at which its update is merged
  bool ahead = false;     // sent where the others had sent already: merged as soon as it comes, nothing overwritten
  Instant wait_until = kNever;  // set when apply_at is reached; after it training goes on
  Instant waits_since{};        // then
  bool uploading = false;
  bool accepted = false;
  Instant accepted_at{};   // by this process's clock
  bool committed = false;  // known from a Welcome: part of version + 1
  bool retry = false;      // the second attempt of one send step
  bool dropped = false;  // nothing is sent (experiment.drop_sync_probability); only version, apply_at, wait_until count
  uint64_t send_step = 0;  // of a dropped one

  void Accept(Instant now) {
    if (!accepted) accepted_at = now;
    accepted = true;
  }
};

// A version that is committed and not applied yet.
struct Pending {
  Version reached;
  Digest hash;               // zero: not told; the download's own counts
  bool contributor = false;  // this worker is listed
  bool fetching = false, fetched = false;
  uint64_t clock_step = 0;  // of the job when it was published; 0: not told
  Digest merged = {};       // of this worker's contribution in it, where it is listed; zero: not told
};

// As what an update reached the outer copy. The replica was told so, and merges it as nothing else.
struct Standing {
  bool contributor = false;
  bool ahead = false;  // a contributor that sent ahead of the others
};

struct Fragment {
  bool installed = false;
  Version outer;                      // of the outer copy; meaningful once installed
  uint64_t outer_clock = 0;           // of the job when it was published; 0: not told
  Version newest;                     // heard of: assigned or published
  uint64_t newest_clock = 0;          // as outer_clock, of that version
  std::optional<Standing> unsettled;  // outer copy moved, local not
  std::optional<Held> held;           // held->version == outer, or outer - 1 while unsettled
  std::deque<Pending> pending;        // contiguous from outer + 1 once installed
  bool forming = false;               // held is, beside training: neither outer copy nor version moves meanwhile
  std::optional<Standing> applying;   // the outer copy is moving
  bool applying_beside = false;       // while steps are taken: it comes before its apply step
  bool installing = false;
  bool overtaken = false;     // the outer copy is to be taken once it is applied
  bool fetching = false;      // whole
  bool leaping = false;       // being fetched whole to come forward with its drift; installed, and nothing is in flight
  bool lacks_update = false;  // leaping, or fetched whole after an evaluation, as one is not kept any more
  Version no_leap_before;     // a snapshot that would be worth its bytes was not there
  Instant refetch_at = kNever;
  Version fetched_for;  // the newest for whose sake it was fetched whole; 0: none
  bool due = false, send_now = false;
  bool skipped = false;          // the last send step, for the others had sent at it for the version of the outer copy
  uint64_t sent_step = 0;        // of the newest contribution that was formed
  uint64_t sent_until = 0;       // up to here every send step was served before the clock was set back
  std::optional<Version> tried;  // version of a contribution that was refused
  Instant next_version_by{};     // until when closing waits for a version after the refused one
  bool tried_retry = false, told_late = false;
  uint32_t missed = 0;
  uint64_t steps = 0, tokens = 0;  // since the last contribution that counted: the drift
  int64_t loss_sum_micro = 0;      // over those steps

  // Committed versions are known that the outer copy has not reached.
  bool Behind() const { return leaping || !pending.empty(); }
  // The update that says whether `held` counts is in the outer copy, or on its way into it.
  bool HasUpdate() const { return applying || unsettled; }
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_FRAGMENT_H_
