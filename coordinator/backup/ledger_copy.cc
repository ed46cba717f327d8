// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/ledger_copy.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/wal.h"
#include "coordinator/backup/copy.h"

namespace atl::backup {
namespace {

constexpr char kLedger[] = "ledger.sqlite", kLog[] = "ledger.sqlite-wal";
// SQLite restarts the log after about a thousand pages of commits; copying the database takes a
// fraction of that time.
constexpr int kTries = 20;

std::string Stamp(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return "gone";
  return absl::StrCat(s.st_ino, " ", s.st_size, " ", s.st_mtim.tv_sec, ".", s.st_mtim.tv_nsec);
}

}  // namespace

LedgerCopy::LedgerCopy(Files& files, const std::string& source, const std::string& target)
    : files_(files), source_(source), target_(target) {}

absl::StatusOr<LedgerCopy::Mark> LedgerCopy::Look() {
  const auto log = files_.OpenForRead(JoinPath(source_, kLog));
  if (log.ok()) {
    ATOLL_RETURN_IF_ERROR(log_.Extend(**log));
  } else {
    if (!absl::IsNotFound(log.status())) return log.status();
    log_.Clear();
  }
  Mark mark{.generation = log_.generation(), .database = {}, .log_bytes = log_.bytes().size()};
  if (mark.generation.empty()) mark.database = Stamp(JoinPath(source_, kLedger));
  return mark;
}

bool LedgerCopy::GoesWithCopy(const Mark& mark) const {
  return copied_ && copied_->generation == mark.generation && copied_->database == mark.database;
}

absl::Status LedgerCopy::CopyDatabase() {
  for (int i = 0; i < kTries; ++i) {
    ATOLL_ASSIGN_OR_RETURN(Mark before, Look());
    if (GoesWithCopy(before)) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> database, files_.OpenForRead(JoinPath(source_, kLedger)));
    ATOLL_ASSIGN_OR_RETURN(bytes_, database->Size());
    ATOLL_ASSIGN_OR_RETURN(hash_, CopyBytes(files_, *database, bytes_, JoinPath(target_, kLedger)));
    copied_ = std::move(before);
  }
  return absl::UnavailableError(absl::StrCat("the ledger of ", source_, " changes faster than it can be copied to ",
                                             target_, "; try again, or name a faster disk"));
}

absl::StatusOr<bool> LedgerCopy::GoOn() {
  ATOLL_ASSIGN_OR_RETURN(cut_, Look());
  return GoesWithCopy(cut_);
}

absl::StatusOr<bool> LedgerCopy::StandsStill() {
  ATOLL_ASSIGN_OR_RETURN(const Mark now, Look());
  return now == cut_;
}

absl::Status LedgerCopy::Finish(Manifest& manifest) {
  manifest.files[kLedger] = hash_;
  manifest.bytes += bytes_;
  ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(target_, kLog)));
  if (cut_.log_bytes > 0) {
    const std::string bytes = log_.bytes().substr(0, cut_.log_bytes);
    ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files_.OpenForAppend(JoinPath(target_, kLog)));
    ATOLL_RETURN_IF_ERROR(copy->Append(AsBytes(bytes)));
    ATOLL_RETURN_IF_ERROR(copy->Sync());
    manifest.files[kLog] = Sha256Of(AsBytes(bytes));
    manifest.bytes += bytes.size();
  }
  // Frames after the last commit may be damaged. A frame that was read while being written is whole
  // at the second read.
  const auto log = files_.OpenForRead(JoinPath(source_, kLog));
  if (!log.ok()) return absl::IsNotFound(log.status()) ? absl::OkStatus() : log.status();
  ATOLL_ASSIGN_OR_RETURN(const audit::WalCheck check, audit::CheckWal(**log));
  if (!check.broken) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const Mark now, Look());
  if (now.generation != cut_.generation || now.log_bytes > *check.broken) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(JoinPath(source_, kLog), " is damaged at offset ", *check.broken,
                                          ", and whole commits follow; see 'atoll-coordinator verify'"));
}

}  // namespace atl::backup
