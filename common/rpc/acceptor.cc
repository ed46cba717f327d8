#include "common/rpc/acceptor.h"

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
#include "common/rpc/socket_options.h"

namespace atl {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptedAtOnce = 64;
// What epoll hands back: the wake-up, the listeners from here, connections behind the last listener.
constexpr uint64_t kWake = 0, kFirstListener = 1;
constexpr int kPauseWithoutDescriptorsMs = 20;
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

// A listening socket; AlreadyExists when the port is another's, Unavailable for every other reason of the system.
absl::StatusOr<Descriptor> OpenListener(const addrinfo& at, int port) {
  Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET6) {
    // "::" takes IPv4 as well, as gRPC's own listener does.
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

// The network of a peer (NetworkOf), and its address with its port; IPv4 within IPv6 is IPv4.
std::pair<std::string, std::string> NamesOf(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  uint16_t port = 0;
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    port = ntohs(v6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text.data(), text.size());
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    port = ntohs(v4.sin_port);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  }
  return {NetworkOf(text.data()), absl::StrCat(text.data(), ":", port)};
}

bool Watch(int poll, int fd, uint32_t events, uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  return ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, const ConnectionLimits& limits) {
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
      why = listener.status();  // as of an address of IPv6 on a machine without it
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
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(listeners), port, limits, std::move(poll), std::move(wake)));
}

Acceptor::Acceptor(std::vector<Descriptor> listeners, int port, const ConnectionLimits& limits, Descriptor poll,
                   Descriptor wake)
    : listeners_(std::move(listeners)),
      port_(port),
      poll_(std::move(poll)),
      wake_(std::move(wake)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      table_(limits),
      next_id_(kFirstListener + listeners_.size()) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server) {
  server_ = std::move(server);
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
  listeners_.clear();  // whoever knocks now is refused, not left to wait
  const MutexLock lock(mutex_);
  held_.clear();
  unserved_.clear();
}

void Acceptor::Run() {
  std::array<epoll_event, 64> ready{};
  for (;;) {
    int wait_ms = -1;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      const Instant now = clock_.Now();
      for (const uint64_t id : table_.TakeSilent(now)) {
        ++counts_.silent;
        End(id);
      }
      if (const Instant next = std::min(table_.NextSilent(), table_.NextTurn()); next != kNever)
        wait_ms = static_cast<int>(std::clamp<int64_t>((next - now).ns / 1'000'000 + 1, 0, kLongestWaitMs));
    }
    const int count = ::epoll_wait(poll_.get(), ready.data(), static_cast<int>(ready.size()), wait_ms);
    for (int i = 0; i < count; ++i) HandleReady(ready[static_cast<size_t>(i)].data.u64);
    HandOver();
  }
}

void Acceptor::HandleReady(uint64_t what) {
  if (what == kWake) return;
  if (what < kFirstListener + listeners_.size()) return AcceptFrom(listeners_[what - kFirstListener]);
  // Shut both ways, by the peer, by gRPC or by us: gRPC closes its descriptor, this is the other.
  const MutexLock lock(mutex_);
  table_.Leave(what);
  Forget(what);
}

void Acceptor::AcceptFrom(const Descriptor& listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    Descriptor connection(
        ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.open()) {
      const auto [address, endpoint] = NamesOf(peer);
      Take(std::move(connection), address, endpoint, listener.get());
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return MakeRoom();
  }
}

// The oldest connection without a call goes, and gRPC gives its descriptor back a moment later, in a thread of its own;
// where there is none, whoever knocks is refused with the spare descriptor.
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
  pollfd stop{.fd = wake_.get(), .events = POLLIN, .revents = 0};
  ::poll(&stop, 1, kPauseWithoutDescriptorsMs);
}

void Acceptor::Take(Descriptor connection, const std::string& address, const std::string& endpoint, int listener) {
  const int on = 1;
  ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  KeepUnsentShort(connection.get());
  {
    const MutexLock lock(mutex_);
    const uint64_t id = next_id_++;
    const ConnectionTable::Arrival arrival = table_.Arrive(id, address, endpoint, clock_.Now(), Seeing());
    if (arrival.gives_way) {
      ++counts_.gave_way;
      End(*arrival.gives_way);
    }
    Descriptor second(arrival.admitted ? ::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0) : -1);
    // Told of nothing but the end: that both directions are shut.
    if (!second.open() || !Watch(poll_.get(), second.get(), 0, id)) {
      ++counts_.refused;
      return table_.Leave(id);
    }
    held_[id] = std::move(second);
    unserved_[id] = {std::move(connection), listener};
  }
  HandOver();
}

ConnectionTable::See Acceptor::Seeing() const {
  return [unserved = &unserved_](uint64_t id) {
    const int connection = unserved->at(id).connection.get();
    int bytes = 0;
    if (::ioctl(connection, FIONREAD, &bytes) != 0) bytes = 0;
    pollfd end{.fd = connection, .events = POLLRDHUP, .revents = 0};
    return ConnectionTable::Seen{.unread = static_cast<size_t>(bytes), .left = ::poll(&end, 1, 0) > 0};
  };
}

void Acceptor::HandOver() {
  std::vector<Unserved> served;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, way] : table_.TakeTurns(clock_.Now(), Seeing())) {
      if (way == ConnectionTable::Way::kServed) {
        served.push_back(std::move(unserved_.extract(id).mapped()));
        continue;
      }
      if (way == ConnectionTable::Way::kTooFast) ++counts_.cut;
      End(id);
    }
  }
  for (Unserved& next : served) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = next.listener;
    parameters.fd = next.connection.Release();
    server_->HandleNewConnection(&parameters);
  }
}

void Acceptor::End(uint64_t id) {
  const auto held = held_.find(id);
  if (held == held_.end()) return;
  // Not shutdown(): what the peer goes on sending would still be read.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  (void)::connect(held->second.get(), &nobody, sizeof(nobody));
  Forget(id);
}

// To close it is not enough: the registration stays as long as gRPC's descriptor of the same socket.
void Acceptor::Forget(uint64_t id) {
  const auto held = held_.find(id);
  if (held == held_.end()) return;
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, held->second.get(), nullptr);
  held_.erase(held);
  unserved_.erase(id);
}

void Acceptor::CallBegan(const std::string& peer, const Caller& caller) {
  const MutexLock lock(mutex_);
  const std::optional<ConnectionTable::Ended> ended = table_.Called(EndpointOfPeer(peer), caller, clock_.Now());
  if (!ended) return;
  ++(ended->fault == ConnectionTable::Fault::kTooFast ? counts_.cut : counts_.revoked);
  End(ended->id);
}

void Acceptor::CallsTooFast(const std::string& peer) {
  const MutexLock lock(mutex_);
  const std::optional<uint64_t> id = table_.CalledTooFast(EndpointOfPeer(peer), clock_.Now());
  if (!id) return;
  ++counts_.cut;
  End(*id);
}

void Acceptor::EndConnections(Certificates which) {
  const MutexLock lock(mutex_);
  for (const uint64_t id : table_.End(std::move(which))) {
    ++counts_.revoked;
    End(id);
  }
}

ConnectionCounts Acceptor::Counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace atl
