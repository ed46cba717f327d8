// SPDX-License-Identifier: Apache-2.0
// What signals, closed standard streams and refused resources do to a program of ours; docs/install.md, "Signals and
// standard streams", has the table.
#ifndef ATOLL_COMMON_BASE_PROCESS_H_
#define ATOLL_COMMON_BASE_PROCESS_H_

#include <signal.h>

#include <cstddef>
#include <iosfwd>
#include <string>

namespace atl {

// Exit code of every program to which the system refuses a thread, memory or open files. Published; never renumber.
inline constexpr int kExitNoResources = 71;

// Before the constructors of libraries (program_symbols.cc), and once more by StartProcess:
// - descriptors 0 to 2 that are closed are opened on /dev/null, so that no file of ours takes their place. They are
//   opened the wrong way round: reading and writing still fails, as on a closed descriptor.
// - SIGABRT and SIGSEGV write a line to standard error before they end the process. Where the cause is a refused
//   resource it ends with kExitNoResources. A handler that is there stays, as a sanitizer's.
void StartBeforeLibraries();

// First in main, while there is one thread:
// - StartBeforeLibraries. Uncaught exceptions do as SIGABRT does.
// - The limit of open files is raised to the hard one, since a coordinator holds one for each fragment whose round is
//   open. Where that is too low for any program of ours the process ends with kExitNoResources.
// - SIGPIPE and SIGXFSZ are ignored: both are errors of the call. So are SIGUSR1 and SIGUSR2, which mean nothing here.
//   SIGCHLD is not ignored, whatever the parent does: children are waited for.
// - StopSignals() are blocked in every thread.
void StartProcess();

// For a process that runs until it is stopped: `error`, which is std::cerr, goes through StandardError()
// (queued_writer.h), which is flushed at exit for a bounded time. A terminal does not stop the process when it runs in
// the background.
void BecomeService(std::ostream& error);
// For a command that ends by itself: a stop signal ends it at once.
void UnblockStopSignals();

// SIGTERM, SIGINT, SIGXCPU, and SIGHUP unless it was ignored when the process started (nohup). For sigwait.
sigset_t StopSignals();
// Whether a StopSignal is waiting.
bool StopIsPending();
// Whether one that comes after another means more haste. SIGHUP comes twice when a terminal closes (from the shell and
// from the kernel), and SIGXCPU comes every second.
inline bool MeansHaste(int signal) { return signal == SIGTERM || signal == SIGINT; }
// "SIGTERM".
std::string SignalName(int signal);

// malloc takes memory from the system in steps of that size; where one is refused, memory is.
void SetHeapStep(size_t bytes);

// Ends the process with kExitNoResources and a line that says which resource was refused: "a thread", "memory".
[[noreturn]] void EndWithout(const char* resource);
// In a catch block: EndWithout where the exception says that a resource was refused.
void EndIfRefused();

// For the last line of a process: writes it to standard error after the queued lines, unless its reader is stalled.
// Takes no lock and no memory.
void WriteLastLine(const char* text);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PROCESS_H_
