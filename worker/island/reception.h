// SPDX-License-Identifier: Apache-2.0
// Accepts connections at a rank; each peer must first prove the island's secret. Private to worker/island.
#ifndef ATOLL_WORKER_ISLAND_RECEPTION_H_
#define ATOLL_WORKER_ISLAND_RECEPTION_H_

#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "worker/island/mesh.h"
#include "worker/island/secret.h"
#include "worker/island/socket.h"

namespace atl {

enum class IslandLink : uint32_t { kSpoke, kChain };

// Wire format; all ranks run the same program on little-endian machines.
struct Challenge {
  char magic[8];
  Sha256 nonce;
};
struct Claim {
  char magic[8];
  uint32_t link, rank, world, port;  // port: the claimant's listener for the next rank
  Sha256 nonce, program;
  Proof proof;
};
enum class DoorVerdict : uint32_t { kWelcome, kWrongSecret, kWrongProgram, kWrongWorld, kWrongRank };
struct ClaimReply {
  char magic[8];
  uint32_t verdict, zero;
  Proof proof;
};

// An accepted connection.
struct Arrival {
  Descriptor socket;
  IslandLink link{};
  uint32_t rank = 0;
  uint32_t port = 0;
};

// Owned by one thread.
class Reception {
 public:
  // The arguments outlive it.
  Reception(const Descriptor& listener, const IslandPlace& place, const Clock& clock)
      : listener_(listener), place_(place), clock_(clock) {}
  // Waits at most 100 ms for a peer that proves the secret. `expects`: whether a rank may join by this link now.
  absl::StatusOr<std::optional<Arrival>> Turn(const std::function<bool(IslandLink, uint32_t rank)>& expects);

 private:
  struct Guest {
    Descriptor socket;
    Sha256 nonce;
    Instant until{};
    Claim claim{};
    size_t got = 0;
  };
  absl::Status TakeNew();
  // True if the guest must be disconnected.
  bool Read(Guest& guest);
  DoorVerdict Judge(const Guest& guest, const std::function<bool(IslandLink, uint32_t)>& expects) const;

  const Descriptor& listener_;
  const IslandPlace& place_;
  const Clock& clock_;
  std::list<Guest> guests_;
};

// The dialling side; both sides prove the secret. FailedPrecondition, with the reason, if either side refuses.
absl::Status ProveAt(const Descriptor& socket, IslandLink link, uint32_t port, const IslandPlace& place,
                     const Deadline& deadline);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_RECEPTION_H_
