// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "common/base/check.h"

namespace atl::bench {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) { ATOLL_CHECK(fd >= 0, "a socket on loopback could not be had"); }
Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

SocketPair Connect() {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  ATOLL_CHECK(bind(listener.fd(), generic, size) == 0 && listen(listener.fd(), 1) == 0 &&
                  getsockname(listener.fd(), generic, &size) == 0,
              "a port on loopback could not be had");
  Socket client = ConnectTo(ntohs(address.sin_port));
  Socket server(accept(listener.fd(), nullptr, nullptr));
  SendAtOnce(server.fd());
  return {std::move(client), std::move(server)};
}

Socket ConnectTo(int port) {
  const sockaddr_in address = Loopback(port);
  Socket client(socket(AF_INET, SOCK_STREAM, 0));
  ATOLL_CHECK(connect(client.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
              "loopback refused a connection");
  SendAtOnce(client.fd());
  return client;
}

void SendAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), std::min(bytes.size(), kWriteBytes), 0);
    ATOLL_CHECK(sent > 0, "sending over loopback failed");
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

void ReceiveAll(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), std::min(bytes.size(), kWriteBytes), 0);
    ATOLL_CHECK(got > 0, "receiving over loopback failed");
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

}  // namespace atl::bench
