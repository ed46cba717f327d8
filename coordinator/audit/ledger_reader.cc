// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/ledger_reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/descriptor.h"
#include "coordinator/audit/wal.h"
#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl::audit {
namespace {

constexpr char kTemporaryName[] = "atoll-audit-";
constexpr std::chrono::minutes kSurelyHeld{1};  // an older directory is locked by its creator, if that still runs

// Opens and locks the directory. The result is not open if that fails, as when another process holds the lock.
Descriptor HoldDirectory(const std::string& path) {
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory.open() && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) directory = Descriptor();
  return directory;
}

// Removes copies of whole ledgers left by killed processes.
void RemoveLeftOver(const std::filesystem::path& in) {
  std::error_code error;
  const auto made_before = std::filesystem::file_time_type::clock::now() - kSurelyHeld;
  for (std::filesystem::directory_iterator at(in, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(kTemporaryName)) continue;
    std::error_code ignored;
    if (at->last_write_time(ignored) > made_before || ignored) continue;
    if (HoldDirectory(at->path().string()).open()) std::filesystem::remove_all(at->path(), ignored);
  }
}

// A directory removed with this object, or by a later audit if this process is killed.
class TemporaryDirectory {
 public:
  static absl::StatusOr<TemporaryDirectory> Make() {
    std::error_code error;
    const std::filesystem::path in = std::filesystem::temp_directory_path(error);
    if (!error) RemoveLeftOver(in);
    std::string name = (in / absl::StrCat(kTemporaryName, "XXXXXX")).string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      return absl::UnavailableError("no temporary directory for a copy of the ledger can be made; set TMPDIR to one");
    return TemporaryDirectory(std::move(name));
  }
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)), held_(HoldDirectory(path_)) {}
  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), held_(std::move(other.held_)) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor held_;
};

// Copies a file. The copy is writable, whatever the mode of the file, because SQLite opens the log for writing.
absl::Status Copy(const std::string& from, const std::string& to) {
  using std::filesystem::perms;
  std::error_code error;
  if (std::filesystem::copy_file(from, to, error))
    std::filesystem::permissions(to, perms::owner_read | perms::owner_write, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the ledger ", from, " cannot be copied to ", to, " to be read: ", error.message()));
}

// The offset of the page in SQLite's own check message "page N".
std::optional<uint64_t> OffsetOf(const std::string& line, int64_t page_bytes) {
  const size_t at = line.find("age ");
  if (at == std::string::npos || at + 4 >= line.size() || line[at + 4] < '1' || line[at + 4] > '9') return std::nullopt;
  return (std::stoull(line.substr(at + 4, 15)) - 1) * static_cast<uint64_t>(page_bytes);
}

absl::Status CheckPages(Database& database, const std::string& path, Report& report) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t page_bytes, database.Number("PRAGMA page_size"));
  ATOLL_ASSIGN_OR_RETURN(Statement check, database.Prepare("PRAGMA integrity_check"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool more, check.Step());
    if (!more) return absl::OkStatus();
    const std::string line = check.NextText();
    if (line != "ok")
      report.Damage({path, OffsetOf(line, page_bytes), "", absl::StrCat("SQLite: ", line), kRestoreState});
  }
}

absl::Status CheckOwner(Database& database, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  ATOLL_ASSIGN_OR_RETURN(const int64_t revision, database.Number("PRAGMA user_version"));
  if (application != kLedgerApplicationId)
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no ledger of atoll; name a coordinator's --state-dir"));
  if (revision == kLedgerRevision) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the ledger ", path, " has format revision ", revision,
                                                    ", this program knows ", kLedgerRevision,
                                                    "; use the program of the version that wrote it"));
}

absl::Status ReadImage(const Database& database, const RoundVisitor& visit, LedgerImage& image) {
  ATOLL_ASSIGN_OR_RETURN(LedgerRows rows, ReadLedgerRows(database));
  image.boot = rows.boot;
  image.next_seq = rows.next_seq;
  image.counters = rows.counters;
  image.history = std::move(rows.history);
  for (LedgerRecord& row : rows.state) {
    if (auto* const job = std::get_if<JobRecord>(&row)) image.jobs.emplace(job->job, std::move(*job));
    if (auto* const pool = std::get_if<PoolRecord>(&row)) image.pools.emplace(pool->job, std::move(*pool));
    if (auto* const lease = std::get_if<LeaseRecord>(&row)) image.leases.push_back(std::move(*lease));
    if (auto* const worker = std::get_if<WorkerRecord>(&row)) image.workers.push_back(std::move(*worker));
  }
  return VisitRounds(database, [&](RoundRow row) {
    const auto record = std::make_shared<const RoundRecord>(std::move(row.record));
    LedgerRound round{row.seq,      record->epoch, row.reached,           record->job,
                      record->boot, record->hash,  record->update_digest, record};
    if (!visit(image, round)) round.record.reset();
    image.rounds.push_back(std::move(round));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Database>> OpenCopy(const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path));
  ATOLL_RETURN_IF_ERROR(database->Run("PRAGMA locking_mode=EXCLUSIVE"));  // needs no shared memory file
  return database;
}

absl::Status ReadLog(const Files& files, const std::string& path, Report& report) {
  if (!files.Exists(path)) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> wal, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const WalCheck check, CheckWal(*wal));
  if (check.broken) {
    report.Damage({path, check.broken, "",
                   absl::StrCat("a frame of the write-ahead log is broken though it was durable; ", check.lost_frames,
                                " whole frames behind it are lost to SQLite"),
                   kRestoreState});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<LedgerImage>> ReadLedger(const Files& files, const std::string& path, Report& report,
                                                      const RoundVisitor& visit) {
  ATOLL_ASSIGN_OR_RETURN(const TemporaryDirectory directory, TemporaryDirectory::Make());
  const std::string copy = JoinPath(directory.path(), "ledger.sqlite");
  ATOLL_RETURN_IF_ERROR(Copy(path, copy));
  if (files.Exists(path + "-wal")) ATOLL_RETURN_IF_ERROR(Copy(path + "-wal", copy + "-wal"));
  ATOLL_RETURN_IF_ERROR(ReadLog(files, path + "-wal", report));
  const auto lost = [&](const absl::Status& why) {
    const std::string problem = absl::StrReplaceAll(why.message(), {{copy, path}});
    report.Damage({path, std::nullopt, "", absl::StrCat("the ledger cannot be read: ", problem), kRestoreState});
    return std::optional<LedgerImage>();
  };
  const absl::StatusOr<std::unique_ptr<Database>> database = OpenCopy(copy);
  if (!database.ok()) return lost(database.status());
  const absl::Status owner = CheckOwner(**database, path);
  if (absl::IsFailedPrecondition(owner) && report.ok()) return owner;  // unless the cause is a broken log
  if (!owner.ok()) return lost(owner);
  const absl::Status pages = CheckPages(**database, path, report);
  if (!pages.ok()) return lost(pages);
  const absl::StatusOr<std::vector<std::string>> damaged = FindDamagedRows(**database);
  if (!damaged.ok()) return lost(damaged.status());
  for (const std::string& row : *damaged) report.Damage({path, std::nullopt, "", row, kRestoreState});
  if (!damaged->empty()) return std::optional<LedgerImage>();
  LedgerImage image;
  image.path = path;
  const absl::Status read = ReadImage(**database, visit, image);
  if (!read.ok()) return lost(read);
  return std::optional<LedgerImage>(std::move(image));
}

}  // namespace atl::audit
