// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/ledger_reader.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "common/base/descriptor.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/wal_reader.h"

namespace atl::audit {
namespace {

constexpr int64_t kApplicationId = 0x41544C31;  // "ATL1"
constexpr int64_t kRevision = 1;

constexpr char kTemporaryName[] = "atoll-audit-";
constexpr std::chrono::minutes kSurelyHeld{1};  // after this time its creator holds a new directory

// Locks the directory. Not open if another process holds it.
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

// Makes the copy writable, whatever the mode of the file, because SQLite opens the log for writing.
absl::Status Copy(const std::string& from, const std::string& to) {
  using std::filesystem::perms;
  std::error_code error;
  if (std::filesystem::copy_file(from, to, error))
    std::filesystem::permissions(to, perms::owner_read | perms::owner_write, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the ledger ", from, " cannot be copied to ", to, " to be read: ", error.message()));
}

// One row of a result; columns are read from left to right.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  uint64_t Number() { return static_cast<uint64_t>(sqlite3_column_int64(statement_, next_++)); }
  int64_t Signed() { return sqlite3_column_int64(statement_, next_++); }
  bool Flag() { return Number() != 0; }
  std::string Bytes() {
    const int column = next_++;
    const void* data = sqlite3_column_blob(statement_, column);
    const size_t bytes = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), bytes);
  }
  int columns() const { return sqlite3_column_count(statement_); }
  std::string Name() const { return sqlite3_column_name(statement_, next_); }
  int Kind() const { return sqlite3_column_type(statement_, next_); }  // SQLITE_INTEGER, ...

 private:
  sqlite3_stmt* statement_;
  int next_ = 0;
};

class Database {
 public:
  static absl::StatusOr<Database> Open(const std::string& path) {
    sqlite3* handle = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE, nullptr);
    Database database(handle);
    if (code != SQLITE_OK) return absl::DataLossError(sqlite3_errstr(code));
    // Exclusive locking needs no shared memory file.
    ATOLL_RETURN_IF_ERROR(database.Each("PRAGMA locking_mode=EXCLUSIVE", [](Row&) { return absl::OkStatus(); }));
    return database;
  }

  absl::Status Each(const std::string& sql, const std::function<absl::Status(Row&)>& visit) const {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &raw, nullptr) != SQLITE_OK) return Error();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
    for (;;) {
      const int code = sqlite3_step(raw);
      if (code == SQLITE_DONE) return absl::OkStatus();
      if (code != SQLITE_ROW) return Error();
      Row row(raw);
      ATOLL_RETURN_IF_ERROR(visit(row));
    }
  }

  absl::StatusOr<int64_t> Number(const std::string& sql) const {
    int64_t number = 0;
    ATOLL_RETURN_IF_ERROR(Each(sql, [&](Row& row) {
      number = row.Signed();
      return absl::OkStatus();
    }));
    return number;
  }

 private:
  explicit Database(sqlite3* handle) : handle_(handle, sqlite3_close) {}
  absl::Status Error() const { return absl::DataLossError(sqlite3_errmsg(handle_.get())); }
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
};

uint64_t Big64(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::vector<uint64_t> Versions(const std::string& bytes) {
  std::vector<uint64_t> out;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) out.push_back(Big64(bytes, at));
  return out;
}

std::vector<Digest> Digests(const std::string& bytes) {
  std::vector<Digest> out;
  for (size_t at = 0; at + 16 <= bytes.size(); at += 16) out.push_back({Big64(bytes, at), Big64(bytes, at + 8)});
  return out;
}

class Tables {
 public:
  Tables(const Database& database, const RoundVisitor& visit, LedgerImage& image)
      : database_(database), visit_(visit), image_(image) {}

  absl::Status Read() {
    ATOLL_RETURN_IF_ERROR(ReadMeta());
    ATOLL_RETURN_IF_ERROR(ReadJobs());
    ATOLL_RETURN_IF_ERROR(ReadPools());
    ATOLL_RETURN_IF_ERROR(ReadHolders());
    ATOLL_RETURN_IF_ERROR(ReadRounds());
    return ReadHistory();
  }

 private:
  absl::Status ReadMeta() {
    uint64_t rows = 0;
    ATOLL_RETURN_IF_ERROR(database_.Each(
        "SELECT boot, next_seq, next_lease, next_incarnation, next_job_sequence FROM meta", [&](Row& row) {
          LedgerMeta& meta = image_.meta;
          meta.boot = row.Number();
          meta.next_seq = row.Number();
          meta.next_lease = row.Number();
          meta.next_incarnation = row.Number();
          meta.next_job_sequence = row.Number();
          ++rows;
          return absl::OkStatus();
        }));
    if (rows == 1) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("table meta has ", rows, " rows, not one"));
  }

  absl::Status ReadJobs() {
    return database_.Each(
        "SELECT job, sequence, spec, spec_revision, state, stop_step, dataset_samples, held_out_samples, fragments, "
        "epoch, "
        "parameters_ready, next_evaluation FROM jobs ORDER BY job",
        [&](Row& row) -> absl::Status {
          LedgerJob job;
          job.job = row.Bytes();
          job.sequence = row.Number();
          if (!job.spec.ParseFromString(row.Bytes()))
            return absl::DataLossError(absl::StrCat("the spec of job ", job.job, " cannot be read"));
          job.spec_revision = row.Number();
          job.state = row.Number();
          job.stop_step = row.Number();
          job.dataset_samples = row.Number();
          job.held_out_samples = row.Number();
          job.fragments = row.Number();
          job.epoch = row.Number();
          job.parameters_ready = row.Flag();
          job.next_evaluation = row.Number();
          image_.jobs.push_back(std::move(job));
          return absl::OkStatus();
        });
  }

  absl::Status ReadPools() {
    ATOLL_RETURN_IF_ERROR(database_.Each("SELECT job, frontier, consumed, abandoned FROM pools", [&](Row& row) {
      LedgerPool& pool = image_.pools[row.Bytes()];
      pool.frontier = row.Number();
      pool.consumed = row.Number();
      pool.abandoned = row.Number();
      return absl::OkStatus();
    }));
    return database_.Each("SELECT job, first, last FROM pool_ranges ORDER BY job, first", [&](Row& row) {
      LedgerPool& pool = image_.pools[row.Bytes()];
      const uint64_t first = row.Number();
      pool.ranges.push_back({first, row.Number()});
      return absl::OkStatus();
    });
  }

  absl::Status ReadHolders() {
    ATOLL_RETURN_IF_ERROR(database_.Each(
        "SELECT lease, job, worker, incarnation, first, last, consumed_to, revoked FROM leases ORDER BY lease",
        [&](Row& row) {
          LedgerLease lease;
          lease.lease = row.Number();
          lease.job = row.Bytes();
          lease.worker = row.Bytes();
          lease.incarnation = row.Number();
          lease.range.first = row.Number();
          lease.range.last = row.Number();
          lease.consumed_to = row.Number();
          lease.revoked = row.Flag();
          image_.leases.push_back(std::move(lease));
          return absl::OkStatus();
        }));
    return database_.Each("SELECT worker, job, incarnation, leases_from FROM workers ORDER BY worker", [&](Row& row) {
      LedgerWorker worker;
      worker.worker = row.Bytes();
      worker.job = row.Bytes();
      worker.incarnation = row.Number();
      worker.leases_from = row.Number();
      image_.workers.push_back(std::move(worker));
      return absl::OkStatus();
    });
  }

  absl::Status ReadRounds() {
    return database_.Each(
        "SELECT seq, job, epoch, fragment, version, record FROM rounds ORDER BY seq", [&](Row& row) -> absl::Status {
          LedgerRound round;
          round.seq = row.Number();
          round.job = row.Bytes();
          round.epoch = row.Number();
          round.fragment = static_cast<uint32_t>(row.Number());
          round.version = row.Number();
          const auto record = std::make_shared<v1::RoundRecord>();
          if (!record->ParseFromString(row.Bytes()))
            return absl::DataLossError(absl::StrCat("the record of version ", round.version, " of fragment ",
                                                    round.fragment, " of job ", round.job, " cannot be read"));
          round.boot = record->boot();
          round.hash = FromProto(record->hash());
          round.update_digest = FromProto(record->update_digest());
          round.record = record;
          if (!visit_(image_, round)) round.record.reset();
          image_.rounds.push_back(std::move(round));
          return absl::OkStatus();
        });
  }

  absl::Status ReadHistory() {
    ATOLL_RETURN_IF_ERROR(database_.Each("SELECT seq, job, epoch, versions FROM rollbacks ORDER BY seq", [&](Row& row) {
      LedgerRollback rollback;
      rollback.seq = row.Number();
      rollback.job = row.Bytes();
      rollback.epoch = row.Number();
      rollback.versions = Versions(row.Bytes());
      image_.rollbacks.push_back(std::move(rollback));
      return absl::OkStatus();
    }));
    ATOLL_RETURN_IF_ERROR(database_.Each(
        "SELECT seq, job, step, dropped, complete, versions, hashes, wall_nanos, pool_consumed, pool_frontier "
        "FROM checkpoints ORDER BY seq",
        [&](Row& row) {
          LedgerCheckpoint checkpoint;
          checkpoint.seq = row.Number();
          checkpoint.job = row.Bytes();
          checkpoint.step = row.Number();
          checkpoint.dropped = row.Flag();
          checkpoint.complete = row.Flag();
          checkpoint.versions = Versions(row.Bytes());
          checkpoint.hashes = Digests(row.Bytes());
          checkpoint.wall_nanos = row.Signed();
          checkpoint.pool_consumed = row.Number();
          checkpoint.pool_frontier = row.Number();
          image_.checkpoints.push_back(std::move(checkpoint));
          return absl::OkStatus();
        }));
    return database_.Each("SELECT seq, job, evaluation, versions FROM evaluations ORDER BY seq", [&](Row& row) {
      LedgerEvaluation evaluation;
      evaluation.seq = row.Number();
      evaluation.job = row.Bytes();
      evaluation.evaluation = row.Number();
      evaluation.versions = Versions(row.Bytes());
      image_.evaluations.push_back(std::move(evaluation));
      return absl::OkStatus();
    });
  }

  const Database& database_;
  const RoundVisitor& visit_;
  LedgerImage& image_;
};

std::string Big64(uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

struct RowSum {
  std::string summed, named;  // the checksum's input; the first columns, for people
  std::optional<uint64_t> crc;
  bool whole() const { return crc == Crc32c(0, AsBytes(summed)); }
};

RowSum SumOf(Row& row) {
  RowSum sum;
  for (int i = 0; i < row.columns(); ++i) {
    const bool is_crc = row.Name() == "crc", is_number = row.Kind() == SQLITE_INTEGER,
               is_text = row.Kind() == SQLITE_TEXT;
    const uint64_t number = is_number ? row.Number() : 0;
    const std::string bytes = is_number ? Big64(number) : row.Bytes();
    if (is_crc) {
      sum.crc = number;
      continue;
    }
    sum.summed += is_number ? 'i' : is_text ? 't' : 'b';
    sum.summed += is_number ? bytes : Big64(bytes.size()) + bytes;
    if (i < 4 && (is_number || is_text))
      sum.named += (i == 0 ? "" : ", ") + (is_number ? std::to_string(number) : absl::Utf8SafeCHexEscape(bytes));
  }
  return sum;
}

// Checks every row against its checksum. False if one differs.
absl::StatusOr<bool> CheckRows(const Database& database, const std::string& path, Report& report) {
  bool whole = true;
  std::vector<std::string> tables;
  ATOLL_RETURN_IF_ERROR(
      database.Each("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", [&](Row& row) {
        tables.push_back(row.Bytes());
        return absl::OkStatus();
      }));
  for (const std::string& table : tables) {
    ATOLL_RETURN_IF_ERROR(database.Each(absl::StrCat("SELECT * FROM ", table), [&](Row& row) {
      const RowSum sum = SumOf(row);
      if (!sum.crc) return absl::DataLossError(absl::StrCat("table ", table, " has no checksums"));
      if (!sum.whole()) {
        whole = false;
        report.Damage({path, std::nullopt, "",
                       absl::StrCat("row (", sum.named, ") of table ", table, " is not as it was written"),
                       kRestoreState});
      }
      return absl::OkStatus();
    }));
  }
  return whole;
}

// The offset of the page in SQLite's own check message "page N".
std::optional<uint64_t> OffsetOf(const std::string& line, int64_t page_bytes) {
  const size_t at = line.find("age ");
  if (at == std::string::npos || at + 4 >= line.size() || line[at + 4] < '1' || line[at + 4] > '9') return std::nullopt;
  return (std::stoull(line.substr(at + 4, 15)) - 1) * static_cast<uint64_t>(page_bytes);
}

absl::Status CheckPages(const Database& database, const std::string& path, Report& report) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t page_bytes, database.Number("PRAGMA page_size"));
  return database.Each("PRAGMA integrity_check", [&](Row& row) {
    const std::string line = row.Bytes();
    if (line != "ok")
      report.Damage({path, OffsetOf(line, page_bytes), "", absl::StrCat("SQLite: ", line), kRestoreState});
    return absl::OkStatus();
  });
}

absl::Status CheckOwner(const Database& database, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  ATOLL_ASSIGN_OR_RETURN(const int64_t revision, database.Number("PRAGMA user_version"));
  if (application != kApplicationId)
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no ledger of atoll; name a coordinator's --state-dir"));
  if (revision == kRevision) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the ledger ", path, " has format revision ", revision,
                                                    ", this program knows ", kRevision,
                                                    "; use the program of the version that wrote it"));
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
    report.Damage({path, std::nullopt, "", absl::StrCat("the ledger cannot be read: ", why.message()), kRestoreState});
    return std::optional<LedgerImage>();
  };
  const absl::StatusOr<Database> database = Database::Open(copy);
  if (!database.ok()) return lost(database.status());
  const absl::Status owner = CheckOwner(*database, path);
  if (absl::IsFailedPrecondition(owner) && report.ok()) return owner;  // unless the cause is a broken log
  if (!owner.ok()) return lost(owner);
  const absl::Status pages = CheckPages(*database, path, report);
  if (!pages.ok()) return lost(pages);
  const absl::StatusOr<bool> rows = CheckRows(*database, path, report);
  if (!rows.ok()) return lost(rows.status());
  if (!*rows) return std::optional<LedgerImage>();
  LedgerImage image;
  image.path = path;
  const absl::Status read = Tables(*database, visit, image).Read();
  if (!read.ok()) return lost(read);
  return std::optional<LedgerImage>(std::move(image));
}

}  // namespace atl::audit
