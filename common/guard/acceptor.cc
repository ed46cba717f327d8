// SPDX-License-Identifier: Apache-2.0
#include "common/guard/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"

namespace atl::guard {
namespace {

constexpr int kBacklog = 1024;
// Ids of epoll events: the wake-up, then the listeners.
constexpr uint64_t kWake = 0, kFirstListener = 1;
constexpr int kUnsentBytes = 64 << 10;  // unsent bytes in the kernel beyond which a socket counts as full
constexpr int kPauseMs = static_cast<int>(ConnectionTable::kBurstTime.ns / 1'000'000);
constexpr int kLongestWaitMs = 60'000;

struct Resolved {
  ~Resolved() {
    if (list != nullptr) freeaddrinfo(list);
  }
  addrinfo* list = nullptr;
};

int PortOf(int fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

// Opens a listening socket. AlreadyExists when the port is in use, Unavailable for any other error
// of the system.
absl::StatusOr<Descriptor> OpenListener(const addrinfo& at, int port) {
  Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET6) {
    // "::" also accepts IPv4, like gRPC's own listener.
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(static_cast<uint16_t>(port));
  }
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (socket.open() && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), at.ai_addrlen) == 0 &&
      ::listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  const int code = errno;
  if (code == EADDRINUSE) return absl::AlreadyExistsError(std::strerror(code));
  return absl::UnavailableError(std::strerror(code));
}

// Returns the address of a peer, and its address and port in gRPC's form. IPv4-mapped IPv6 becomes IPv4.
std::pair<std::string, std::string> NamesOf(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    inet_ntop(mapped ? AF_INET : AF_INET6, v6.sin6_addr.s6_addr + (mapped ? 12 : 0), text.data(), text.size());
    const std::string host = mapped ? absl::StrCat("ipv4:", text.data()) : absl::StrCat("ipv6:%5B", text.data(), "%5D");
    return {text.data(), absl::StrCat(host, ":", ntohs(v6.sin6_port))};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
  inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return {text.data(), absl::StrCat("ipv4:", text.data(), ":", ntohs(v4.sin_port))};
}

bool Watch(int poll, int fd, uint32_t events, uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  return ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, const ConnectionLimits& limits,
                                                           bool proxied) {
  ATOLL_ASSIGN_OR_RETURN(const HostPort wanted, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  Resolved resolved;
  if (const int code = getaddrinfo(wanted.host.c_str(), absl::StrCat(wanted.port).c_str(), &hints, &resolved.list);
      code != 0) {
    return absl::UnavailableError(gai_strerror(code));
  }
  std::vector<Descriptor> listeners;
  absl::Status why = absl::UnavailableError("it stands for no address");
  int port = static_cast<int>(wanted.port);
  for (const addrinfo* at = resolved.list; at != nullptr; at = at->ai_next) {
    absl::StatusOr<Descriptor> listener = OpenListener(*at, port);
    if (absl::IsAlreadyExists(listener.status())) return listener.status();
    if (!listener.ok()) {
      why = listener.status();  // for example an IPv6 address on a machine without IPv6
      continue;
    }
    port = PortOf(listener->get());
    listeners.push_back(*std::move(listener));
  }
  if (listeners.empty()) return why;
  Descriptor poll(::epoll_create1(EPOLL_CLOEXEC)), wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool watched = poll.open() && wake.open() && Watch(poll.get(), wake.get(), EPOLLIN, kWake);
  for (size_t i = 0; i < listeners.size(); ++i)
    watched = watched && Watch(poll.get(), listeners[i].get(), EPOLLIN, kFirstListener + i);
  if (!watched) return absl::UnavailableError(std::strerror(errno));
  return std::unique_ptr<Acceptor>(
      new Acceptor(std::move(listeners), port, limits, proxied, std::move(poll), std::move(wake)));
}

Acceptor::Acceptor(std::vector<Descriptor> listeners, int port, const ConnectionLimits& limits, bool proxied,
                   Descriptor poll, Descriptor wake)
    : listeners_(std::move(listeners)),
      port_(port),
      proxied_(proxied),
      poll_(std::move(poll)),
      wake_(std::move(wake)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      table_(limits) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(AcceptorHandlers handlers) {
  handlers_ = std::move(handlers);
  thread_ = std::jthread([this] { Run(); });
}

void Acceptor::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  listeners_.clear();  // closes the listeners, so that new clients are refused at once
  const MutexLock lock(mutex_);
  unserved_.clear();
}

// Ends silent connections and serves those with a due turn. Returns for how many ms to wait then; -1: without limit.
int Acceptor::EndSilent() {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  for (const uint64_t id : table_.TakeSilent(now)) {
    ++counts_.silent;
    End(id);
  }
  ServeThoseWhoseTurnItIs();
  const Instant next = std::min(table_.NextSilent(), table_.NextTurn());
  if (next == kNever) return -1;
  return static_cast<int>(std::clamp<int64_t>((next - now).ns / 1'000'000 + 1, 0, kLongestWaitMs));
}

void Acceptor::Run() {
  std::array<epoll_event, 64> ready{};
  for (;;) {
    const int wait_ms = EndSilent();
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    const int count = ::epoll_wait(poll_.get(), ready.data(), static_cast<int>(ready.size()), wait_ms);
    for (int i = 0; i < count; ++i) {
      const uint64_t what = ready[static_cast<size_t>(i)].data.u64;
      if (what >= kFirstListener) AcceptFrom(listeners_[what - kFirstListener]);
    }
  }
}

void Acceptor::AcceptFrom(const Descriptor& listener) {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    Descriptor socket(
        ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      auto [address, endpoint] = NamesOf(peer);
      if (Take(std::move(socket), address, std::move(endpoint))) return Pause();
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return MakeRoom();
    return;  // none, or one that has failed: the listener stays readable if there are others
  }
}

void Acceptor::Pause() {
  pollfd stop{.fd = wake_.get(), .events = POLLIN, .revents = 0};
  ::poll(&stop, 1, kPauseMs);
}

// Ends a connection without a call, chosen by GiveWay; if it is served, its loop frees the descriptor a moment later.
// Without such a connection, closes the spare descriptor to accept and drop one waiting connection of each listener.
void Acceptor::MakeRoom() {
  bool gave_way = false;
  {
    const MutexLock lock(mutex_);
    if (const std::optional<uint64_t> gives_way = table_.GiveWay(Seeing())) {
      gave_way = true;
      ++counts_.gave_way;
      End(*gives_way);
    } else {
      ++counts_.refused;
    }
  }
  if (!gave_way) {
    spare_.Close();
    for (const Descriptor& listener : listeners_) Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Pause();
}

bool Acceptor::Take(Descriptor socket, const std::string& address, std::string endpoint) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
  const MutexLock lock(mutex_);
  const uint64_t id = next_id_++;
  const ConnectionTable::Arrival arrival = table_.Arrive(id, proxied_ ? "" : address, clock_.Now(), Seeing());
  if (arrival.gives_way) {
    ++counts_.gave_way;
    End(*arrival.gives_way);
  }
  if (!arrival.admitted) {
    ++counts_.refused;
    return arrival.ends_burst;
  }
  unserved_[id] = {std::move(socket), std::move(endpoint)};
  ServeThoseWhoseTurnItIs();
  return arrival.ends_burst;
}

ConnectionTable::See Acceptor::Seeing() const {
  return [unserved = &unserved_](uint64_t id) {
    const auto found = unserved->find(id);
    if (found == unserved->end()) return ConnectionTable::Seen{};
    const int socket = found->second.socket.get();
    int bytes = 0;
    if (::ioctl(socket, FIONREAD, &bytes) != 0) bytes = 0;
    pollfd end{.fd = socket, .events = POLLRDHUP, .revents = 0};
    return ConnectionTable::Seen{.unread = static_cast<size_t>(bytes), .left = ::poll(&end, 1, 0) > 0};
  };
}

void Acceptor::ServeThoseWhoseTurnItIs() {
  for (const auto& [id, way] : table_.TakeTurns(clock_.Now(), Seeing())) {
    if (way == ConnectionTable::Way::kServed) {
      Unserved next = std::move(unserved_.extract(id).mapped());
      handlers_.serve({id, std::move(next.socket), std::move(next.endpoint)});
      continue;
    }
    if (way == ConnectionTable::Way::kTooFast) ++counts_.cut;
    End(id);
  }
}

void Acceptor::End(uint64_t id) {
  if (unserved_.erase(id) == 0) handlers_.end(id);
}

void Acceptor::Left(uint64_t id) {
  const MutexLock lock(mutex_);
  table_.Leave(id);
}

void Acceptor::HandshakeFailed(uint64_t id) {
  const MutexLock lock(mutex_);
  ++counts_.handshakes;
  table_.Faulted(id, clock_.Now());
}

void Acceptor::Broke(uint64_t id) {
  const MutexLock lock(mutex_);
  ++counts_.broken;
  table_.Faulted(id, clock_.Now());
}

void Acceptor::WasRevoked(uint64_t id) {
  const MutexLock lock(mutex_);
  ++counts_.revoked;
  table_.Revoked(id);
}

void Acceptor::Answered(uint64_t id) {
  const MutexLock lock(mutex_);
  table_.Answered(id);
}

ConnectionTable::Verdict Acceptor::Called(uint64_t id, const std::string& identity) {
  const MutexLock lock(mutex_);
  const ConnectionTable::Verdict verdict = table_.Called(id, identity, clock_.Now());
  if (verdict == ConnectionTable::Verdict::kTooFast) ++counts_.cut;
  if (verdict == ConnectionTable::Verdict::kTooMany) ++counts_.refused;
  return verdict;
}

void Acceptor::Allowed(uint64_t id) {
  const MutexLock lock(mutex_);
  table_.Allowed(id, clock_.Now());
}

std::optional<Instant> Acceptor::Moved(uint64_t id, const std::string& address) {
  const MutexLock lock(mutex_);
  const ConnectionTable::Moved moved = table_.Move(id, address, clock_.Now(), Seeing());
  if (!moved.turn) ++counts_.refused;
  if (moved.gives_way) {
    ++counts_.gave_way;
    End(*moved.gives_way);
  }
  return moved.turn;
}

ConnectionCounts Acceptor::Counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace atl::guard
