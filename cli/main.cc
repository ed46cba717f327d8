// `atoll`: the command line. Parsing is in app.cc, commands are in *_commands.cc; here is only what touches the
// process.
#include <fcntl.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <random>
#include <streambuf>
#include <thread>

#include "absl/strings/str_format.h"
#include "cli/app.h"
#include "cli/grpc_coordinator_api.h"
#include "cli/terminal_secret.h"
#include "common/base/mutex.h"
#include "common/base/private_memory.h"
#include "common/rpc/transport_log.h"

#ifndef ATOLL_VERSION
#define ATOLL_VERSION "unknown"
#endif

namespace atl::cli {
namespace {

// Version 4, variant 1 (RFC 4122).
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

// Standard output, which tells a reader that has gone (`| head`) from other faults: then the process ends quietly by
// SIGPIPE, as every tool does. The signal itself is ignored, because connections break too.
class StandardOutput final : public std::streambuf {
 public:
  StandardOutput() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

 protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    for (const char* at = pbase(); at < pptr();) {
      const ssize_t written = write(STDOUT_FILENO, at, static_cast<size_t>(pptr() - at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EPIPE) {
        std::signal(SIGPIPE, SIG_DFL);
        std::raise(SIGPIPE);
      }
      if (written <= 0) return -1;
      at += written;
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

 private:
  std::array<char, 8192> buffer_{};
};

// Ctrl-C and SIGTERM end the running call; the command then returns through its usual path. A second one ends the
// process.
class Interrupter {
 public:
  Interrupter() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // inherited by every thread made from here on
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
    for (int signal = 0; sigwait(&signals_, &signal) == 0;) {
      const MutexLock lock(mutex_);
      // Nothing to interrupt (a data command, or a job file that is being read): the usual way to die, with the usual
      // exit code.
      if (interrupted_ || api_ == nullptr || !api_->Interrupt()) {
        ShowTyping();
        _exit(kExitInterrupted);
      }
      interrupted_ = true;
      changed_.NotifyAll();
    }
  }

  sigset_t signals_;
  Mutex mutex_;
  CondVar changed_;
  bool interrupted_ ATOLL_GUARDED_BY(mutex_) = false;
  CoordinatorApi* api_ ATOLL_GUARDED_BY(mutex_) = nullptr;
};

int Main(const std::vector<std::string>& arguments) {
  // The listening thread outlives main's return, so what it uses is never destroyed.
  static Interrupter& interrupter = *new Interrupter;
  StandardOutput buffer;
  std::ostream out(&buffer);
  std::cerr.tie(&out);  // talk comes behind the results before it
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
                             .running = [](CoordinatorApi* api) { interrupter.Watch(api); },
                             .new_request_id = NewRequestId,
                             .pause_before_retry = [](Duration length) { interrupter.Pause(length); }};
  const int code = RunApp(arguments, environment);
  std::cerr.tie(nullptr);
  return code;
}

}  // namespace
}  // namespace atl::cli

int main(int argc, char** argv) {
  atl::SilenceTransportLog();
  atl::KeepMemoryPrivate();
  mallopt(M_MMAP_THRESHOLD, 256 << 20);  // bulk buffers are reused instead of mapped anew
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::signal(SIGPIPE, SIG_IGN);  // a broken connection is an error of its call
  try {
    return atl::cli::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "atoll: internal error: %s; please report it\n", error.what());
    return atl::cli::kExitBug;
  }
}
