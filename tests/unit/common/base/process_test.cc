// SPDX-License-Identifier: Apache-2.0
#include "common/base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/queued_writer.h"

namespace atl {
namespace {

TEST(ProcessDeathTest, AnAbortIsReportedAndStaysOne) {
  EXPECT_EXIT(
      {
        StartProcess();
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^base_test: stopped by SIGABRT \\(Aborted\\)");
  EXPECT_EXIT(
      {
        StartProcess();
        ::kill(::getpid(), SIGABRT);
        std::exit(0);
      },
      testing::KilledBySignal(SIGABRT), "^base_test: stopped by SIGABRT \\(Aborted\\)")
      << "sent from outside";
}

#ifndef ATOLL_SANITIZED  // a sanitizer handles the signal and the memory itself
void BoundMemory() {
  const rlimit none{1, RLIM_INFINITY};
  (void)::setrlimit(RLIMIT_AS, &none);
}

TEST(ProcessDeathTest, ACrashIsReportedAndStaysOne) {
  const std::pair<int, const char*> lines[] = {{SIGSEGV, "SIGSEGV \\(Segmentation fault\\)"},
                                               {SIGBUS, "SIGBUS \\(Bus error\\). A file that this process maps"},
                                               {SIGFPE, "SIGFPE \\(Floating point exception\\)"},
                                               {SIGILL, "SIGILL \\(Illegal instruction\\). This CPU may lack"},
                                               {SIGSYS, "SIGSYS \\(Bad system call\\)"}};
  for (const auto& [signal, line] : lines) {
    EXPECT_EXIT(
        {
          StartProcess();
          ::kill(::getpid(), signal);
          std::exit(0);
        },
        testing::KilledBySignal(signal), absl::StrCat("^base_test: stopped by ", line));
  }
}

TEST(ProcessDeathTest, AnAbortWithoutMemoryIsARefusedResource) {
  EXPECT_EXIT(
      {
        StartProcess();
        BoundMemory();
        std::abort();
      },
      testing::ExitedWithCode(kExitNoResources), "^base_test: the system refused this process memory; check ulimit -a");
}
#endif

TEST(ProcessDeathTest, AnAbortWithoutDescriptorsIsARefusedResource) {
  EXPECT_EXIT(
      {
        StartProcess();
        rlimit few{};
        few.rlim_cur = few.rlim_max = 3;
        (void)::setrlimit(RLIMIT_NOFILE, &few);
        while (::dup(STDERR_FILENO) >= 0) {
        }
        std::abort();
      },
      testing::ExitedWithCode(kExitNoResources), "^base_test: the system refused this process open files");
}

TEST(ProcessDeathTest, UncaughtExceptionNamesTheResource) {
  EXPECT_EXIT(
      {
        StartProcess();
        [&]() noexcept { std::__throw_bad_alloc(); }();
      },
      testing::ExitedWithCode(kExitNoResources), "^base_test: the system refused this process memory");
  EXPECT_EXIT(
      {
        StartProcess();
        [&]() noexcept { std::__throw_system_error(EAGAIN); }();
      },
      testing::ExitedWithCode(kExitNoResources), "^base_test: the system refused this process a thread");
  EXPECT_EXIT(
      {
        StartProcess();
        [&]() noexcept { std::__throw_logic_error("a mistake"); }();
      },
      testing::KilledBySignal(SIGABRT), "^base_test: uncaught error: a mistake\nbase_test: stopped by SIGABRT");
}

void IgnoreAndBlockEverySignal() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::signal(signal, SIG_IGN);
}

// The first signal that is not handled as in docs/formats/exit-codes.md; 0: none.
int FirstUnlikeTheTable() {
  const std::set<int> ignored = {SIGHUP, SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2};
  const std::set<int> reported = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
  const std::set<int> stops = {SIGTERM, SIGINT, SIGXCPU};
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0) continue;  // the C library's own
    const bool fits = ignored.contains(signal)    ? now.sa_handler == SIG_IGN
                      : reported.contains(signal) ? now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL
                                                  : now.sa_handler == SIG_DFL;
    if (!fits || (sigismember(&blocked, signal) == 1) != stops.contains(signal)) return signal;
  }
  return 0;
}

// nohup ignores SIGHUP, and a script's `&` SIGINT and SIGQUIT.
TEST(ProcessDeathTest, OnlyAnIgnoredSighupIsInherited) {
  EXPECT_EXIT(
      {
        IgnoreAndBlockEverySignal();
        StartProcess();
        std::exit(FirstUnlikeTheTable());
      },
      testing::ExitedWithCode(0), "")
      << "the exit code is the signal's number";
  for (const int signal : {SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGRTMIN}) {
    EXPECT_EXIT(
        {
          IgnoreAndBlockEverySignal();
          StartProcess();
          UnblockStopSignals();
          ::raise(signal);
          std::exit(0);
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST(ProcessDeathTest, ClosedStandardStreamsAreOpenedAndStayUseless) {
  EXPECT_EXIT(
      {
        ::close(STDIN_FILENO);
        ::close(STDOUT_FILENO);
        StartProcess();
        const int next = ::open("/dev/null", O_RDONLY);
        char byte = 0;
        const bool useless =
            ::write(STDOUT_FILENO, &byte, 1) == -1 && errno == EBADF && ::read(STDIN_FILENO, &byte, 1) == -1;
        std::exit(next > STDERR_FILENO && useless ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// True if the process waits for the signal and is not ended by it, after a start with that
// disposition of SIGHUP.
bool StopsInOrder(int signal, void (*hangup)(int)) {
  std::signal(SIGHUP, hangup);
  StartProcess();
  std::raise(signal);
  return StopIsPending();
}

TEST(ProcessDeathTest, StopSignalsWaitForSigwait) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGXCPU}) {
    EXPECT_EXIT(std::exit(StopsInOrder(signal, SIG_DFL) ? 0 : 1), testing::ExitedWithCode(0), "") << SignalName(signal);
  }
  EXPECT_EXIT(std::exit(StopsInOrder(SIGHUP, SIG_IGN) ? 1 : 0), testing::ExitedWithCode(0), "") << "nohup";
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2}) {
    EXPECT_EXIT(std::exit(StopsInOrder(signal, SIG_DFL) ? 1 : 0), testing::ExitedWithCode(0), "") << SignalName(signal);
  }
}

TEST(ProcessDeathTest, ACommandIsEndedByAStopSignal) {
  EXPECT_EXIT(
      {
        StartProcess();
        UnblockStopSignals();
        std::raise(SIGHUP);
        std::exit(0);
      },
      testing::KilledBySignal(SIGHUP), "");
}

TEST(ProcessDeathTest, SignalsBlockedByTheParentArrive) {
  EXPECT_EXIT(
      {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        StartProcess();
        std::raise(SIGQUIT);
        std::exit(0);
      },
      testing::KilledBySignal(SIGQUIT), "");
}

TEST(Process, NamesSignals) {
  EXPECT_EQ(SignalName(SIGHUP), "SIGHUP");
  EXPECT_EQ(SignalName(0), "signal 0");
  EXPECT_TRUE(MeansHaste(SIGTERM) && MeansHaste(SIGINT));
  EXPECT_FALSE(MeansHaste(SIGHUP) || MeansHaste(SIGXCPU) || MeansHaste(-1));
}

}  // namespace
}  // namespace atl
