// SPDX-License-Identifier: Apache-2.0
#include "common/base/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/descriptor.h"

namespace atl {
namespace {

constexpr time_t kTakenWithin_s = 5;
constexpr int64_t kLongest_us = int64_t{365} * 24 * 3600 * 1'000'000;

// Returns an empty string for a missing variable.
std::string ValueOf(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

absl::Status Failed(const std::string& socket, const char* what) {
  return absl::UnavailableError(
      absl::StrCat("cannot notify the service manager at ", socket, ": ", what, ": ", std::strerror(errno)));
}

}  // namespace

ServiceManager::ServiceManager(const std::map<std::string, std::string>& environment, int process)
    : socket_(ValueOf(environment, "NOTIFY_SOCKET")) {
  if (socket_.empty()) return;
  const std::string meant = ValueOf(environment, "WATCHDOG_PID");
  int64_t silence_us = 0;
  if (!absl::SimpleAtoi(ValueOf(environment, "WATCHDOG_USEC"), &silence_us)) return;
  if (silence_us <= 0 || silence_us > kLongest_us || (!meant.empty() && meant != absl::StrCat(process))) return;
  alive_every_ = Microseconds(silence_us) / 2;
}

absl::Status ServiceManager::StillStopping(Duration at_most) const {
  return Tell(absl::StrCat("EXTEND_TIMEOUT_USEC=", at_most.ns / 1000));
}

absl::Status ServiceManager::Tell(const std::string& words) const {
  if (socket_.empty()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((socket_[0] != '/' && socket_[0] != '@') || socket_.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("cannot notify the service manager: NOTIFY_SOCKET ", socket_,
                                               " is neither a path nor @ and a name, or too long"));
  }
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) return Failed(socket_, "socket");
  const timeval limit{.tv_sec = kTakenWithin_s, .tv_usec = 0};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0) {
    return Failed(socket_, "set the send timeout");
  }
  const ssize_t sent = ::sendto(socket.get(), words.data(), words.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), length);
  return sent == static_cast<ssize_t>(words.size()) ? absl::OkStatus() : Failed(socket_, "send");
}

}  // namespace atl
