// SPDX-License-Identifier: Apache-2.0
#include "worker/island/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr int kMomentMs = 100;
constexpr int kBacklog = 128;
// Keepalive detects a machine that vanished while no data is sent; with data in flight, the
// deadline of the waiting side does. TCP_USER_TIMEOUT would also end a connection whose peer is
// alive but reads nothing while it computes.
constexpr int kIdleSeconds = 10, kProbeSeconds = 5, kProbes = 4;

absl::Status OfSystem(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void Tune(const Descriptor& socket) {
  const auto set = [&socket](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& address, uint32_t port, bool listens) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listens ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return absl::UnavailableError(absl::StrCat("no address for ", address, ": ", gai_strerror(code)));
  return Addresses(found, &::freeaddrinfo);
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);

std::string NumericAddress(const Descriptor& socket, NameOf name) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  std::array<char, NI_MAXHOST> text{};
  if (name(socket.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) return "";
  const int code =
      ::getnameinfo(reinterpret_cast<sockaddr*>(&at), length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? std::string(text.data()) : "";
}

absl::StatusOr<Descriptor> ConnectToOne(const addrinfo& to, const Deadline& deadline) {
  Descriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return OfSystem("cannot create a socket");
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) return OfSystem("unreachable");
  for (;;) {
    pollfd one{socket.get(), POLLOUT, 0};
    AwaitAny({&one, 1});
    if (one.revents != 0) break;
    if (deadline.Passed()) return absl::DeadlineExceededError("no answer");
  }
  socklen_t length = sizeof(errno);
  int code = 0;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  errno = code;
  if (code != 0) return OfSystem("unreachable");
  Tune(socket);
  return socket;
}

}  // namespace

absl::StatusOr<Descriptor> ListenAt(const std::string& address, uint32_t port) {
  ATOLL_ASSIGN_OR_RETURN(const Addresses found, Resolve(address, port, true));
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!socket.open() || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return OfSystem(absl::StrCat("cannot listen at ", address, " port ", port));
  }
  return socket;
}

absl::StatusOr<Descriptor> ConnectTo(const std::string& address, uint32_t port, const Deadline& deadline) {
  ATOLL_ASSIGN_OR_RETURN(const Addresses found, Resolve(address, port, false));
  absl::Status last;
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    auto socket = ConnectToOne(*to, deadline);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.open()) {
    Tune(socket);
    return socket;
  }
  // No connection is waiting, or it has already been closed.
  const bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR;
  if (!none) return OfSystem("no connection can be accepted");
  return socket;
}

uint32_t LocalPort(const Descriptor& socket) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) return 0;
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
}

std::string LocalAddress(const Descriptor& socket) { return NumericAddress(socket, &::getsockname); }
std::string RemoteAddress(const Descriptor& socket) { return NumericAddress(socket, &::getpeername); }

absl::StatusOr<size_t> SendSome(const Descriptor& socket, Bytes bytes) {
  const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return size_t{0};
  return OfSystem("the connection is lost");
}

absl::StatusOr<size_t> ReceiveSome(const Descriptor& socket, std::span<std::byte> bytes) {
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) return absl::UnavailableError("the connection was closed");
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return size_t{0};
  return OfSystem("the connection is lost");
}

absl::Status SendAll(const Descriptor& socket, Bytes bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    ATOLL_ASSIGN_OR_RETURN(const size_t sent, SendSome(socket, bytes));
    bytes = bytes.subspan(sent);
    if (bytes.empty() || sent > 0) continue;
    if (deadline.Passed()) return absl::DeadlineExceededError("the peer accepts no data");
    pollfd one{socket.get(), POLLOUT, 0};
    AwaitAny({&one, 1});
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(const Descriptor& socket, std::span<std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    ATOLL_ASSIGN_OR_RETURN(const size_t got, ReceiveSome(socket, bytes));
    bytes = bytes.subspan(got);
    if (bytes.empty() || got > 0) continue;
    if (deadline.Passed()) return absl::DeadlineExceededError("no data arrives");
    pollfd one{socket.get(), POLLIN, 0};
    AwaitAny({&one, 1});
  }
  return absl::OkStatus();
}

void AwaitAny(std::span<pollfd> sockets) { ::poll(sockets.data(), sockets.size(), kMomentMs); }

bool LookAtAll(std::span<pollfd> sockets) { return ::poll(sockets.data(), sockets.size(), 0) > 0; }

bool HasEnded(const Descriptor& socket) {
  pollfd one{socket.get(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace atl
