// SPDX-License-Identifier: Apache-2.0
// Connections to this machine that do not use gRPC.
#ifndef ATOLL_TESTS_UNIT_COMMON_RPC_RAW_SOCKET_H_
#define ATOLL_TESTS_UNIT_COMMON_RPC_RAW_SOCKET_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "common/base/descriptor.h"

namespace atl {

inline Descriptor ConnectTo(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

// Waits until the other end closes the connection and discards the bytes before that. Returns false
// on a timeout.
inline bool Ends(const Descriptor& connection) {
  std::array<char, 4096> taken{};
  for (;;) {
    pollfd one{.fd = connection.get(), .events = POLLIN, .revents = 0};
    if (::poll(&one, 1, 10'000) != 1) return false;
    if (::recv(connection.get(), taken.data(), taken.size(), 0) <= 0) return true;
  }
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_RPC_RAW_SOCKET_H_
