// SPDX-License-Identifier: Apache-2.0
// Runs code as an ordinary user, also if the tests run as root.
#ifndef ATOLL_TESTS_UNIT_ANOTHER_USER_H_
#define ATOLL_TESTS_UNIT_ANOTHER_USER_H_

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace atl {

// Permanently switches a child process from root to the user "nobody". Returns false if that is not
// allowed. If the process is not root it keeps its user.
inline bool BecomeAnotherUser() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() != 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

// Returns the result of `work`, 0 to 250, from a child without root; -1 if no such child can reach
// `directory`.
template <typename Work>
int AsAnotherUser(const std::string& directory, Work work) {
  constexpr int kCannot = 251;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(BecomeAnotherUser() && ::access(directory.c_str(), X_OK) == 0 ? work() : kCannot);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == kCannot ? -1 : WEXITSTATUS(status);
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_ANOTHER_USER_H_
