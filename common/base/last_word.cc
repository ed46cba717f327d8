#include "common/base/last_word.h"

#include <errno.h>  // program_invocation_short_name
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace atl {
namespace {

// Nothing here allocates: there may be no memory.
void Write(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

void Tell(int signal) {
  Write(program_invocation_short_name);
  Write(signal == SIGSEGV
            ? ": stopped by a segmentation fault. Where the system gave no memory, a library may have gone on "
              "without it: look at "
            : ": stopped by abort(). Where no line above says why, the system gave no memory or no thread: look at ");
  Write("ulimit -a, the memory of its cgroup and what else runs here, then start it again");
  Write(signal == SIGSEGV ? "; where there is enough of all, it is a fault of the program: report it\n" : "\n");
  ::raise(signal);  // comes when this returns, and then ends the process, whoever has sent the first one
}

// A sanitizer that has taken the signal keeps it: it says more.
void TellOf(int signal) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = &Tell;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void TellOfAborts() {
  TellOf(SIGABRT);
  TellOf(SIGSEGV);
}

}  // namespace atl
