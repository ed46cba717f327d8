// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/opening_checks.h"

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atl {

namespace {

constexpr uint64_t kLeastLedgerBytes = 512;  // SQLite takes a shorter file for an empty database

}  // namespace

absl::Status CheckLedgerExists(const Files& files, const DataDirectory& directory) {
  const std::string ledger = directory.LedgerPath();
  const bool exists = files.Exists(ledger);
  if (exists) {
    ATOLL_ASSIGN_OR_RETURN(const auto file, files.OpenForRead(ledger));
    ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    if (size >= kLeastLedgerBytes) return absl::OkStatus();
  }
  std::vector<std::string> found;
  if (files.Exists(ledger + "-wal")) found.push_back("ledger.sqlite-wal");
  for (const char* name : {"jobs", "blobs", "events"}) {
    const auto names = files.List(JoinPath(directory.root(), name));
    if (names.ok() && !names->empty()) found.push_back(absl::StrCat(name, "/"));
  }
  if (found.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ledger, exists ? " has no content" : " is missing", ", but ", absl::StrJoin(found, ", "),
                   found.size() == 1 ? " exists" : " exist",
                   ". Without its ledger this state cannot be read, and under a new ledger its files would be deleted. "
                   "Put the ledger back, or restore a backup into another directory ('atoll-coordinator restore'); to "
                   "start from scratch name an empty --state-dir"));
}

absl::Status CheckWritable(const Files& files, const DataDirectory& directory, const Access& access) {
  const std::string ledger = directory.LedgerPath();
  std::vector<std::string> places = {ledger, ledger + "-wal", ledger + "-shm"};
  for (const char* name : {"jobs", "blobs", "events"}) places.push_back(JoinPath(directory.root(), name));
  for (const std::string& place : places) {
    if (!files.Exists(place) || access(place.c_str(), W_OK) == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("cannot write to ", place, " (", std::strerror(errno),
                                                      "); start as the user that owns ", directory.root(),
                                                      ", or give it back to that user (chown -R)"));
  }
  return absl::OkStatus();
}

absl::Status CheckJobFiles(const Files& files, const DataDirectory& directory, const RecoveredState& ledger, Log& log) {
  std::set<std::string> known;
  for (const RecoveredJob& job : ledger.jobs) {
    known.insert(job.job.job.value);
    const std::string place = directory.JobDirectory(job.job.job);
    if (HasEnded(job.job.state) && job.job.parameters_ready && !files.Exists(place))
      log.Warn("files of an ended job are missing",
               {{"job", job.job.job.value},
                {"directory", place},
                {"reason", "its checkpoints cannot be exported; a backup may contain them"}});
  }
  const std::string jobs = JoinPath(directory.root(), "jobs");
  if (!files.Exists(jobs)) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(jobs));
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    const auto has = [&](const char* part) { return files.Exists(JoinPath(JoinPath(jobs, name), part)); };
    if (!known.contains(name) && (has("checkpoints") || has("snapshots") || has("rounds"))) unknown.push_back(name);
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      jobs, " contains files of ", absl::StrJoin(unknown, ", "), ", but the ledger has no such ",
      unknown.size() == 1 ? "job" : "jobs", ": ", directory.LedgerPath(),
      " is older than these files, or that of another state directory, and a new job of that name would overwrite "
      "them. "
      "Put the right ledger back, or restore a backup into another directory ('atoll-coordinator restore'); to start "
      "without these files, move them out of ",
      jobs));
}

absl::Status CheckHardLinks(Files& files, const DataDirectory& directory) {
  const std::string link = JoinPath(directory.root(), "LOCK.link.tmp");
  ATOLL_RETURN_IF_ERROR(files.Remove(link));  // left by a start that was killed here
  const absl::Status linked = files.HardLink(directory.LockPath(), link);
  if (linked.ok()) return files.Remove(link);
  for (const int refusal : {EACCES, EROFS}) {
    if (!absl::EndsWith(linked.message(), std::strerror(refusal))) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write in ", directory.root(), " (", linked.message(),
                     "); start as the directory's owner, change its mode, or name another --state-dir"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the file system of ", directory.root(), " does not support hard links, which checkpoints need (",
                   linked.message(), "); name a --state-dir on another file system, such as ext4, XFS or Btrfs"));
}

absl::Status CheckDataRoot(const Files& files, const std::string& data_root) {
  if (data_root.empty()) return absl::OkStatus();
  if (!files.Exists(data_root)) {
    return absl::NotFoundError(
        absl::StrCat("--data-root ", data_root, " does not exist; create it, or omit the option"));
  }
  if (files.List(data_root).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--data-root ", data_root, " is not a readable directory; name one"));
}

}  // namespace atl
