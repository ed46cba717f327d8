// SPDX-License-Identifier: Apache-2.0
#include "worker/island/spoke.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace atl {
namespace {

struct FrameHeader {
  uint32_t kind, zero;
  uint64_t bytes;
};

constexpr Duration kTelling = Seconds(5);  // to send a few bytes

// The followers' messages during the search for a cause.
struct Hearing {
  explicit Hearing(uint32_t world) : heard(world, false) { heard[0] = true; }
  std::vector<bool> heard;
  std::string certain;  // a rank that ended or failed, with the reason; empty: none so far
  std::string hurt;     // the first kHurt message

  void Take(const Mesh& mesh, uint32_t rank, const Clock& clock) {
    const auto frame = ReceiveFrame(mesh.spokes[rank], {clock, clock.Now() + kTelling});
    if (!frame.ok()) {
      heard[rank] = true;
      certain = absl::StrCat("rank ", rank, " of the island ended: ", frame.status().message());
    } else if (frame->kind == FrameKind::kFailed) {
      heard[rank] = true;
      certain = absl::StrCat("rank ", rank, " of the island: ", frame->payload);
    } else if (frame->kind == FrameKind::kWaiting || frame->kind == FrameKind::kHurt) {
      heard[rank] = true;
      if (frame->kind == FrameKind::kHurt && hurt.empty()) hurt = frame->payload;
    }
  }
  bool Complete() const {
    for (const bool one : heard) {
      if (!one) return false;
    }
    return true;
  }
  std::string Silent() const {
    std::vector<size_t> ranks;
    for (size_t rank = 0; rank < heard.size(); ++rank) {
      if (!heard[rank]) ranks.push_back(rank);
    }
    return absl::StrJoin(ranks, ", ");
  }
};

void Listen(const Mesh& mesh, Hearing& hearing, const Clock& clock) {
  std::vector<pollfd> waiting;
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 1; rank < mesh.world; ++rank) {
    if (hearing.heard[rank]) continue;
    waiting.push_back({mesh.spokes[rank].get(), POLLIN, 0});
    ranks.push_back(rank);
  }
  AwaitAny(waiting);
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents != 0) hearing.Take(mesh, ranks[i], clock);
  }
}

}  // namespace

absl::Status SendFrame(const Descriptor& spoke, FrameKind kind, const std::string& payload, const Deadline& deadline) {
  const FrameHeader header{static_cast<uint32_t>(kind), 0, payload.size()};
  std::string whole(reinterpret_cast<const char*>(&header), sizeof(header));
  whole += payload;
  return SendAll(spoke, AsBytes(whole), deadline);
}

absl::StatusOr<Frame> ReceiveFrame(const Descriptor& spoke, const Deadline& deadline) {
  FrameHeader header{};
  ATOLL_RETURN_IF_ERROR(ReceiveAll(spoke, std::as_writable_bytes(std::span(&header, 1)), deadline));
  if (header.kind > static_cast<uint32_t>(FrameKind::kHere) || header.bytes > limits::kIslandOrderBytes) {
    return absl::InvalidArgumentError("the received data is not a message of an island");
  }
  Frame frame{static_cast<FrameKind>(header.kind), std::string(header.bytes, '\0')};
  ATOLL_RETURN_IF_ERROR(
      ReceiveAll(spoke, std::as_writable_bytes(std::span(frame.payload.data(), frame.payload.size())), deadline));
  return frame;
}

void SayHere(const Descriptor& spoke) {
  int unsent = 0;
  // The few bytes are sent completely or not at all, after the bytes already queued. Queued bytes
  // are a sign of life too.
  if (::ioctl(spoke.get(), SIOCOUTQNSD, &unsent) != 0 || unsent != 0) return;
  const FrameHeader here{static_cast<uint32_t>(FrameKind::kHere), 0, 0};
  (void)::send(spoke.get(), &here, sizeof(here), MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::optional<FrameKind> NextKind(const Descriptor& spoke) {
  FrameHeader header{};
  if (::recv(spoke.get(), &header, sizeof(header), MSG_PEEK) != static_cast<ssize_t>(sizeof(header))) return {};
  return static_cast<FrameKind>(header.kind);
}

std::string Spoken(Duration d) { return absl::StrFormat("%.2f s", ToSeconds(d)); }

std::string FindCause(const Mesh& mesh, const std::string& own, Duration grace, const Clock& clock) {
  const Deadline telling{clock, clock.Now() + kTelling};
  Hearing hearing(mesh.world);
  for (uint32_t rank = 1; rank < mesh.world; ++rank) {
    SendFrame(mesh.spokes[rank], FrameKind::kQuestion, "", telling).IgnoreError();  // an ended rank is detected below
  }
  const Deadline end{clock, clock.Now() + grace};
  while (hearing.certain.empty() && !hearing.Complete() && !end.Passed()) Listen(mesh, hearing, clock);
  std::string cause = own;
  if (!hearing.certain.empty()) {
    cause = absl::StrCat(hearing.certain, " (", own, ")");
  } else if (!hearing.Complete()) {
    cause = absl::StrCat("rank ", hearing.Silent(), " of the island does not answer (", own, ")");
  } else if (!hearing.hurt.empty()) {
    cause = absl::StrCat(hearing.hurt, " (", own, ")");
  }
  const Deadline last{clock, clock.Now() + kTelling};
  for (uint32_t rank = 1; rank < mesh.world; ++rank) {
    SendFrame(mesh.spokes[rank], FrameKind::kVerdict, cause, last).IgnoreError();  // some ranks are gone
  }
  return cause;
}

std::string AwaitCause(const Mesh& mesh, FrameKind kind, const std::string& own, Duration limit, const Clock& clock) {
  const Descriptor& spoke = mesh.spokes[0];
  const Deadline end{clock, clock.Now() + limit};
  SendFrame(spoke, kind, own, end).IgnoreError();  // an ended rank 0 is detected below
  for (;;) {
    const auto frame = ReceiveFrame(spoke, end);
    if (absl::IsDeadlineExceeded(frame.status())) return own;
    if (!frame.ok()) return absl::StrCat("rank 0, which leads the island, ended (", own, ")");
    if (frame->kind == FrameKind::kVerdict) return frame->payload;
  }
}

}  // namespace atl
