// SPDX-License-Identifier: Apache-2.0
// A raw HTTP exchange over loopback, for tests: sends bytes unchanged and reads until the server
// closes or the limit.
#ifndef ATOLL_TESTS_UNIT_COMMON_TELEMETRY_HTTP_CLIENT_H_
#define ATOLL_TESTS_UNIT_COMMON_TELEMETRY_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>

namespace atl {

class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { ::close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads until the peer closes.
  std::string ReadAll() {
    std::string out;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;) out.append(buffer, static_cast<size_t>(n));
    return out;
  }
  // Reads until `what` has arrived.
  std::string ReadUntil(const std::string& what) {
    std::string out;
    char byte = 0;
    while (out.find(what) == std::string::npos && ::recv(fd_, &byte, 1, 0) == 1) out += byte;
    return out;
  }

 private:
  int fd_;
  bool connected_ = false;
};

inline std::string Exchange(int port, const std::string& request) {
  RawConnection connection(port);
  connection.Send(request);
  return connection.ReadAll();
}
inline std::string Get(int port, const std::string& path) {
  return Exchange(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_TELEMETRY_HTTP_CLIENT_H_
