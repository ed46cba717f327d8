#include "common/base/last_word.h"

#include <errno.h>  // program_invocation_short_name
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace atl {
namespace {

// Nothing here allocates: there may be no memory.
void Tell(int) {
  constexpr char kWhy[] =
      ": stopped by abort(). Where no line above says why, the system gave no memory or no thread: look at ulimit -a, "
      "the memory of its cgroup and what else runs here, then start it again\n";
  (void)!write(STDERR_FILENO, program_invocation_short_name, std::strlen(program_invocation_short_name));
  (void)!write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1);
  ::raise(SIGABRT);  // comes when this returns, and then ends the process, whoever has sent the first one
}

}  // namespace

void TellOfAborts() {
  struct sigaction action {};
  action.sa_handler = &Tell;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace atl
