// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/link_shaper.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <list>
#include <utility>

#include "common/base/check.h"
#include "tests/bench/sockets.h"

namespace atl::bench {
namespace {

constexpr size_t kLeastPiece = 1448, kMostPiece = 128 << 10;  // pieces that take turns on the line
constexpr size_t kArrivedBytes = 1 << 20;  // for a receiver that does not read; then the sender is not read either
constexpr int kLeastBuffer = 32 << 10, kMostBuffer = 1 << 20;
constexpr Duration kBuffered = Milliseconds(20);  // of line time, in the kernel's buffer in front of the line

using Piece = std::vector<char>;

// One direction of one connection. Bytes read from `from` pass through a lane, then wait here until
// `to` takes them.
struct Flow {
  int from = -1, to = -1;
  size_t on_the_way = 0;  // bytes in the lane
  std::deque<Piece> arrived;
  size_t arrived_bytes = 0, taken = 0;  // `taken`: of the first piece
  bool ended = false, told = false;     // `from` has closed its side; `to` was notified of it
  bool broken = false;

  bool has_room() const { return on_the_way + arrived_bytes < kArrivedBytes; }
};

struct Connection {
  Connection(Socket near_end, Socket far_end) : near(std::move(near_end)), far(std::move(far_end)) {
    up.from = down.to = near.fd();
    up.to = down.from = far.fd();
  }
  bool done() const { return up.broken || down.broken || (up.told && down.told); }

  Socket near, far;
  Flow up, down;
};

// One direction of the link: carries the pieces of all its flows, one after the other.
class Lane {
 public:
  explicit Lane(const LinkShape& shape) : nanos_per_byte_(8e9 / shape.bits_per_second), delay_(shape.delay) {}

  bool open(Instant now) const { return free_at_ < now + kLineQueue; }
  Instant opens_at() const { return free_at_ - kLineQueue; }
  Instant next_arrival() const { return queue_.empty() ? kNever : queue_.front().at; }

  void Send(Flow& flow, Piece piece, Instant now) {
    const auto took = static_cast<int64_t>(std::llround(static_cast<double>(piece.size()) * nanos_per_byte_));
    free_at_ = std::max(free_at_, now) + Nanoseconds(took);
    flow.on_the_way += piece.size();
    queue_.push_back({&flow, free_at_ + delay_, std::move(piece)});
  }

  void Deliver(Instant now) {
    while (!queue_.empty() && queue_.front().at <= now) {
      Crossing& first = queue_.front();
      first.flow->on_the_way -= first.piece.size();
      first.flow->arrived_bytes += first.piece.size();
      first.flow->arrived.push_back(std::move(first.piece));
      queue_.pop_front();
    }
  }

  void Forget(const Flow& flow) {
    std::erase_if(queue_, [&](const Crossing& c) { return c.flow == &flow; });
  }

 private:
  struct Crossing {
    Flow* flow = nullptr;
    Instant at;
    Piece piece;
  };
  const double nanos_per_byte_;
  const Duration delay_;
  Instant free_at_{};
  std::deque<Crossing> queue_;
};

size_t PieceBytes(const LinkShape& shape) {
  return std::clamp(static_cast<size_t>(shape.bits_per_second / 8 / 1000), kLeastPiece, kMostPiece);
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Keeps little data queued in front of the line, as a network card does. Call before the socket
// connects or listens.
void KeepBufferSmall(int fd, const LinkShape& shape) {
  const double wanted = shape.bits_per_second / 8 * ToSeconds(kBuffered);
  const int bytes = static_cast<int>(std::clamp(wanted, double{kLeastBuffer}, double{kMostBuffer}));
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Socket ListenOnLoopback(const LinkShape& shape, uint16_t& port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  KeepBufferSmall(listener.fd(), shape);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ATOLL_CHECK(bind(listener.fd(), generic, size) == 0 && listen(listener.fd(), 64) == 0 &&
                  getsockname(listener.fd(), generic, &size) == 0,
              "a port on loopback could not be had");
  port = ntohs(address.sin_port);
  return listener;
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

struct LinkShaper::State {
  State(const LinkShape& s, const std::vector<uint16_t>& t)
      : shape(s), targets(t), up(s), down(s), stop(eventfd(0, EFD_CLOEXEC)), buffer(PieceBytes(s)) {
    for (size_t i = 0; i < targets.size(); ++i) {
      listeners.push_back(ListenOnLoopback(shape, ports.emplace_back()));
    }
  }

  void Accept(size_t i);
  void Read(Flow& flow, Lane& lane);
  static void Write(Flow& flow);
  bool Wait();
  void Carry();

  const LinkShape shape;
  const std::vector<uint16_t> targets;
  std::vector<Socket> listeners;
  std::vector<uint16_t> ports;
  Lane up, down;
  const Socket stop;
  Piece buffer;
  std::list<Connection> connections;
  const SystemClock clock;
  std::vector<pollfd> watched;
};

void LinkShaper::State::Accept(size_t i) {
  for (;;) {
    const int fd = accept4(listeners[i].fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    Socket near(fd), far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    KeepBufferSmall(far.fd(), shape);
    const sockaddr_in address = Loopback(targets[i]);
    // If the target refuses, the accepted connection is closed.
    if (connect(far.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) continue;
    SendAtOnce(near.fd());
    SendAtOnce(far.fd());
    connections.emplace_back(std::move(near), std::move(far));
  }
}

void LinkShaper::State::Read(Flow& flow, Lane& lane) {
  const ssize_t got = recv(flow.from, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) {
    lane.Send(flow, Piece(buffer.begin(), buffer.begin() + got), clock.Now());
  } else if (got == 0) {
    flow.ended = true;
  } else if (!WouldBlock()) {
    flow.broken = true;
  }
}

void LinkShaper::State::Write(Flow& flow) {
  while (!flow.arrived.empty() && !flow.broken) {
    const Piece& first = flow.arrived.front();
    const ssize_t sent =
        send(flow.to, first.data() + flow.taken, first.size() - flow.taken, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      flow.broken = !WouldBlock();
      return;
    }
    flow.taken += static_cast<size_t>(sent);
    flow.arrived_bytes -= static_cast<size_t>(sent);
    if (flow.taken < first.size()) return;
    flow.arrived.pop_front();
    flow.taken = 0;
  }
  if (flow.ended && !flow.told && flow.on_the_way == 0) {
    shutdown(flow.to, SHUT_WR);
    flow.told = true;
  }
}

// Waits until something can be done. Returns false if it must stop.
bool LinkShaper::State::Wait() {
  const Instant now = clock.Now();
  watched.assign(1, {stop.fd(), POLLIN, 0});
  for (const Socket& listener : listeners) watched.push_back({listener.fd(), POLLIN, 0});
  Instant wake = std::min(up.next_arrival(), down.next_arrival());
  for (Connection& c : connections) {
    const auto watch = [&](const Flow& in, const Lane& lane, const Flow& out) {
      const bool wants = !in.ended && in.has_room();
      if (wants && !lane.open(now)) wake = std::min(wake, lane.opens_at());
      const int events = (wants && lane.open(now) ? POLLIN : 0) | (out.arrived.empty() ? 0 : POLLOUT);
      // Excludes an idle descriptor (-1); otherwise poll would report its hangup again and again.
      watched.push_back({events != 0 ? in.from : -1, static_cast<short>(events), 0});
    };
    watch(c.up, up, c.down);
    watch(c.down, down, c.up);
  }
  const int64_t left = wake == kNever ? 0 : std::max<int64_t>(0, (wake - now).ns);
  const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
  const int ready = ppoll(watched.data(), watched.size(), wake == kNever ? nullptr : &limit, nullptr);
  ATOLL_CHECK(ready >= 0 || errno == EINTR, "waiting for the sockets of a link failed");
  return ready <= 0 || watched[0].revents == 0;
}

// Reads a piece of each readable connection, so that all connections share the line evenly.
void LinkShaper::State::Carry() {
  const Instant now = clock.Now();
  up.Deliver(now);
  down.Deliver(now);
  size_t slot = 1 + listeners.size();
  for (Connection& c : connections) {
    const short near = watched[slot++].revents, far = watched[slot++].revents;
    constexpr short kGone = POLLERR | POLLHUP | POLLNVAL;
    if ((near & (POLLIN | kGone)) != 0 && up.open(now)) Read(c.up, up);
    if ((far & (POLLIN | kGone)) != 0 && down.open(now)) Read(c.down, down);
    Write(c.up);
    Write(c.down);
  }
  for (auto c = connections.begin(); c != connections.end();) {
    if (!c->done()) {
      ++c;
      continue;
    }
    up.Forget(c->up);
    down.Forget(c->down);
    c = connections.erase(c);
  }
  for (size_t i = 0; i < listeners.size(); ++i) {
    if (watched[1 + i].revents != 0) Accept(i);
  }
  if (connections.size() > 1) connections.splice(connections.end(), connections, connections.begin());
}

LinkShaper::LinkShaper(const LinkShape& shape, const std::vector<uint16_t>& targets)
    : state_(std::make_unique<State>(shape, targets)) {}
LinkShaper::~LinkShaper() = default;

const std::vector<uint16_t>& LinkShaper::ports() const { return state_->ports; }

void LinkShaper::Run() {
  while (state_->Wait()) state_->Carry();
}

void LinkShaper::Stop() {
  const uint64_t one = 1;
  ATOLL_CHECK(write(state_->stop.fd(), &one, sizeof(one)) == sizeof(one), "a link could not be stopped");
}

}  // namespace atl::bench
