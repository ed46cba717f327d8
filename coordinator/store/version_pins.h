// SPDX-License-Identifier: Apache-2.0
// Keeps old files of a fragment on disk for slow workers. A worker that downloads the whole
// fragment over an unreliable link needs the snapshot with which it began, and then the updates
// since, although newer snapshots exist. Both stay until the worker has caught up. Pure bookkeeping
// in memory for one fragment in one epoch: after a restart a worker that resumes is pinned again if
// its files still exist. Thread rule: the caller synchronizes.
#ifndef ATOLL_COORDINATOR_STORE_VERSION_PINS_H_
#define ATOLL_COORDINATOR_STORE_VERSION_PINS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl {

// How long files are kept for an interrupted download, and for a worker between two requests for
// updates.
constexpr Duration kPinAfterBreak = Seconds(600);

class VersionPins {
 public:
  // Nothing is kept for a worker more than `most_versions` versions behind the head, or beyond limits::kWorkers.
  explicit VersionPins(uint64_t most_versions) : most_versions_(most_versions) {}

  // A worker begins to download the fragment at `version`; files kept for this worker before are released.
  // Returns the number of the download, or 0 if nothing is kept because too many workers are pinned.
  uint64_t Begin(const WorkerId& worker, Version version);
  // The download has ended. Only the worker knows whether all of it arrived, so its files are kept
  // for another kPinAfterBreak. No effect if the worker has begun another download.
  void End(const WorkerId& worker, uint64_t download, Instant now);
  // The worker has the whole fragment and asks for the update that produced version `reached`. From now on only
  // updates from shortly before it are kept, for kPinAfterBreak; nothing if `reached` is `head`, the newest version.
  void AskedForUpdate(const WorkerId& worker, Version reached, Version head, Instant now);
  // Whether a download of `version` may continue now that `head` is committed.
  bool MayGoOn(Version version, Version head) const {
    return version <= head && head.value - version.value <= most_versions_;
  }

  struct Kept {
    std::optional<Version> snapshot;      // the oldest snapshot still needed
    std::optional<Version> updates_from;  // updates of rounds from this version on
  };
  // The files to keep for all workers. Releases the pins of workers that are too far behind or have not come back.
  Kept KeptFor(Version head, Instant now);

 private:
  struct Pin {
    Version version;
    uint64_t download = 0;
    bool open = true;         // the download is in progress
    bool needs_whole = true;  // no update was requested yet
    Instant until = kNever;   // if not open
  };
  const uint64_t most_versions_;
  uint64_t downloads_ = 0;
  std::map<WorkerId, Pin> pins_;  // at most limits::kWorkers; nothing is kept for others
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_VERSION_PINS_H_
