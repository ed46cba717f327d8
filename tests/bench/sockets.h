// SPDX-License-Identifier: Apache-2.0
// Plain TCP over loopback: the reference for transfers between processes. A system error ends the
// program.
#ifndef ATOLL_TESTS_BENCH_SOCKETS_H_
#define ATOLL_TESTS_BENCH_SOCKETS_H_

#include <cstddef>
#include <span>
#include <utility>

namespace atl::bench {

constexpr size_t kWriteBytes = 1 << 20;  // per system call

// A descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_;
};

// The connecting and the accepting end of one loopback connection, without Nagle's delay.
struct SocketPair {
  Socket client, server;
};
SocketPair Connect();

// Connects to that loopback port, without Nagle's delay.
Socket ConnectTo(int port);

// Sends all bytes in calls of kWriteBytes.
void SendAll(int fd, std::span<const std::byte> bytes);
void ReceiveAll(int fd, std::span<std::byte> bytes);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_SOCKETS_H_
