#include "common/base/last_word.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace atl {
namespace {

const char* g_program = "";

// Nothing here allocates: there may be no memory.
void Tell(int) {
  constexpr char kWhy[] =
      ": stopped by abort(). Where no line above says why, the system gave no memory or no thread: look at ulimit -a, "
      "the memory of its cgroup and what else runs here, then start it again\n";
  (void)!write(STDERR_FILENO, g_program, std::strlen(g_program));
  (void)!write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1);
  ::raise(SIGABRT);  // comes when this returns, and then ends the process, whoever has sent the first one
}

}  // namespace

void TellOfAborts(const char* program) {
  g_program = program;
  struct sigaction action {};
  action.sa_handler = &Tell;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace atl
