// SPDX-License-Identifier: Apache-2.0
// What travels between rank 0 and a follower beside values: orders, answers, and what happened when something did.
// Private to worker/island.
#ifndef ATOLL_WORKER_ISLAND_SPOKE_H_
#define ATOLL_WORKER_ISLAND_SPOKE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "worker/island/mesh.h"
#include "worker/island/socket.h"

namespace atl {

enum class FrameKind : uint32_t {
  kOrder,     // rank 0: payload of the caller's
  kAnswer,    // follower: likewise
  kQuestion,  // rank 0: what keeps you?
  kWaiting,   // follower: so long for whom, in what; its answer to a question, or of itself
  kFailed,    // follower: this went wrong here
  kHurt,      // follower: so did this, which may be another rank's doing
  kVerdict,   // rank 0: the island is over, because of this
  kHere,      // rank 0: it lives; between whatever else it has to say
};

struct Frame {
  FrameKind kind{};
  std::string payload;
};

absl::Status SendFrame(const Descriptor& spoke, FrameKind kind, const std::string& payload, const Deadline& deadline);
// Unavailable when the other side has closed its end, InvalidArgument for what is no frame.
absl::StatusOr<Frame> ReceiveFrame(const Descriptor& spoke, const Deadline& deadline);
// Rank 0: tells a follower that it lives; nothing where what was said before could not leave yet. At once.
void SayHere(const Descriptor& spoke);
// Of the frame that comes next, without taking it; absent when there is none yet.
std::optional<FrameKind> NextKind(const Descriptor& spoke);

// "2.50 s".
std::string Spoken(Duration d);

// Rank 0: asks every follower what keeps it, within `grace`, and gives the cause: who ended, what failed, who does not
// answer, or else `own`, what rank 0 saw itself, and what a follower was hurt by. Tells it to all.
std::string FindCause(const Mesh& mesh, const std::string& own, Duration grace, const Clock& clock);
// A follower: says what it saw and returns what rank 0 makes of it; `own` when nothing comes within `limit`.
std::string AwaitCause(const Mesh& mesh, FrameKind kind, const std::string& own, Duration limit, const Clock& clock);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_SPOKE_H_
