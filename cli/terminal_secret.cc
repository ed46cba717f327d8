// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal_secret.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/base/descriptor.h"
#include "common/base/mutex.h"

namespace atl::cli {
namespace {

constexpr size_t kLongestLine = 4095;                           // limit of a terminal
constexpr std::array<int, 2> kKeysWithoutEffect{VSUSP, VQUIT};  // during the question

// The terminal's settings before echo was turned off.
class Typing {
 public:
  // Turns the echo off. Returns false when `terminal` is no terminal.
  bool Hide(int terminal) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (::tcgetattr(terminal, &before_) != 0) return false;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    hidden.c_lflag |= ECHONL;
    // A stopped process (^Z) goes on with the echo on, and one that ends at once leaves it off.
    for (const int key : kKeysWithoutEffect) hidden.c_cc[key] = _POSIX_VDISABLE;
    if (::tcsetattr(terminal, TCSAFLUSH, &hidden) != 0) return false;
    terminal_ = terminal;
    return true;
  }
  bool HasNoEffect(char typed) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const int key : kKeysWithoutEffect) {
      if (before_.c_cc[key] == static_cast<cc_t>(typed)) return true;
    }
    return false;
  }
  void Show() ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (terminal_ >= 0) ::tcsetattr(terminal_, TCSAFLUSH, &before_);
    terminal_ = -1;
  }

 private:
  Mutex mutex_;
  int terminal_ ATOLL_GUARDED_BY(mutex_) = -1;
  termios before_ ATOLL_GUARDED_BY(mutex_) = {};
};

Typing& TheTyping() {
  static Typing typing;
  return typing;
}

}  // namespace

absl::StatusOr<std::string> AskAtTerminal(const std::string& prompt) {
  const Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!terminal.open() || !TheTyping().Hide(terminal.get()))
    return absl::FailedPreconditionError("no terminal is available for the question");
  (void)!::write(terminal.get(), prompt.data(), prompt.size());
  std::string line;
  for (char c = 0; c != '\n';) {
    const ssize_t n = ::read(terminal.get(), &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || line.size() > kLongestLine) break;
    if (c != '\n' && !TheTyping().HasNoEffect(c)) line.push_back(c);
  }
  TheTyping().Show();
  return line;
}

void ShowTyping() { TheTyping().Show(); }

}  // namespace atl::cli
