// SPDX-License-Identifier: Apache-2.0
// How the ranks of an island find each other: every follower dials rank 0 (its spoke: orders, and how a death is
// noticed), and every rank but the first dials the one before it (the chain, along which values travel). Both sides of
// every connection prove that they know the island's secret; whoever does not is shown out and disturbs nobody.
// What follows on these connections is neither encrypted nor signed: an island lies within one machine or one network
// that is trusted.
#ifndef ATOLL_WORKER_ISLAND_MESH_H_
#define ATOLL_WORKER_ISLAND_MESH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/descriptor.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/island_limits.h"

namespace atl {

struct IslandPlace {
  uint32_t rank = 0, world = 1;
  std::string address = "127.0.0.1";  // where rank 0 listens, and on no other interface
  uint32_t port = 0;
  std::string secret;   // the same at all ranks, at least limits::kIslandSecretBytes
  std::string program;  // version: all ranks run the same
};

struct IslandLimits {
  Duration join = Seconds(300);  // for all ranks to have come
  // A rank that keeps the others waiting has so long, four times the longest that the waiting one has worked between
  // two exchanges since the last order, and the time of the bytes at the slowest rate that an island may have.
  Duration patience = Seconds(60);
  uint64_t slowest_bytes_per_second = 10'000'000;
};

struct Mesh {
  uint32_t rank = 0, world = 1;
  std::vector<Descriptor> spokes;  // of rank 0: to rank i at i; of others: the one to rank 0 at 0
  Descriptor previous, next;       // not open at the ends of the chain
};

// Asked every few milliseconds while ranks are waited for; an error ends the waiting with it.
using StillWanted = std::function<absl::Status()>;

// Rank 0, at a listener of its own. DeadlineExceeded names the ranks that did not come, Unavailable one that ended.
absl::StatusOr<Mesh> MeetAsLeader(const Descriptor& listener, const IslandPlace& place, const IslandLimits& limits,
                                  const Clock& clock, const StillWanted& still_wanted);
// Every other rank. FailedPrecondition when rank 0 refuses it (secret, version, rank, size), DeadlineExceeded.
absl::StatusOr<Mesh> MeetAsFollower(const IslandPlace& place, const IslandLimits& limits, const Clock& clock,
                                    const StillWanted& still_wanted);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_MESH_H_
