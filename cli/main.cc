// SPDX-License-Identifier: Apache-2.0
// `atoll`: the command line. app.cc parses, command_tree.cc lists the commands, and other files run them; this file
// handles only the process.
#include <malloc.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "cli/app.h"
#include "cli/grpc_coordinator_api.h"
#include "cli/terminal_secret.h"
#include "common/base/mutex.h"
#include "common/base/output_buffer.h"
#include "common/base/private_memory.h"
#include "common/base/process.h"
#include "common/rpc/transport_log.h"

namespace atl::cli {
namespace {

// UUID version 4, variant 1 (RFC 4122).
std::string NewRequestId() {
  std::random_device device;
  const uint32_t a = device(), b = device(), c = device(), d = device();
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%04x%08x", a, b >> 16, b & 0xfff, 0x8000 | (c >> 16 & 0x3fff),
                         c & 0xffff, d);
}

uint32_t TerminalSize(bool columns) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return columns ? 80 : 24;
  const uint32_t value = columns ? size.ws_col : size.ws_row;
  return value != 0 ? value : columns ? 80 : 24;
}

constexpr Duration kLook = Milliseconds(100);
constexpr Duration kToReturn = Seconds(5);  // time for an interrupted command to return

// Ctrl-C and the other stop signals (common/base/process.h) end the running call; the command then
// returns on its usual path. The process ends at once when that path waits for a stalled reader,
// after kToReturn, or on a second signal that asks for haste.
class Interrupter {
 public:
  Interrupter(const OutputBuffer& out, const OutputBuffer& talk) : out_(out), talk_(talk) {
    std::thread([this] { Listen(); }).detach();
  }
  void Watch(CoordinatorApi* api) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    api_ = api;
    if (interrupted_ && api_ != nullptr) api_->Interrupt();
  }
  void Pause(Duration length) ATOLL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    SystemClock clock;
    const Instant until = clock.Now() + length;
    for (Instant now = clock.Now(); !interrupted_ && now < until; now = clock.Now())
      changed_.WaitFor(mutex_, until - now);
  }

 private:
  void Listen() {
    int signal = 0;
    const sigset_t signals = StopSignals();
    sigwait(&signals, &signal);
    {
      const MutexLock lock(mutex_);
      // Nothing to interrupt (a data command, or a job file being read): ends the process at once, with
      // kExitInterrupted.
      if (api_ == nullptr || !api_->Interrupt()) End();
      interrupted_ = true;
      changed_.NotifyAll();
    }
    const SystemClock clock;
    const timespec look{.tv_sec = 0, .tv_nsec = kLook.ns};
    for (const Instant end = clock.Now() + kToReturn; clock.Now() < end && !out_.stalled() && !talk_.stalled();) {
      if (MeansHaste(sigtimedwait(&signals, nullptr, &look))) break;
    }
    End();
  }
  [[noreturn]] static void End() {
    ShowTyping();
    _exit(kExitInterrupted);
  }

  const OutputBuffer& out_;
  const OutputBuffer& talk_;
  Mutex mutex_;
  CondVar changed_;
  bool interrupted_ ATOLL_GUARDED_BY(mutex_) = false;
  CoordinatorApi* api_ ATOLL_GUARDED_BY(mutex_) = nullptr;
};

struct Streams {
  OutputBuffer out{STDOUT_FILENO}, talk{STDERR_FILENO};
  Interrupter interrupter{out, talk};
};

int Main(const std::vector<std::string>& arguments) {
  // The listening thread outlives main's return, so the objects it uses are never destroyed.
  static Streams& streams = *new Streams;
  std::ostream out(&streams.out);
  std::cerr.rdbuf(&streams.talk);
  std::cerr.tie(&out);  // messages appear after the results before them
  SystemClock clock;
  const std::unique_ptr<Files> files = MakePosixFiles();
  AppEnvironment environment{.in = std::cin,
                             .out = out,
                             .talk = std::cerr,
                             .out_is_terminal = isatty(STDOUT_FILENO) == 1,
                             .talk_is_terminal = isatty(STDERR_FILENO) == 1,
                             .width = [] { return TerminalSize(true); },
                             .height = [] { return TerminalSize(false); },
                             .variables = ReadEnvironment(),
                             .version = ATOLL_VERSION,
                             .clock = clock,
                             .files = *files,
                             .connect =
                                 [&clock](const std::string& endpoint, const std::string& identity,
                                          Passphrases& passphrases, std::optional<Instant> deadline) {
                                   return MakeGrpcCoordinatorApi(endpoint, identity, passphrases, deadline, clock);
                                 },
                             .ask_secret = AskAtTerminal,
                             .running = [](CoordinatorApi* api) { streams.interrupter.Watch(api); },
                             .new_request_id = NewRequestId,
                             .pause_before_retry = [](Duration length) { streams.interrupter.Pause(length); }};
  const int code = RunApp(arguments, environment);
  std::cerr.tie(nullptr);
  return code;
}

}  // namespace
}  // namespace atl::cli

int main(int argc, char** argv) {
  atl::StartProcess();
  atl::SilenceTransportLog();
  atl::KeepMemoryPrivate();
  mallopt(M_MMAP_THRESHOLD, 256 << 20);  // bulk buffers are reused instead of mapped again
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  try {
    return atl::cli::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    atl::EndIfRefused();
    std::fprintf(stderr, "atoll: internal error: %s; please report it\n", error.what());
    return atl::cli::kExitBug;
  }
}
