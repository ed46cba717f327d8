// SPDX-License-Identifier: Apache-2.0
#include "common/guard/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/guard/pieces.h"
#include "common/guard/proxy_protocol.h"

namespace atl::guard {
namespace {

constexpr size_t kReadPerTurnBytes = 512 << 10;  // more than a relay's chunks of a turn

}  // namespace

Connection::Connection(Accepted accepted, const ConnectionParts& parts, Instant now)
    : deadline_(now + kHandshakeTime),
      peer_{.endpoint = std::move(accepted.endpoint), .certificate = std::nullopt},
      id_(accepted.id),
      parts_(parts),
      socket_(std::move(accepted.socket)),
      secure_(std::make_unique<SecureSocket>(socket_.get(), parts.tls ? parts.tls->Current(now) : nullptr)),
      stage_(parts.proxied ? Stage::kProxyHeader : Stage::kHandshake) {}

Connection::Next Connection::Pump(Instant now, std::span<uint8_t> scratch) {
  if (ended_) return Next::kEnd;
  secure_->AllowReading(kReadPerTurnBytes);
  if (now >= deadline_) {
    if (stage_ != Stage::kOpen) ending_ = Ending::kHandshake;
    return Next::kEnd;
  }
  if (stage_ == Stage::kProxyHeader) return ReadProxyHeader(now);
  if (stage_ == Stage::kTurn && now < wake_) return Next::kWait;
  if (stage_ == Stage::kTurn) BeginHandshake();
  if (stage_ == Stage::kHandshake) return Handshake(now);
  if (!closing_) {
    const Next next = MoveBytes(now, scratch);
    if (next == Next::kEnd && secure_->refused()) ending_ = Ending::kBroken;
    return next;
  }
  if (!FlushOut()) return Next::kEnd;
  return has_output() ? Next::kWait : SayGoodbye(scratch);
}

Connection::Next Connection::SayGoodbye(std::span<uint8_t> scratch) {
  if (!said_goodbye_) socket().SayGoodbye();
  if (!linger_) return Next::kEnd;
  if (!std::exchange(said_goodbye_, true)) ::shutdown(socket_.get(), SHUT_WR);
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), scratch.data(), scratch.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Next::kWait;
    if (count <= 0 || static_cast<size_t>(count) > *linger_) return Next::kEnd;
    *linger_ -= static_cast<size_t>(count);
  }
}

Wait Connection::outer() const {
  const bool reads = said_goodbye_ || (stage_ == Stage::kOpen ? reads_ && !closing_ : stage_ != Stage::kTurn);
  return {.socket = socket_.get(),
          .events = (reads ? uint32_t{EPOLLIN} : 0U) | (has_output() ? uint32_t{EPOLLOUT} : 0U)};
}

// Peeks at the bytes and takes only the header from the socket: TLS begins right after it.
Connection::Next Connection::ReadProxyHeader(Instant now) {
  std::array<uint8_t, kProxyHeaderBytes> bytes{};
  const ssize_t seen = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_PEEK);
  if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return Next::kWait;
  const absl::StatusOr<std::optional<ProxyHeader>> header =
      ParseProxyHeader({bytes.data(), static_cast<size_t>(seen < 0 ? 0 : seen)});
  // If the kernel wakes this socket without a further byte, the peer has ended.
  const bool stands_still = seen == std::exchange(seen_of_header_, seen);
  if (seen <= 0 || !header.ok() || (!*header && stands_still)) {
    ending_ = Ending::kHandshake;
    return Next::kEnd;
  }
  if (!*header) {
    // A partial header stays in the socket, so that waiting for input would return at once. With a
    // higher low-water mark the kernel wakes this socket only when it has more bytes.
    const int more = static_cast<int>(seen) + 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &more, sizeof(more));
    return Next::kWait;
  }
  const int one = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
  const ProxyHeader& named = **header;
  (void)!::recv(socket_.get(), bytes.data(), named.bytes, 0);
  if (!named.address.empty()) {
    const std::optional<Instant> turn = parts_.moved(id_, named.address);
    if (!turn) return Next::kEnd;
    peer_.endpoint = named.endpoint;
    if (now < *turn) {
      stage_ = Stage::kTurn;
      wake_ = *turn;
      deadline_ = *turn + kHandshakeTime;
      return Next::kWait;
    }
  }
  BeginHandshake();
  return Handshake(now);
}

void Connection::BeginHandshake() {
  stage_ = Stage::kHandshake;
  wake_ = kNever;
}

Connection::Next Connection::Handshake(Instant now) {
  const Moved moved = secure_->Handshake();
  if (moved.end == Moved::End::kOpen) return Next::kWait;
  if (moved.end == Moved::End::kFailed) {
    ending_ = Ending::kHandshake;
    return Next::kEnd;
  }
  peer_.certificate = secure_->PeerCertificate();
  stage_ = Stage::kOpen;
  deadline_ = kNever;
  Opened(now);
  return Next::kAgain;
}

bool Connection::FlushOut() {
  if (out_.empty()) return secure_->Flush().end == Moved::End::kOpen;
  size_t written = 0;
  while (written < out_.size()) {
    const Moved moved = secure_->Write(BytesOf(out_).subspan(written));
    if (moved.end != Moved::End::kOpen) return false;
    if (moved.bytes == 0) break;
    written += moved.bytes;
  }
  out_.erase(0, written);
  return true;
}

void Connection::Close(Ending how, Instant now) {
  ending_ = how;
  closing_ = true;
  deadline_ = now + kGoodbyeTime;
}

void Connection::CloseAndLinger(Ending how, Instant now) {
  linger_ = kLingerBytes;
  Close(how, now);
}

}  // namespace atl::guard
