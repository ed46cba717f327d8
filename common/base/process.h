// SPDX-License-Identifier: Apache-2.0
// How programs handle signals, closed standard streams and refused resources. The table is in
// docs/formats/exit-codes.md, "Signals and standard streams".
#ifndef ATOLL_COMMON_BASE_PROCESS_H_
#define ATOLL_COMMON_BASE_PROCESS_H_

#include <signal.h>

#include <cstddef>
#include <iosfwd>
#include <string>

namespace atl {

// Exit code of every program when the system refuses a thread, memory or open files. Published;
// never renumber.
inline constexpr int kExitNoResources = 71;

// Runs before the constructors of libraries (program_symbols.cc), and again in StartProcess:
// - Opens closed descriptors 0 to 2 on /dev/null, so that no other file takes their place. They are
//   opened in the wrong direction: reading or writing still fails, as on a closed descriptor.
// - Restores the default action of signals that the parent ignored, except SIGHUP (nohup). Blocks the stop signals.
// - SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGSYS write a line to standard error before they
//   end the process. If the cause is a refused resource, the process ends with kExitNoResources.
//   Existing handlers, such as a sanitizer's, stay.
void StartBeforeLibraries();

// Call first in main, while the process has one thread:
// - Calls StartBeforeLibraries. An uncaught exception writes a line with its message, and then acts like SIGABRT.
// - Raises the limit of open files to the hard limit, because a coordinator holds one file for each
//   fragment with an open round. If the limit is too low for any program, the process ends with
//   kExitNoResources.
// - Ignores SIGPIPE and SIGXFSZ, because the failed write also returns an error, and SIGUSR1 and
//   SIGUSR2, which have no meaning here.
// - Blocks StopSignals() in every thread, and no other signal, whatever the parent of this process
//   had blocked.
void StartProcess();

// For a process that runs until it is stopped. `error`, which is std::cerr, is written through StandardError()
// (queued_writer.h) and flushed at exit for a bounded time. Ignores SIGTTOU and SIGTTIN, by which a terminal would
// suspend a background process.
void BecomeService(std::ostream& error);
// For a command that ends by itself: a stop signal ends the command at once.
void UnblockStopSignals();

// SIGTERM, SIGINT, SIGXCPU, and SIGHUP unless it was ignored when the process started (nohup). For sigwait.
sigset_t StopSignals();
// True when one of StopSignals() has arrived and is still blocked.
bool StopIsPending();
// True when this signal, after an earlier stop signal, asks for a faster stop. False for SIGHUP, which arrives
// twice when a terminal closes (from the shell and from the kernel), and SIGXCPU, which arrives every second.
inline bool MeansHaste(int signal) { return signal == SIGTERM || signal == SIGINT; }
// "SIGTERM".
std::string SignalName(int signal);

// Makes malloc request memory from the system in steps of this size. A crash handler that cannot get one
// more step reports exhausted memory as the cause.
void SetHeapStep(size_t bytes);

// Ends the process with kExitNoResources and a line with the refused resource, for example
// "a thread", "memory" or "open files".
[[noreturn]] void EndWithout(const char* resource);
// For a catch block: calls EndWithout if the exception reports that memory or a thread was refused.
void EndIfRefused();

// Waits up to 1 s until the queued lines are written, then writes the last line of a process to standard
// error, unless the reader is stalled. Takes no lock and allocates no memory.
void WriteLastLine(const char* text);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PROCESS_H_
