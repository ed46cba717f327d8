// SPDX-License-Identifier: Apache-2.0
// For whom more of a fragment stays on disk than the job needs itself: workers that fetch it whole over a link that
// breaks, while newer snapshots come. Kept are the snapshot that such a download began with and the updates since,
// until the worker has caught up. Pure bookkeeping of one fragment in one epoch, in memory: after a restart a worker
// that goes on is pinned anew, if what it needs is still there. Thread rule: the caller's.
#ifndef ATOLL_COORDINATOR_STORE_VERSION_PINS_H_
#define ATOLL_COORDINATOR_STORE_VERSION_PINS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl {

// How long a snapshot waits for a worker that has its beginning, and updates for one that catches up.
constexpr Duration kPinAfterBreak = Seconds(600);

class VersionPins {
 public:
  // Nothing is kept for a worker that is more than `most_versions` behind.
  explicit VersionPins(uint64_t most_versions) : most_versions_(most_versions) {}

  // A worker's download of the fragment at `version` begins; what was kept for it before is not needed any more.
  // Returns the number of the download.
  uint64_t Begin(const WorkerId& worker, Version version);
  // That download is over. Whether all of it has arrived, only the worker knows: for kPinAfterBreak it may go on.
  void End(const WorkerId& worker, uint64_t download, Instant now);
  // The worker has the fragment and catches up: it asks for the update that made `reached`, while `head` is committed.
  void AskedForUpdate(const WorkerId& worker, Version reached, Version head, Instant now);
  // Whether a download of `version` may go on, as far as `head` is concerned.
  bool MayGoOn(Version version, Version head) const {
    return version <= head && head.value - version.value <= most_versions_;
  }

  struct Kept {
    std::optional<Version> snapshot;      // the oldest that is still needed
    std::optional<Version> updates_from;  // the updates of the rounds of this version and of those behind it
  };
  // Forgets whoever is too far behind or has not come back.
  Kept KeptFor(Version head, Instant now);

 private:
  struct Pin {
    Version version;
    uint64_t download = 0;
    bool open = true;         // it is being sent
    bool needs_whole = true;  // no update was asked for yet
    Instant until = kNever;   // where it is not open
  };
  const uint64_t most_versions_;
  uint64_t downloads_ = 0;
  std::map<WorkerId, Pin> pins_;  // limits::kWorkers at most; for others nothing is kept
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_VERSION_PINS_H_
