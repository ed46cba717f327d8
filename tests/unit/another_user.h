// SPDX-License-Identifier: Apache-2.0
// What an ordinary user meets, tried also where the tests run as root.
#ifndef ATOLL_TESTS_UNIT_ANOTHER_USER_H_
#define ATOLL_TESTS_UNIT_ANOTHER_USER_H_

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace atl {

// From root to the user nobody, for good; for a child process. False when that is not allowed. Others stay who they
// are.
inline bool BecomeAnotherUser() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() != 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

// What `work` returns, 0 to 250, in a child that is no root; -1 where there can be none that reaches `directory`.
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
