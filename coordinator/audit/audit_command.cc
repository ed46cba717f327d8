// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/audit_command.h"

#include <filesystem>
#include <ostream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/advice.h"
#include "coordinator/audit/replay.h"
#include "coordinator/audit/state_paths.h"
#include "coordinator/audit/verify.h"
#include "coordinator/store/reading_lock.h"

namespace atl::audit {
namespace {

absl::Status Audit(const AuditOptions& options, Report& report) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  using Type = std::filesystem::file_type;
  std::error_code error;
  const Type type = std::filesystem::status(options.state_dir, error).type();
  if (type != Type::directory && type != Type::none && type != Type::unknown) {  // an unreadable one may be a directory
    return absl::NotFoundError(
        absl::StrCat("there is no directory ", options.state_dir, "; name a coordinator's --state-dir, or a backup"));
  }
  ATOLL_RETURN_IF_ERROR(CheckIsFinished(*files, options.state_dir));
  const std::string ledger = DataDirectory(options.state_dir).LedgerPath();
  ATOLL_ASSIGN_OR_RETURN(const auto lock, LockForReading(DataDirectory(options.state_dir)));
  if (!files->Exists(ledger)) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", ledger, ": ", options.state_dir,
                     " is no state directory, or its ledger is lost; name a coordinator's --state-dir or a backup, or ",
                     kRestoreState));
  }
  const Place place{*files, options.state_dir, ledger, *files};
  return options.replay ? ReplayState(place, report) : VerifyState(place, report);
}

}  // namespace

int RunAudit(const AuditOptions& options, std::ostream& out, std::ostream& err) {
  const char* const name = options.replay ? "replay" : "verify";
  Report report(name, options.state_dir);
  if (const absl::Status made = Audit(options, report); !made.ok()) {
    err << "atoll-coordinator " << name << ": " << WithAdvice(made.message()) << "\n";
    return kExitNoAudit;
  }
  out << (options.json ? report.Json() : report.Text());
  return report.ok() ? kExitWell : kExitDamage;
}

}  // namespace atl::audit
