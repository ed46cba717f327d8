// SPDX-License-Identifier: Apache-2.0
#include "worker/island/mesh.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/island/reception.h"
#include "worker/island/socket.h"

namespace atl {
namespace {

// Rank 0's message to a follower about the previous rank.
struct Neighbour {
  uint32_t port;  // 0: the previous rank is rank 0
  std::array<char, 60> address;
};

absl::Status CheckPlace(const IslandPlace& place) {
  if (place.world < 2 || place.world > limits::kIslandRanks || place.rank >= place.world) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", place.rank, " of ", place.world,
                                                   " ranks is not a place in an island, which has 2 to ",
                                                   limits::kIslandRanks));
  }
  if (place.secret.size() < limits::kIslandSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the island's secret has ", place.secret.size(),
                                                   " characters; it needs ", limits::kIslandSecretBytes));
  }
  return absl::OkStatus();
}

absl::Status LookAround(const Deadline& deadline, const StillWanted& still_wanted, const std::string& awaited) {
  ATOLL_RETURN_IF_ERROR(still_wanted());
  if (deadline.Passed()) return absl::DeadlineExceededError(awaited);
  return absl::OkStatus();
}

// The state of the leader while ranks join.
struct Gathering {
  Mesh mesh;
  std::vector<uint32_t> ports;  // the listening port of each rank
  uint32_t here = 1;            // joined ranks

  bool Expects(IslandLink link, uint32_t rank) const {
    if (link == IslandLink::kChain) return rank == 1 && here == mesh.world && !mesh.next.open();
    return rank >= 1 && rank < mesh.world && !mesh.spokes[rank].open();
  }
  bool Complete() const { return here == mesh.world && mesh.next.open(); }
  absl::Status Look() const {
    for (uint32_t rank = 1; rank < mesh.world; ++rank) {
      if (mesh.spokes[rank].open() && HasEnded(mesh.spokes[rank])) {
        return absl::UnavailableError(
            absl::StrCat("rank ", rank, " of the island ended before all ranks had connected"));
      }
    }
    return absl::OkStatus();
  }
  std::string Awaited(Duration limit) const {
    std::vector<uint32_t> missing;
    for (uint32_t rank = 1; rank < mesh.world; ++rank) {
      if (!mesh.spokes[rank].open()) missing.push_back(rank);
    }
    if (missing.empty()) missing.push_back(1);
    return absl::StrCat("rank ", absl::StrJoin(missing, ", "), " of the island's ", mesh.world,
                        " did not connect within ", ToSeconds(limit),
                        " s; start all ranks with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
  }
};

absl::Status TellNeighbours(const Gathering& all, const Deadline& deadline) {
  for (uint32_t rank = 1; rank < all.mesh.world; ++rank) {
    Neighbour before{};
    if (rank > 1) {
      const std::string address = RemoteAddress(all.mesh.spokes[rank - 1]);
      before.port = all.ports[rank - 1];
      std::memcpy(before.address.data(), address.data(), std::min(address.size(), before.address.size() - 1));
    }
    const absl::Status told = SendAll(all.mesh.spokes[rank], std::as_bytes(std::span(&before, 1)), deadline);
    ATOLL_RETURN_IF_ERROR(
        Annotate(told, absl::StrCat("rank ", rank, " of the island cannot be sent the addresses of the others")));
  }
  return absl::OkStatus();
}

// Connects to `rank`. Retries until the deadline, because a launcher starts the ranks in any order.
absl::StatusOr<Descriptor> Dial(const std::string& address, uint32_t port, uint32_t rank, const Deadline& deadline,
                                const StillWanted& still_wanted) {
  for (;;) {
    auto socket = ConnectTo(address, port, deadline);
    if (socket.ok()) return socket;
    ATOLL_RETURN_IF_ERROR(LookAround(deadline, still_wanted,
                                     absl::StrCat("rank ", rank, " of the island is unreachable at ", address, " port ",
                                                  port, ": ", socket.status().message())));
    AwaitAny({});
  }
}

absl::StatusOr<Descriptor> AwaitNext(const Descriptor& listener, const IslandPlace& place, const Clock& clock,
                                     const Deadline& deadline, const StillWanted& still_wanted) {
  Reception door(listener, place, clock);
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(auto arrival, door.Turn([&place](IslandLink link, uint32_t rank) {
      return link == IslandLink::kChain && rank == place.rank + 1;
    }));
    if (arrival) return std::move(arrival->socket);
    ATOLL_RETURN_IF_ERROR(
        LookAround(deadline, still_wanted, absl::StrCat("rank ", place.rank + 1, " of the island did not connect")));
  }
}

}  // namespace

absl::StatusOr<Mesh> MeetAsLeader(const Descriptor& listener, const IslandPlace& place, const IslandLimits& limits,
                                  const Clock& clock, const StillWanted& still_wanted) {
  ATOLL_RETURN_IF_ERROR(CheckPlace(place));
  const Deadline deadline{clock, clock.Now() + limits.join};
  Reception door(listener, place, clock);
  Gathering all;
  all.mesh.world = place.world;
  all.mesh.spokes.resize(place.world);
  all.ports.resize(place.world);
  while (!all.Complete()) {
    ATOLL_ASSIGN_OR_RETURN(auto arrival,
                           door.Turn([&all](IslandLink link, uint32_t rank) { return all.Expects(link, rank); }));
    if (!arrival) {
      ATOLL_RETURN_IF_ERROR(all.Look());
      ATOLL_RETURN_IF_ERROR(LookAround(deadline, still_wanted, all.Awaited(limits.join)));
      continue;
    }
    if (arrival->link == IslandLink::kChain) {
      all.mesh.next = std::move(arrival->socket);
      continue;
    }
    all.mesh.spokes[arrival->rank] = std::move(arrival->socket);
    all.ports[arrival->rank] = arrival->port;
    if (++all.here == place.world) ATOLL_RETURN_IF_ERROR(TellNeighbours(all, deadline));
  }
  return std::move(all.mesh);
}

absl::StatusOr<Mesh> MeetAsFollower(const IslandPlace& place, const IslandLimits& limits, const Clock& clock,
                                    const StillWanted& still_wanted) {
  ATOLL_RETURN_IF_ERROR(CheckPlace(place));
  const Deadline deadline{clock, clock.Now() + limits.join};
  Mesh mesh;
  mesh.rank = place.rank;
  mesh.world = place.world;
  ATOLL_ASSIGN_OR_RETURN(Descriptor spoke, Dial(place.address, place.port, 0, deadline, still_wanted));
  // Listens on the interface that reaches rank 0: the next rank connects through it.
  ATOLL_ASSIGN_OR_RETURN(const Descriptor listener, ListenAt(LocalAddress(spoke), 0));
  ATOLL_RETURN_IF_ERROR(ProveAt(spoke, IslandLink::kSpoke, LocalPort(listener), place, deadline));
  Neighbour before{};
  ATOLL_RETURN_IF_ERROR(Annotate(ReceiveAll(spoke, std::as_writable_bytes(std::span(&before, 1)), deadline),
                                 "rank 0 of the island did not send the addresses of the others"));
  before.address.back() = '\0';
  IslandPlace previous = place;
  if (before.port != 0) {
    previous.address = before.address.data();
    previous.port = before.port;
  }
  const StillWanted with_leader = [&spoke, &still_wanted]() -> absl::Status {
    if (HasEnded(spoke)) return absl::UnavailableError("rank 0 of the island ended before all ranks had connected");
    return still_wanted();
  };
  ATOLL_ASSIGN_OR_RETURN(mesh.previous, Dial(previous.address, previous.port, place.rank - 1, deadline, with_leader));
  ATOLL_RETURN_IF_ERROR(ProveAt(mesh.previous, IslandLink::kChain, 0, previous, deadline));
  if (place.rank + 1 < place.world) {
    ATOLL_ASSIGN_OR_RETURN(mesh.next, AwaitNext(listener, place, clock, deadline, with_leader));
  }
  mesh.spokes.push_back(std::move(spoke));
  return mesh;
}

}  // namespace atl
