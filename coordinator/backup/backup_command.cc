// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/backup_command.h"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/advice.h"
#include "common/base/files.h"
#include "common/base/open_files.h"
#include "common/trust/certificate.h"
#include "coordinator/audit/state_paths.h"
#include "coordinator/audit/verify.h"
#include "coordinator/backup/copy.h"
#include "coordinator/backup/cut.h"
#include "coordinator/backup/manifest.h"
#include "coordinator/backup/room.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/reading_lock.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl::backup {
namespace {

constexpr int kCuts = 3;  // more restarts of the coordinator during a backup point to another problem

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The number of files that a cut may hold open. Raises the limit, because a state may have many, and leaves 64.
size_t FilesToHold() {
  constexpr uint64_t kOthers = 64;
  const uint64_t all = RaiseOpenFiles();
  return all - std::min(all, kOthers);
}

class Copying {
 public:
  Copying(const BackupOptions& options, Files& files)
      : options_(options),
        files_(files),
        source_(WithoutSlash(options.restore ? options.backup : options.state_dir)),
        target_(WithoutSlash(options.restore ? options.state_dir : options.backup)),
        partial_(target_ + ".partial"),
        report_("verify", partial_) {}

  // False if the copied state is damaged and was removed. report() has the findings, also those of a kept copy.
  absl::StatusOr<bool> Run() {
    ATOLL_RETURN_IF_ERROR(CheckSource());
    ATOLL_RETURN_IF_ERROR(CheckTarget());
    return options_.restore ? Restore() : BackUp();
  }

  const audit::Report& report() const { return report_; }
  std::string Done() const {
    return absl::StrCat(options_.restore ? "restored " : "backed up ", source_, " to ", target_, ": ", copied_,
                        " files, ", bytes_, " bytes, ", report_.ok() ? "verified" : "with the damage reported above",
                        " and flushed\n", options_.restore ? UndoneSince() : "");
  }
  std::string WayOn() const {
    return files_.Exists(partial_)
               ? absl::StrCat("; the same command resumes with ", partial_, ", or remove that directory")
               : "";
  }
  const std::string& source() const { return source_; }

 private:
  // A line for people after a restore: the time of the state, and the steps to repeat. The audit log of the lost
  // directory, which may still be readable, names them.
  std::string UndoneSince() const {
    return absl::StrCat("this is the state of ", DateText(made_s_),
                        ": revocations, evictions, quarantines, cordons and uses of join tokens since then are lost; "
                        "look into events/audit of the lost directory, and revoke and evict again\n");
  }

  absl::Status CheckSource() const {
    ATOLL_RETURN_IF_ERROR(audit::CheckIsFinished(files_, source_));
    if (options_.restore && !files_.Exists(JoinPath(source_, kManifestName))) {
      return absl::NotFoundError(absl::StrCat(source_, " is not a backup: it has no file ", kManifestName,
                                              "; name a directory written by 'atoll-coordinator backup'"));
    }
    if (files_.Exists(DataDirectory(source_).LedgerPath())) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(
        "missing ", DataDirectory(source_).LedgerPath(), ": ", source_, " is not a ",
        options_.restore ? "complete backup; use another one" : "state directory; name a coordinator's --state-dir"));
  }

  absl::Status CheckTarget() const {
    std::error_code error;
    const bool free = !std::filesystem::exists(target_, error) ||
                      (std::filesystem::is_directory(target_, error) && std::filesystem::is_empty(target_, error));
    if (!free || error) {
      return absl::AlreadyExistsError(
          absl::StrCat(target_, " already exists and is never overwritten; name a directory that does not exist"));
    }
    ATOLL_RETURN_IF_ERROR(CheckIsReplaceable(target_));
    const std::string parent = DirectoryOf(target_);
    if (!std::filesystem::is_directory(parent, error))
      return absl::NotFoundError(
          absl::StrCat("cannot create ", target_, ": the directory ", parent, " does not exist; create it first"));
    const std::string outer = std::filesystem::weakly_canonical(source_, error).string() + "/";
    const std::string inner = std::filesystem::weakly_canonical(target_, error).string() + "/";
    if (!inner.starts_with(outer)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(target_, " is inside ", source_, ", the source of the copy; name a directory outside of it"));
  }

  absl::StatusOr<Manifest> ReadManifest(const std::string& path) const {
    ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files_, path, kManifestLimitBytes));
    return ParseManifest(text);
  }

  absl::StatusOr<bool> Restore() {
    ATOLL_ASSIGN_OR_RETURN(const auto source_lock, LockForReading(DataDirectory(source_)));
    auto manifest = ReadManifest(JoinPath(source_, kManifestName));
    if (!manifest.ok()) return Annotate(manifest.status(), absl::StrCat("backup ", source_));
    ATOLL_ASSIGN_OR_RETURN(const Room room, Room::Find(files_, source_, DirectoryOf(target_)));
    if (!files_.Exists(partial_)) ATOLL_RETURN_IF_ERROR(room.Holds(manifest->bytes));
    const auto lock = LockDirectory(DataDirectory(partial_));
    if (!lock.ok()) return InUse(lock.status());
    ATOLL_RETURN_IF_ERROR(CheckPartialIsOurs());
    ATOLL_RETURN_IF_ERROR(MarkUnfinished());
    ATOLL_RETURN_IF_ERROR(RemoveStrays(files_, *manifest, partial_));
    ATOLL_RETURN_IF_ERROR(CopyFiles(files_, *manifest, source_, partial_));
    ATOLL_RETURN_IF_ERROR(BeginLedgerLine(DataDirectory(partial_).LedgerPath(), options_.wall_s));
    return Finish(*manifest, kRestoredName);
  }

  absl::StatusOr<bool> BackUp() {
    ATOLL_ASSIGN_OR_RETURN(const Room room, Room::Find(files_, source_, DirectoryOf(target_)));
    if (!files_.Exists(partial_)) {
      ATOLL_ASSIGN_OR_RETURN(const uint64_t bytes, StateBytes(source_));
      ATOLL_RETURN_IF_ERROR(room.Fits(bytes));
    }
    const auto lock = LockDirectory(DataDirectory(partial_));
    if (!lock.ok()) return InUse(lock.status());
    ATOLL_RETURN_IF_ERROR(CheckPartialIsOurs());
    absl::StatusOr<bool> well = MakeBackup(room);
    // Do not keep a partial copy that takes the coordinator's disk space.
    if (absl::IsResourceExhausted(well.status()) && room.shared()) RemovePartial();
    return well;
  }

  absl::StatusOr<bool> MakeBackup(const Room& room) {
    ATOLL_RETURN_IF_ERROR(MarkUnfinished());
    Manifest manifest{.state_dir = source_, .wall_s = options_.wall_s, .bytes = 0, .files = {}};
    ATOLL_RETURN_IF_ERROR(CopyState(room, manifest));
    ATOLL_RETURN_IF_ERROR(RemoveStrays(files_, manifest, partial_));
    return Finish(manifest, kManifestName);
  }

  // Verifies the complete copy, adds its list and renames it. False: it was damaged where a start reads, and removed.
  absl::StatusOr<bool> Finish(const Manifest& manifest, const char* list_name) {
    ATOLL_ASSIGN_OR_RETURN(const bool well, VerifyPartial());
    if (!well) return false;
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files_, JoinPath(partial_, list_name), AsBytes(ToText(manifest))));
    ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(partial_, audit::kUnfinishedName)));
    ATOLL_RETURN_IF_ERROR(Publish(manifest));
    return true;
  }

  // Copies a cut of the state. Takes another, kCuts in all, if a coordinator starts or truncates a file meanwhile.
  absl::Status CopyState(const Room& room, Manifest& manifest) {
    const size_t most_open = FilesToHold();
    absl::Status copied;
    for (int i = 0; i < kCuts; ++i) {
      ATOLL_ASSIGN_OR_RETURN(Cut cut, TakeCut(files_, source_, partial_, most_open));
      copied = CopyCut(files_, cut, source_, partial_, room, manifest);
      if (!absl::IsAborted(copied)) return copied;
    }
    return copied;
  }

  // Marks the target as neither backup nor state, so that it stays marked if this process dies.
  absl::Status MarkUnfinished() {
    const std::string text = absl::StrCat(options_.restore ? audit::kUnfinishedRestore : "A backup of ", source_,
                                          " that is not finished. The same command resumes it; or remove this "
                                          "directory.\n");
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files_, JoinPath(partial_, audit::kUnfinishedName), AsBytes(text)));
    for (const char* name : {kManifestName, kRestoredName})
      ATOLL_RETURN_IF_ERROR(files_.Remove(JoinPath(partial_, name)));
    return files_.SyncDirectory(partial_);
  }

  absl::StatusOr<bool> VerifyPartial() {
    ATOLL_RETURN_IF_ERROR(
        audit::VerifyState({files_, partial_, DataDirectory(partial_).LedgerPath(), files_}, report_));
    if (report_.ok() || IsBesideTheRun()) return true;
    RemovePartial();
    return false;
  }

  // Whether only files that no start and no round needs are damaged: logs for people, and
  // checkpoints. A backup without them is better than none, because their loss is permanent.
  bool IsBesideTheRun() const {
    const auto is_beside = [this](const audit::Finding& finding) {
      const std::string path = finding.file.substr(std::min(finding.file.size(), partial_.size() + 1));
      const bool here = absl::StartsWith(finding.file, partial_ + "/");
      return here && (absl::StartsWith(path, "events/") ||
                      (absl::StartsWith(path, "jobs/") && absl::StrContains(path, "/checkpoints/")));
    };
    return report_.damages() == report_.damage().size() &&
           std::all_of(report_.damage().begin(), report_.damage().end(), is_beside);
  }

  absl::Status Publish(const Manifest& manifest) {
    ATOLL_RETURN_IF_ERROR(files_.SyncDirectory(partial_));
    ATOLL_RETURN_IF_ERROR(files_.Rename(partial_, target_));
    copied_ = manifest.files.size();
    bytes_ = manifest.bytes;
    made_s_ = manifest.wall_s;
    return files_.SyncDirectory(DirectoryOf(target_));
  }

  void RemovePartial() const {
    std::error_code ignored;
    std::filesystem::remove_all(partial_, ignored);
  }

  absl::Status InUse(const absl::Status& why) const {
    if (!absl::IsUnavailable(why)) return why;
    return absl::FailedPreconditionError(
        absl::StrCat("another backup or restore is writing ", partial_, "; wait until it ends"));
  }

  // An existing partial directory must come from an earlier attempt.
  absl::Status CheckPartialIsOurs() const {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(partial_));
    const std::set<std::string> there(names.begin(), names.end());
    for (const char* name : {kManifestName, kRestoredName, audit::kUnfinishedName}) {
      if (there.contains(name)) return absl::OkStatus();
    }
    for (const std::string& name : there) {
      if (name == "LOCK" || name.ends_with(".tmp")) continue;
      return absl::AlreadyExistsError(absl::StrCat(partial_, " is needed for the copy, but contains ", name,
                                                   ", which is not from a backup or restore; move it elsewhere"));
    }
    return absl::OkStatus();
  }

  const BackupOptions& options_;
  Files& files_;
  const std::string source_, target_, partial_;
  audit::Report report_;
  uint64_t copied_ = 0, bytes_ = 0;
  int64_t made_s_ = 0;  // Unix time of the backup
};

}  // namespace

int RunBackup(const BackupOptions& options, std::ostream& out, std::ostream& err) {
  const char* const name = options.restore ? "restore" : "backup";
  const std::unique_ptr<Files> files = MakePosixFiles();
  Copying copying(options, *files);
  const absl::StatusOr<bool> done = copying.Run();
  if (!done.ok()) {
    err << "atoll-coordinator " << name << ": " << WithAdvice(done.status().message())
        << (absl::IsAlreadyExists(done.status()) ? "" : copying.WayOn()) << "\n";
    return absl::IsDataLoss(done.status()) ? kExitDamage : kExitNotDone;
  }
  if (!*done) {
    err << copying.report().Text() << "atoll-coordinator " << name << ": " << copying.source()
        << " is damaged, and no copy was kept\n";
    return kExitDamage;
  }
  if (copying.report().ok()) {
    out << copying.Done();
    return kExitDone;
  }
  err << copying.report().Text() << "atoll-coordinator " << name << ": " << copying.source()
      << " is damaged in files that no start needs; the copy was kept with this damage, and older backups may have "
         "intact files\n";
  out << copying.Done();
  return kExitDamage;
}

absl::Status CheckIsNoBackup(const std::string& state_dir) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  ATOLL_RETURN_IF_ERROR(audit::CheckIsFinished(*files, state_dir));
  if (!files->Exists(JoinPath(state_dir, kManifestName))) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      state_dir,
      " is a backup and must not change; create a state directory from it with: atoll-coordinator restore --from ",
      ShellWord(state_dir), " --state DIR"));
}

}  // namespace atl::backup
