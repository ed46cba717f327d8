// SPDX-License-Identifier: Apache-2.0
#include "common/base/process.h"

#include <errno.h>  // program_invocation_short_name
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <ostream>
#include <system_error>

#include "common/base/open_files.h"
#include "common/base/queued_writer.h"

namespace atl {
namespace {

// A line in a fixed buffer, because memory may be exhausted.
class LastLine {
 public:
  LastLine() { Add(program_invocation_short_name); }
  LastLine& Add(const char* text) {
    const size_t n = std::min(std::strlen(text), text_.size() - 2 - size_);
    std::memcpy(text_.data() + size_, text, n);
    size_ += n;
    return *this;
  }
  void Write() {
    text_[size_++] = '\n';
    WriteLastLine(text_.data());
  }

 private:
  std::array<char, 1024> text_{};
  size_t size_ = 0;
};

constexpr uint64_t kLeastOpenFiles = 64;  // gRPC aborts when it gets no descriptor for its own use
constexpr char kLookAt[] =
    "check ulimit -a, the limits of its cgroup and the other programs on this machine, then restart it";

std::atomic<size_t> heap_step{size_t{16} << 20};

// True when the system refuses the next request of malloc.
bool MemoryIsShort() {
  const size_t bytes = heap_step;
  void* there = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (there == MAP_FAILED) return true;
  ::munmap(there, bytes);
  return false;
}

bool FilesAreShort() {
  const int one_more = ::dup(STDERR_FILENO);
  if (one_more >= 0) ::close(one_more);
  return one_more < 0 && (errno == EMFILE || errno == ENFILE);
}

// Libraries abort, or continue and fault, when they get no memory or no descriptor.
void OnCrash(int signal) {
  if (FilesAreShort()) EndWithout("open files");
  if (MemoryIsShort()) EndWithout("memory");
  LastLine line;
  line.Add(": stopped by SIG").Add(sigabbrev_np(signal)).Add(" (").Add(sigdescr_np(signal)).Add("). ");
  // SIGBUS is how the kernel reports a failed read of a mapped file.
  if (signal == SIGBUS)
    line.Add("A file that this process maps was cut short, or its disk failed; see the kernel's log. ");
  if (signal == SIGILL) line.Add("This CPU may lack an instruction that the program or LibTorch was built with. ");
  line.Add(
          "If no line above gives a reason, the program has a bug or the system refused it memory: report this line, "
          "or ")
      .Add(kLookAt)
      .Write();
  ::raise(
      signal);  // is delivered when this handler returns, and ends the process even if another process sent the first
}

// Installs OnCrash, unless another handler exists, such as that of a sanitizer, with a more detailed report.
void HandleCrash(int signal) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = &OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const std::exception& error) {
    EndIfRefused();
    LastLine().Add(": uncaught error: ").Add(error.what()).Write();
  } catch (...) {
    LastLine().Add(": uncaught error").Write();
  }
  std::abort();
}

// Each open() below gets the lowest free number, which is `fd`.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) < 0) (void)::open("/", O_RDONLY | O_DIRECTORY);
  }
}

bool IsIgnored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// `program &` in a script starts it with SIGINT and SIGQUIT ignored; other parents may ignore any signal.
void ForgetIgnored() {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (signal != SIGHUP && IsIgnored(signal)) sigaction(signal, &usual, nullptr);
  }
}

}  // namespace

void StartBeforeLibraries() {
  OpenStandardStreams();
  ForgetIgnored();
  const sigset_t stops = StopSignals();
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);  // stop signals that arrive during the start stay pending
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS}) HandleCrash(signal);
}

void StartProcess() {
  StartBeforeLibraries();
  if (const uint64_t files = RaiseOpenFiles(); files != 0 && files < kLeastOpenFiles) EndWithout("64 open files");
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  const sigset_t blocked = StopSignals();
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);  // also unblocks signals that the parent had blocked
  std::set_terminate(&OnTerminate);
}

void BecomeService(std::ostream& error) {
  ::signal(SIGTTOU, SIG_IGN);
  ::signal(SIGTTIN, SIG_IGN);
  static QueuedBuffer buffer(StandardError());
  static std::ostream& stream = error;
  static std::streambuf* const direct = stream.rdbuf(&buffer);
  std::atexit([] {
    stream.rdbuf(direct);
    (void)StandardError().Flush();
  });
}

void UnblockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGXCPU}) sigaddset(&signals, signal);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

bool StopIsPending() {
  sigset_t pending;
  const sigset_t signals = StopSignals();
  sigset_t both;
  return sigpending(&pending) == 0 && sigandset(&both, &pending, &signals) == 0 && sigisemptyset(&both) == 0;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

void SetHeapStep(size_t bytes) {
  mallopt(M_TOP_PAD, static_cast<int>(bytes));
  heap_step = bytes + (size_t{1} << 20);
}

void EndWithout(const char* resource) {
  LastLine().Add(": the system refused this process ").Add(resource).Add("; ").Add(kLookAt).Write();
  ::_exit(kExitNoResources);
}

void EndIfRefused() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    EndWithout("memory");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) EndWithout("a thread");
  } catch (...) {
  }
}

void WriteLastLine(const char* text) {
  constexpr int kLookMs = 10, kLooks = 100;  // an active reader empties the queue within that second
  const QueuedWriter* queue = StandardErrorIfMade();
  for (int look = 0; queue != nullptr && queue->waiting() > 0 && look < kLooks; ++look) ::poll(nullptr, 0, kLookMs);
  pollfd wanted{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&wanted, 1, 0) == 1) (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace atl
