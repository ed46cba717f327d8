// SPDX-License-Identifier: Apache-2.0
// The messages between rank 0 and a follower besides values: orders, answers, and the search for
// the cause of an error. Private to worker/island.
#ifndef ATOLL_WORKER_ISLAND_SPOKE_H_
#define ATOLL_WORKER_ISLAND_SPOKE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "worker/island/mesh.h"
#include "worker/island/socket.h"

namespace atl {

enum class FrameKind : uint32_t {
  kOrder,     // rank 0: payload from the caller
  kAnswer,    // follower: payload from the caller
  kQuestion,  // rank 0: what are you waiting for?
  kWaiting,   // follower: waits for a rank, how long, in which exchange; an answer to a question, or unprompted
  kFailed,    // follower: an error occurred here
  kHurt,      // follower: an error occurred here, possibly caused by another rank
  kVerdict,   // rank 0: the island has ended, with the cause
  kHere,      // rank 0: sign of life, between its other messages
};

struct Frame {
  FrameKind kind{};
  std::string payload;
};

absl::Status SendFrame(const Descriptor& spoke, FrameKind kind, const std::string& payload, const Deadline& deadline);
// Unavailable if the peer has closed its end, DeadlineExceeded, or InvalidArgument for an invalid frame.
absl::StatusOr<Frame> ReceiveFrame(const Descriptor& spoke, const Deadline& deadline);
// Rank 0: sends a follower a sign of life, or nothing if earlier bytes are still queued. Returns at once.
void SayHere(const Descriptor& spoke);
// The kind of the next frame, which stays unread; absent if there is none yet.
std::optional<FrameKind> NextKind(const Descriptor& spoke);

// A duration for messages, such as "2.50 s".
std::string Spoken(Duration d);

// Rank 0: asks every follower for its state, within `grace`, and determines the cause. In order: a
// rank that ended, failed or does not answer; otherwise `own`, rank 0's own observation, with a
// follower's kHurt message. Sends the cause to all.
std::string FindCause(const Mesh& mesh, const std::string& own, Duration grace, const Clock& clock);
// A follower: reports `own`, its observation. Returns rank 0's verdict, that rank 0 ended, or `own` after `limit`.
std::string AwaitCause(const Mesh& mesh, FrameKind kind, const std::string& own, Duration limit, const Clock& clock);

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_SPOKE_H_
