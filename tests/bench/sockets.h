// SPDX-License-Identifier: Apache-2.0
// Plain TCP over loopback: the yardstick of what moves bytes between processes. A refusal of the system stops the
// program.
#ifndef ATOLL_TESTS_BENCH_SOCKETS_H_
#define ATOLL_TESTS_BENCH_SOCKETS_H_

#include <cstddef>
#include <span>
#include <utility>

namespace atl::bench {

constexpr size_t kWriteBytes = 1 << 20;  // of one call to the system

// A descriptor that closes with its owner.
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

// The end that connected and the end that accepted of one connection over loopback, without Nagle's delay.
struct SocketPair {
  Socket client, server;
};
SocketPair Connect();

// A connection to that port of loopback, without Nagle's delay.
Socket ConnectTo(int port);

// All of it, in calls of kWriteBytes.
void SendAll(int fd, std::span<const std::byte> bytes);
void ReceiveAll(int fd, std::span<std::byte> bytes);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_SOCKETS_H_
