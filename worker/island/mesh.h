// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of an island. Every follower dials rank 0 (its spoke, for orders and the
// detection of deaths), and every rank but the first dials the previous one (the chain, along which
// values travel). Both sides of every connection prove that they know the island's secret; a peer
// that does not is disconnected without any effect on the ranks. Afterwards these connections are
// neither encrypted nor signed: an island lies within one machine or one trusted network.
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
  std::string address = "127.0.0.1";  // rank 0 listens here, and on no other interface
  uint32_t port = 0;
  std::string secret;   // the same at all ranks, at least limits::kIslandSecretBytes
  std::string program;  // version: all ranks run the same
};

struct IslandLimits {
  Duration join = Seconds(300);  // for all ranks to join
  // The deadline for a rank that the others wait for: this time, plus four times the longest work
  // of the waiting rank between two exchanges since the last order, plus the time of the bytes at
  // the slowest allowed rate.
  Duration patience = Seconds(60);
  uint64_t slowest_bytes_per_second = 10'000'000;
};

struct Mesh {
  uint32_t rank = 0, world = 1;
  std::vector<Descriptor> spokes;  // of rank 0: to rank i at i; of others: to rank 0 at 0
  Descriptor previous, next;       // not open at the ends of the chain
};

// Called about ten times a second while waiting for ranks; an error ends the wait.
using StillWanted = std::function<absl::Status()>;

// Rank 0, with its own listener. DeadlineExceeded names the missing ranks, Unavailable one that ended.
absl::StatusOr<Mesh> MeetAsLeader(const Descriptor& listener, const IslandPlace& place, const IslandLimits& limits,
                                  const Clock& clock, const StillWanted& still_wanted);
// Every other rank. FailedPrecondition if refused (secret, version, rank, size), DeadlineExceeded after limits.join.
absl::StatusOr<Mesh> MeetAsFollower(const IslandPlace& place, const IslandLimits& limits, const Clock& clock,
                                    const StillWanted& still_wanted);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_MESH_H_
