// SPDX-License-Identifier: Apache-2.0
// A service manager's socket that keeps its messages.
#ifndef ATOLL_TESTS_UNIT_SERVICE_MANAGER_SOCKET_H_
#define ATOLL_TESTS_UNIT_SERVICE_MANAGER_SOCKET_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/descriptor.h"

namespace atl {

class ServiceManagerSocket {
 public:
  // At a path or, with @, in the abstract namespace.
  explicit ServiceManagerSocket(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    open_ = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
  }
  bool open() const { return open_; }
  // All messages since the last call, oldest first.
  std::vector<std::string> Heard() const {
    std::vector<std::string> heard;
    char words[256];
    for (ssize_t n = 0; (n = ::recv(socket_.get(), words, sizeof(words), MSG_DONTWAIT)) >= 0;) {
      heard.emplace_back(words, static_cast<size_t>(n));
    }
    return heard;
  }

 private:
  Descriptor socket_;
  bool open_ = false;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_SERVICE_MANAGER_SOCKET_H_
