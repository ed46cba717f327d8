// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/descriptor.h"
#include "coordinator/store/reading_lock.h"

namespace atl {
namespace {

constexpr uint32_t kHysteresisPercent = 2;

class FlockedFile final : public DirectoryLock {
 public:
  explicit FlockedFile(Descriptor file) : file_(std::move(file)) {}  // closing the file releases the lock
  int fd() const { return file_.get(); }

 private:
  const Descriptor file_;
};

// Never waits: a named pipe opens with O_NONBLOCK. FailedPrecondition: a pipe, or another kind that
// is no regular file. NotFound: missing. PermissionDenied: any other reason.
absl::StatusOr<Descriptor> OpenLock(const std::string& path, int flags) {
  Descriptor lock(::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644));
  const int number = errno;
  struct stat facts {};
  if ((lock.open() ? ::fstat(lock.get(), &facts) : ::stat(path.c_str(), &facts)) == 0 && !S_ISREG(facts.st_mode))
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no regular file; remove it; the coordinator makes a new one"));
  if (lock.open()) return lock;
  const std::string text = absl::StrCat("open ", path, ": ", std::strerror(number));
  return number == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
}

std::string ReadHolder(int fd) {
  char text[32] = {};
  const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "unknown";
}

}  // namespace

std::string DataDirectory::LockPath() const { return JoinPath(root_, "LOCK"); }
std::string DataDirectory::LedgerPath() const { return JoinPath(root_, "ledger.sqlite"); }
std::string DataDirectory::EventsDirectory() const { return JoinPath(root_, "events"); }
std::string DataDirectory::BlobPath(const Sha256& sha256) const {
  const std::string hex = sha256.Hex();
  return absl::StrCat(root_, "/blobs/", hex.substr(0, 2), "/", hex);
}
std::string DataDirectory::BlobPartPath(const Sha256& sha256) const { return BlobPath(sha256) + ".part"; }
std::string DataDirectory::JobDirectory(const JobId& job) const { return absl::StrCat(root_, "/jobs/", job.value); }
std::string DataDirectory::RoundsDirectory(const JobId& job) const { return JobDirectory(job) + "/rounds"; }
std::string DataDirectory::SnapshotsDirectory(const JobId& job) const { return JobDirectory(job) + "/snapshots"; }

std::string DataDirectory::SegmentDirectory(const JobId& job, uint64_t epoch, FragmentIndex fragment) const {
  return absl::StrFormat("%s/e%010d/f%05d", RoundsDirectory(job), epoch, fragment.value);
}
std::string DataDirectory::SegmentPath(const RoundKey& key) const {
  return absl::StrFormat("%s/v%010d.seg", SegmentDirectory(key.job, key.epoch, key.target.fragment),
                         key.target.version.value);
}
std::string DataDirectory::KeptUpdatesDirectory(const JobId& job) const { return JobDirectory(job) + "/updates"; }
std::string DataDirectory::KeptUpdatePath(const RoundKey& key) const {
  return absl::StrFormat("%s/e%010d/f%05d/v%010d.upd", KeptUpdatesDirectory(key.job), key.epoch,
                         key.target.fragment.value, key.target.version.value);
}
std::string DataDirectory::SnapshotDirectory(const JobId& job, uint64_t epoch, FragmentIndex fragment) const {
  return absl::StrFormat("%s/e%010d/f%05d", SnapshotsDirectory(job), epoch, fragment.value);
}
std::string DataDirectory::SnapshotPath(const SnapshotKey& key) const {
  return absl::StrFormat("%s/v%010d.snap", SnapshotDirectory(key.job, key.epoch, key.at.fragment),
                         key.at.version.value);
}
std::string DataDirectory::CheckpointsDirectory(const JobId& job) const { return JobDirectory(job) + "/checkpoints"; }
std::string DataDirectory::CheckpointDirectory(const JobId& job, uint64_t step) const {
  return absl::StrFormat("%s/%010d", CheckpointsDirectory(job), step);
}
std::string DataDirectory::CheckpointFragmentPath(const JobId& job, uint64_t step, FragmentIndex fragment) const {
  return absl::StrFormat("%s/f%05d.snap", CheckpointDirectory(job, step), fragment.value);
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const DataDirectory& directory) {
  ATOLL_RETURN_IF_ERROR(MakeDurableRoot(*MakePosixFiles(), directory.root()));
  ATOLL_ASSIGN_OR_RETURN(Descriptor file, OpenLock(directory.LockPath(), O_RDWR | O_CREAT));
  auto lock = std::make_unique<FlockedFile>(std::move(file));
  const int fd = lock->fd();
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return absl::InternalError(absl::StrCat("lock ", directory.LockPath(), ": ", std::strerror(errno)));
    // Only readers hold the lock: the process id in LOCK is that of an earlier coordinator.
    if (::flock(fd, LOCK_SH | LOCK_NB) == 0)
      return absl::UnavailableError(
          absl::StrCat("the state directory ", directory.root(),
                       " is being read by 'atoll-coordinator verify', 'replay' or 'restore'; wait until it ends"));
    return absl::UnavailableError(absl::StrCat("the state directory ", directory.root(), " is in use by process ",
                                               ReadHolder(fd),
                                               "; stop that coordinator first, or give this one another --state-dir"));
  }
  const std::string holder = absl::StrCat(::getpid());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, holder.data(), holder.size(), 0) < 0) {
    return absl::InternalError(absl::StrCat("write ", directory.LockPath(), ": ", std::strerror(errno)));
  }
  return lock;
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> LockForReading(const DataDirectory& directory) {
  absl::StatusOr<Descriptor> file = OpenLock(directory.LockPath(), O_RDONLY);
  if (absl::IsNotFound(file.status())) return std::make_unique<DirectoryLock>();
  if (absl::IsPermissionDenied(file.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(directory.LockPath(), " cannot be opened; run this as the coordinator's user"));
  }
  ATOLL_RETURN_IF_ERROR(file.status());
  auto lock = std::make_unique<FlockedFile>(*std::move(file));
  if (::flock(lock->fd(), LOCK_SH | LOCK_NB) == 0) return lock;
  return absl::FailedPreconditionError(
      absl::StrCat("the state directory ", directory.root(), " is in use by process ", ReadHolder(lock->fd()),
                   "; stop that coordinator first, or name a backup of it, which may be taken while it runs"));
}

absl::Status MakeDurableRoot(Files& files, const std::string& root) {
  const std::string above = DirectoryOf(root);
  const bool was_there = files.Exists(root);
  const absl::Status way = was_there || above == root ? absl::OkStatus() : MakeDurableRoot(files, above);
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(root));  // if both fail, this error has the reason
  ATOLL_RETURN_IF_ERROR(way);
  const absl::Status synced = files.SyncDirectory(above);
  return was_there && absl::IsFailedPrecondition(synced) ? absl::OkStatus() : synced;
}

absl::Status MakeDurableDirectory(Files& files, const std::string& root, const std::string& path) {
  if (files.Exists(path)) return absl::OkStatus();
  ATOLL_RETURN_IF_ERROR(files.MakeDirectory(path));
  absl::Status synced;
  for (std::string at = path; synced.ok() && at.size() > root.size(); at = DirectoryOf(at))
    synced = files.SyncDirectory(at);
  if (synced.ok()) synced = files.SyncDirectory(root);
  if (!synced.ok()) (void)files.Remove(path);  // otherwise the next attempt would consider it durable
  return synced;
}

namespace {

// Flushes `path` and its subdirectories down to `levels` levels. A path that cannot be listed counts as a
// file and is skipped.
absl::Status SyncLevels(Files& files, const std::string& path, int levels) {
  const auto names = files.List(path);
  if (!names.ok() || (names->empty() && !files.Exists(path))) return absl::OkStatus();
  ATOLL_RETURN_IF_ERROR(files.SyncDirectory(path));
  if (levels == 0) return absl::OkStatus();
  for (const std::string& name : *names) ATOLL_RETURN_IF_ERROR(SyncLevels(files, JoinPath(path, name), levels - 1));
  return absl::OkStatus();
}

}  // namespace

absl::Status SyncNames(Files& files, const DataDirectory& directory) {
  ATOLL_RETURN_IF_ERROR(SyncLevels(files, JoinPath(directory.root(), "jobs"), 4));  // JOB, rounds, epoch, fragment
  ATOLL_RETURN_IF_ERROR(SyncLevels(files, JoinPath(directory.root(), "blobs"), 1));
  return files.SyncDirectory(directory.root());
}

DiskState JudgeDiskSpace(const Files::Space& space, DiskState before, uint32_t minimum_free_percent) {
  if (space.total_bytes == 0) return DiskState::kOk;
  const uint32_t wanted = minimum_free_percent + (before == DiskState::kLow ? kHysteresisPercent : 0);
  const bool low = space.free_bytes / 100 < space.total_bytes / 10000 * wanted;
  return low ? DiskState::kLow : DiskState::kOk;
}

}  // namespace atl
