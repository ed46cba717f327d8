#include "coordinator/audit/audit_command.h"

#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/replay.h"
#include "coordinator/audit/state_paths.h"
#include "coordinator/audit/verify.h"

namespace atl::audit {
namespace {

// A shared lock of LOCK: refused while a coordinator holds it, and keeps one from starting.
class SharedLock {
 public:
  static absl::StatusOr<SharedLock> Take(const std::string& root) {
    const std::string path = JoinPath(root, "LOCK");
    SharedLock lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (lock.fd_ < 0 && errno == ENOENT) return lock;  // a copy without it
    if (lock.fd_ < 0)
      return absl::PermissionDeniedError(absl::StrCat(path, " cannot be opened; run this as the coordinator's user"));
    if (::flock(lock.fd_, LOCK_SH | LOCK_NB) == 0) return lock;
    char holder[32] = {};
    const ssize_t bytes = ::pread(lock.fd_, holder, sizeof holder - 1, 0);
    return absl::FailedPreconditionError(
        absl::StrCat("the state directory ", root, " is in use by process ", bytes > 0 ? holder : "unknown",
                     "; stop that coordinator first, or name a copy that was made while it did not run"));
  }
  explicit SharedLock(int fd) : fd_(fd) {}
  SharedLock(SharedLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SharedLock& operator=(SharedLock&&) = delete;
  ~SharedLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

absl::Status Audit(const AuditOptions& options, Report& report) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  const std::string ledger = LedgerPath(options.state_dir);
  ATOLL_ASSIGN_OR_RETURN(const SharedLock lock, SharedLock::Take(options.state_dir));
  if (!files->Exists(ledger)) {
    return absl::NotFoundError(absl::StrCat("there is no ", ledger, ": ", options.state_dir,
                                            " is no state directory, or its ledger is lost; ", kRestoreState));
  }
  const Place place{*files, options.state_dir, ledger, *files};
  return options.replay ? ReplayState(place, report) : VerifyState(place, report);
}

}  // namespace

int RunAudit(const AuditOptions& options, std::ostream& out, std::ostream& err) {
  google::protobuf::SetLogHandler(nullptr);  // what cannot be read is a finding, not a line of a library
  const char* const name = options.replay ? "replay" : "verify";
  Report report(name, options.state_dir);
  if (const absl::Status made = Audit(options, report); !made.ok()) {
    err << "atoll-coordinator " << name << ": " << made.message() << "\n";
    return kExitNoAudit;
  }
  out << (options.json ? report.Json() : report.Text());
  return report.ok() ? kExitWell : kExitDamage;
}

}  // namespace atl::audit
