// SPDX-License-Identifier: Apache-2.0
#include "common/guard/relay.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/system_random.h"

namespace atl::guard {
namespace {

constexpr int kTurns = 4;  // chunks in each direction before other connections get their turn
constexpr size_t kInjectedBytes = 16 << 10;
// Buffer of an inner socket, each way. A large one lets a single connection keep guard and gRPC busy at
// the same time; many connections do that with small ones, and share the room.
constexpr size_t kInnerRoomBytes = 8 << 20, kMostInnerBytes = 1 << 20, kLeastInnerBytes = 256 << 10;
constexpr size_t kMostSpans = 16;
constexpr Duration kSendPause = Seconds(1);  // without a send for this long, the memory for TLS records is released

// Returns a name that no other socket of this machine has.
std::string NewInnerName() {
  static const uint64_t process = SystemRandomBits();
  static std::atomic<uint64_t> next = 0;
  return absl::StrCat("atoll-", absl::Hex(process), "-", ++next);
}

// Binds in the abstract namespace, which needs no file.
bool BindAbstract(int socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

}  // namespace

Relay::Relay(Accepted accepted, const RelayParts& parts, Instant now)
    : Connection(std::move(accepted), parts.connection, now),
      parts_(parts),
      filter_(parts.http,
              [this](const std::string& path, const absl::Status& refusal) { return Judge(path, refusal); }) {}

Relay::~Relay() {
  *parts_.held -= counted_;
  if (load_) {
    load_->calls -= calls_in_load_;
    parts_.calls->open_calls() -= calls_in_load_;
    load_->unfinished_bytes -= bytes_in_load_;
  }
  if (!name_.empty()) ThePeers().End(name_);
}

Wait Relay::inner() const {
  if (!inner_.open()) return {};
  if (closing_) return {.socket = inner_.get(), .events = 0};
  return {.socket = inner_.get(),
          .events = (has_output() ? 0U : uint32_t{EPOLLIN}) | (in_.empty() ? 0U : uint32_t{EPOLLOUT})};
}

void Relay::Opened(Instant) {
  caller_ = CallerOf(peer());
  load_ = parts_.calls->LoadOf(caller_);
  out_ = filter_.Greeting();
}

CallVerdict Relay::Judge(const std::string& path, const absl::Status& refusal) {
  CallVerdict verdict = parts_.judge(id(), peer(), path, refusal);
  if (verdict.status.ok() && load_->calls >= kMostOpenCalls) {
    verdict.status = absl::ResourceExhaustedError(
        absl::StrCat(caller_, " has ", kMostOpenCalls, " calls open at this port, the limit; end some"));
  } else if (verdict.status.ok() && parts_.calls->open_calls() >= kOpenCallsOfAll && load_->calls >= kOpenCallsAlways) {
    verdict.status =
        absl::ResourceExhaustedError(absl::StrCat("this port has ", kOpenCallsOfAll, " open calls; until some end, ",
                                                  caller_, " may have ", kOpenCallsAlways, "; try again in a second"));
  }
  if (!verdict.end_connection) parts_.calls->Add(caller_, 1, now_);
  judged_too_fast_ = judged_too_fast_ || verdict.end_connection;
  return verdict;
}

void Relay::CountHeld() {
  const size_t held = in_.size() + out_.size() + socket().held_bytes() + prelude_.size() + injected_.size();
  *parts_.held += held - counted_;
  counted_ = held;
}

void Relay::CountLoad() {
  const auto calls = static_cast<int64_t>(filter_.open_streams());
  const auto bytes = static_cast<int64_t>(filter_.unfinished_bytes());
  const int64_t more = calls - std::exchange(calls_in_load_, calls);
  load_->calls += more;
  parts_.calls->open_calls() += more;
  load_->unfinished_bytes += bytes - std::exchange(bytes_in_load_, bytes);
}

Connection::Next Relay::MoveBytes(Instant now, std::span<uint8_t> scratch) {
  now_ = now;
  scratch = scratch.first(*parts_.held > kHeldBytes ? kSmallChunkBytes : kChunkBytes);
  const Next next = MoveChunks(now, scratch);
  if (!closing_) WatchOutput(now);
  if (*parts_.held > kHeldBytes || now - sent_ > kSendPause) socket().Release();
  CountHeld();
  CountLoad();  // the server may have ended calls
  return next;
}

void Relay::WatchOutput(Instant now) {
  if (!has_output()) {
    deadline_ = kNever;
  } else if (moved_out_ || deadline_ == kNever) {
    deadline_ = now + kUnreadTime;
  }
}

Connection::Next Relay::MoveChunks(Instant now, std::span<uint8_t> scratch) {
  wake_ = kNever;
  outer_is_dry_ = inner_is_dry_ = moved_out_ = false;
  for (int turn = 0; turn < kTurns; ++turn) {
    const bool out = MoveOut(scratch);
    moved_out_ = moved_out_ || out;
    const bool in = !lost_ && !closing_ && MoveIn(now, scratch);
    if (lost_) return Next::kEnd;
    if (closing_) return Next::kAgain;
    if (!out && !in) {
      reads_ = in_.empty() && !peer_ended_ && injected_.size() <= kInjectedBytes && wake_ == kNever;
      return Next::kWait;
    }
  }
  reads_ = true;
  return Next::kAgain;
}

void Relay::Send(std::span<const uint8_t> bytes) {
  sent_ = now_;
  size_t sent = 0;
  while (out_.empty() && sent < bytes.size()) {
    const Moved moved = socket().Write(bytes.subspan(sent));
    if (moved.end != Moved::End::kOpen) {
      lost_ = true;
      return;
    }
    if (moved.bytes == 0) break;
    sent += moved.bytes;
  }
  const std::span<const uint8_t> rest = bytes.subspan(sent);
  out_.append(reinterpret_cast<const char*>(rest.data()), rest.size());
}

bool Relay::MoveOut(std::span<uint8_t> scratch) {
  const size_t before = out_.size() + socket().waiting_bytes();
  if (has_output() && !FlushOut()) lost_ = true;
  if (lost_ || has_output()) return out_.size() + socket().waiting_bytes() < before;
  if (!injected_.empty() && tracker_.at_boundary()) {
    Send(BytesOf(std::exchange(injected_, {})));
    return true;
  }
  if (!inner_.open() || inner_is_dry_) return before > 0;
  const ssize_t count = ::recv(inner_.get(), scratch.data(), scratch.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    inner_is_dry_ = true;
    return before > 0;
  }
  if (count <= 0) {  // gRPC has ended the connection, and all its bytes are sent
    socket().SayGoodbye();
    lost_ = true;
    return false;
  }
  const std::span<const uint8_t> bytes = scratch.first(static_cast<size_t>(count));
  const std::optional<size_t> boundary = tracker_.Scan(bytes, [this](uint32_t stream) { filter_.StreamEnded(stream); });
  if (injected_.empty() || !boundary) {
    Send(bytes);
    return true;
  }
  Send(bytes.first(*boundary));
  Send(BytesOf(std::exchange(injected_, {})));
  Send(bytes.subspan(*boundary));
  return true;
}

// Reads several TLS records at once, as far as they have arrived.
size_t Relay::ReadChunk(std::span<uint8_t> scratch) {
  size_t have = 0;
  while (have < scratch.size()) {
    const Moved moved = socket().Read(scratch.subspan(have));
    have += moved.bytes;
    if (moved.end == Moved::End::kClosed) peer_ended_ = true;
    if (moved.end == Moved::End::kFailed) lost_ = true;
    outer_is_dry_ = moved.bytes == 0;
    if (outer_is_dry_) break;
  }
  return have;
}

bool Relay::MoveIn(Instant now, std::span<uint8_t> scratch) {
  const size_t before = in_.size();
  if (!in_.empty()) FlushIn();
  if (lost_ || !in_.empty()) return in_.size() < before;
  if (peer_ended_) {
    lost_ = true;
    return false;
  }
  if (const std::optional<Instant> until = parts_.calls->PausedUntil(caller_, now)) {
    wake_ = *until;
    return false;
  }
  if (injected_.size() > kInjectedBytes || outer_is_dry_) return false;
  const size_t have = ReadChunk(scratch);
  if (have == 0) {
    if (peer_ended_) lost_ = true;
    return false;
  }
  const bool was_lost = std::exchange(lost_, false);  // bytes received before the loss still count
  pieces_.Clear();
  absl::Status status = filter_.Consume(scratch.first(have), now, pieces_, injected_);
  if (const uint32_t cost = filter_.TakeResets() * kCallsPerReset + filter_.TakeCost(); cost > 0)
    parts_.calls->Add(caller_, cost, now);
  const int64_t unfinished = bytes_in_load_;
  CountLoad();
  if (status.ok() && bytes_in_load_ > unfinished && load_->unfinished_bytes > kMostUnfinishedBytes) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "messages of ", caller_, " that are not complete hold more than ", kMostUnfinishedBytes, " bytes"));
  }
  if (status.ok() || filter_.admitted()) Forward(pieces_);
  lost_ = lost_ || was_lost;
  if (!status.ok() && !lost_) Refuse(status, now);
  return true;
}

void Relay::Forward(const Pieces& pieces) {
  if (!inner_.open()) {
    if (!filter_.admitted()) {
      prelude_ += pieces.Joined();
      if (prelude_.size() > parts_.http.prelude_bytes) lost_ = true;
      return;
    }
    if (!OpenInner()) {
      lost_ = true;
      return;
    }
    in_ = std::exchange(prelude_, {});
    FlushIn();
  }
  size_t skip = 0;
  if (in_.empty() && pieces.spans().size() <= kMostSpans) {
    std::array<iovec, kMostSpans> parts{};
    size_t count = 0;
    for (const auto& span : pieces.spans())
      parts[count++] = {.iov_base = const_cast<uint8_t*>(span.data()), .iov_len = span.size()};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = count == 0 ? 0 : ::sendmsg(inner_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      lost_ = true;
      return;
    }
    skip = sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  for (const auto& span : pieces.spans()) {
    const size_t sent = std::min(skip, span.size());
    skip -= sent;
    in_.append(reinterpret_cast<const char*>(span.data()) + sent, span.size() - sent);
  }
}

bool Relay::OpenInner() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) return false;
  Descriptor ours(pair[0]), theirs(pair[1]);
  std::string name = NewInnerName();
  if (!BindAbstract(ours.get(), name)) return false;
  const auto buffer =
      static_cast<int>(std::clamp(kInnerRoomBytes / (ThePeers().open() + 1), kLeastInnerBytes, kMostInnerBytes));
  for (const int socket : pair) ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  ThePeers().Add(name, peer());
  name_ = std::move(name);
  inner_ = std::move(ours);
  parts_.hand_over(std::move(theirs));
  return true;
}

void Relay::FlushIn() {
  while (!in_.empty()) {
    const ssize_t sent = ::send(inner_.get(), in_.data(), in_.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      if (errno != EAGAIN && errno != EINTR) lost_ = true;
      return;
    }
    in_.erase(0, static_cast<size_t>(sent));
  }
}

// Reports the reason to the peer if possible; gRPC sees the connection end.
void Relay::Refuse(const absl::Status& why, Instant now) {
  if (tracker_.at_boundary()) out_ += injected_ + GoAway(0, why);
  Close(judged_too_fast_ ? Ending::kTooFast : Ending::kBroken, now);
}

}  // namespace atl::guard
