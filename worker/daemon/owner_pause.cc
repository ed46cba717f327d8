// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/owner_pause.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/base/advice.h"
#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/wall_time.h"
#include "common/trust/certificate.h"

namespace atl {
namespace {

constexpr size_t kLargestFile = 256;

std::string PauseFile(const std::string& cache_dir) { return JoinPath(cache_dir, "paused"); }
std::string MarkFile(const std::string& cache_dir) { return JoinPath(cache_dir, "running"); }

std::string UntilText(int64_t until_s) {
  return until_s == kUntilResumed ? std::string("it is resumed") : DateText(until_s);
}

// The descriptor that the program before exec left open on the file; -1 if there is none.
int Inherited(const std::string& file) {
  std::error_code error;
  const std::filesystem::path wanted = std::filesystem::canonical(file, error);
  if (error) return -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (std::filesystem::read_symlink(entry.path(), error) == wanted &&
        absl::SimpleAtoi(entry.path().filename().string(), &fd)) {
      return fd;
    }
  }
  return -1;
}

// Whether a worker runs with the cache. If the command has no name, sets it to the name of that
// worker. FailedPrecondition if another worker than the named one runs.
absl::StatusOr<bool> RunsHere(OwnerCommand& command) {
  const std::optional<std::string> running = RunningWorker(command.cache_dir);
  if (!running || running->empty() || *running == command.name) return running.has_value();
  if (command.named) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is the cache of worker '", *running, "', which is running; nothing was changed. Give --name ",
                     *running, ", or the --cache-dir that worker '", command.name, "' has"));
  }
  command.name = *running;
  return true;
}

// NotFound without the directory: with a mistyped path, the command would pause no worker.
absl::Status CheckCache(const Files& files, const std::string& cache_dir) {
  if (files.Exists(cache_dir)) return absl::OkStatus();
  return absl::NotFoundError(
      "the directory does not exist, so no worker has used it; give the --cache-dir or the --name with which the "
      "worker was started");
}

absl::Status Pause(OwnerCommand command, int64_t now_s, std::ostream& out) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  ATOLL_RETURN_IF_ERROR(CheckCache(*files, command.cache_dir));
  ATOLL_ASSIGN_OR_RETURN(const bool runs, RunsHere(command));
  const bool paused = PausedUntil(command.cache_dir, now_s).has_value();
  const int64_t until_s = command.length.ns == 0 ? kUntilResumed : now_s + command.length.ns / Seconds(1).ns;
  const std::string text = absl::StrCat(until_s, "\n");
  ATOLL_RETURN_IF_ERROR(WriteFileAtomically(*files, PauseFile(command.cache_dir), AsBytes(text)));
  out << "worker '" << command.name << "' "
      << (!runs    ? absl::StrCat("is not running; once it is started with --cache-dir ", ShellWord(command.cache_dir),
                                  ", it waits until ")
          : paused ? "stays away until "
                   : "finishes its step, sends its contributions, leaves and stays away until ")
      << UntilText(until_s) << "; end the pause with: atoll-worker resume --cache-dir " << ShellWord(command.cache_dir)
      << "\n";
  return absl::OkStatus();
}

absl::Status Resume(OwnerCommand command, int64_t now_s, std::ostream& out) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  ATOLL_RETURN_IF_ERROR(CheckCache(*files, command.cache_dir));
  ATOLL_ASSIGN_OR_RETURN(const bool runs, RunsHere(command));
  const std::string file = PauseFile(command.cache_dir);
  const bool paused = PausedUntil(command.cache_dir, now_s).has_value();
  if (files->Exists(file)) ATOLL_RETURN_IF_ERROR(files->Remove(file));
  out << "worker '" << command.name << "' "
      << (!paused ? absl::StrCat("was not paused by --cache-dir ", command.cache_dir, "\n")
          : runs  ? "joins again\n"
                  : "is no longer paused; it is not running\n");
  return absl::OkStatus();
}

}  // namespace

std::optional<int64_t> PausedUntil(const std::string& cache_dir, int64_t now_s) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  // Also false if the cache is unusable: CheckFolders reports that.
  if (!files->Exists(PauseFile(cache_dir))) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadWholeFile(*files, PauseFile(cache_dir), kLargestFile);
  int64_t until_s = 0;
  // An unreadable file still means that the owner wants a pause.
  if (!text.ok() || !absl::SimpleAtoi(std::string(absl::StripAsciiWhitespace(*text)), &until_s)) return kUntilResumed;
  if (until_s <= now_s) return std::nullopt;
  return until_s;
}

RunningMark::RunningMark(const std::string& cache_dir, const std::string& name) {
  // CheckFolders reports a folder that cannot be created.
  if (!MakePosixFiles()->MakeDirectory(cache_dir).ok()) return;
  // Stays open over exec, so that a program that restarts itself for a pause counts as running without a gap.
  fd_ = Inherited(MarkFile(cache_dir));
  if (fd_ < 0) fd_ = ::open(MarkFile(cache_dir).c_str(), O_RDWR | O_CREAT, 0644);
  if (fd_ < 0) return;
  (void)::flock(fd_, LOCK_SH | LOCK_NB);
  // A name that could not be written is not compared by `pause`.
  const std::string line = absl::StrCat(name, "\n");
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, line.data(), line.size(), 0) < 0) return;
}
RunningMark::~RunningMark() {
  if (fd_ >= 0) ::close(fd_);
}

bool RunningMark::is_alone() const {
  return fd_ < 0 || (::flock(fd_, LOCK_EX | LOCK_NB) == 0 && ::flock(fd_, LOCK_SH) == 0);
}

std::optional<std::string> RunningWorker(const std::string& cache_dir) {
  const int fd = ::open(MarkFile(cache_dir).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  if (!held) return std::nullopt;
  const absl::StatusOr<std::string> name = ReadWholeFile(*MakePosixFiles(), MarkFile(cache_dir), kLargestFile);
  return std::string(absl::StripAsciiWhitespace(name.ok() ? *name : ""));
}

absl::Status RunOwnerCommand(const OwnerCommand& command, const Clock& clock, std::ostream& out) {
  const int64_t now_s = WallSeconds(clock);
  const absl::Status done = command.resume ? Resume(command, now_s, out) : Pause(command, now_s, out);
  return Annotate(done, absl::StrCat("--cache-dir ", command.cache_dir));
}

bool WaitWhilePaused(const WorkerOptions& options, const Clock& clock, Log& log) {
  const sigset_t signals = StopSignals();
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  int64_t told_s = 0;
  for (;;) {
    const std::optional<int64_t> until_s = PausedUntil(options.cache_dir, WallSeconds(clock));
    if (!until_s) {
      if (told_s != 0) log.Info("pause ended", {{"name", options.name}});
      return true;
    }
    if (*until_s != told_s) log.Info("paused by its owner", {{"name", options.name}, {"until", UntilText(*until_s)}});
    told_s = *until_s;
    if (sigtimedwait(&signals, nullptr, &second) > 0) {
      log.Info("worker left", {{"why", "a signal during its pause"}});
      return false;
    }
  }
}

}  // namespace atl
