// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/hash.h"

namespace atl {
namespace {

// Implements row_crc(value, ...).
void RowCrc(sqlite3_context* context, int count, sqlite3_value** values) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    sqlite3_value* value = values[i];
    switch (sqlite3_value_type(value)) {
      case SQLITE_INTEGER:
        bytes += 'i';
        PutBig(bytes, static_cast<uint64_t>(sqlite3_value_int64(value)));
        continue;
      case SQLITE_TEXT: bytes += 't'; break;
      case SQLITE_BLOB: bytes += 'b'; break;
      default: bytes += 'n'; continue;  // the tables have no other kinds
    }
    const void* data = sqlite3_value_blob(value);
    const auto size = static_cast<size_t>(sqlite3_value_bytes(value));
    PutBig(bytes, size);
    if (size > 0) bytes.append(static_cast<const char*>(data), size);
  }
  sqlite3_result_int64(context, Crc32c(0, AsBytes(bytes)));
}

}  // namespace

void PutBig(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  std::unique_ptr<Database> database(new Database(path));
  const int code = sqlite3_open_v2(path.c_str(), &database->db_,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return database->Error(code);
  sqlite3_extended_result_codes(database->db_, 1);
  const int made = sqlite3_create_function_v2(database->db_, "row_crc", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                              RowCrc, nullptr, nullptr, nullptr);
  if (made != SQLITE_OK) return database->Error(made);
  return database;
}

Database::~Database() { sqlite3_close(db_); }

int Database::CauseOf(int code) const {
  if ((code & 0xff) == SQLITE_FULL) return ENOSPC;
  // SQLite may report a failed read as a malformed page.
  if (((code & 0xff) != SQLITE_IOERR && (code & 0xff) != SQLITE_CORRUPT) || db_ == nullptr) return 0;
  // SQLite reports only "disk I/O error" for a flush on a full disk or for a file that may not
  // grow. After a failed commit the connection does not know errno (SQLite 3.40), but the file
  // does: the log or journal, or else the database.
  int cause = sqlite3_system_errno(db_);
  for (const int which : {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER}) {
    sqlite3_file* file = nullptr;
    const bool there = sqlite3_file_control(db_, "main", which, &file) == SQLITE_OK && file != nullptr;
    if (cause == 0 && there && file->pMethods != nullptr)
      file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &cause);
  }
  return cause;
}

absl::Status Database::Error(int code) const {
  std::string text = absl::StrCat(path_, ": ", db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code));
  const int cause = CauseOf(code);
  // The system's error message comes last, where the advice for it is looked up.
  if (cause != 0) absl::StrAppend(&text, ": ", std::strerror(cause));
  // After a failed flush of a journal SQLite has already closed it, so errno is unknown.
  const bool unknown = (code & 0xff) == SQLITE_IOERR && cause == 0, unopened = (code & 0xff) == SQLITE_CANTOPEN;
  if (unknown || unopened) absl::StrAppend(&text, "; check that the disk has free space and works");
  if (unopened) absl::StrAppend(&text, ", and that this user may write to it");
  if (cause == ENOSPC || cause == EDQUOT || cause == EFBIG) return absl::ResourceExhaustedError(text);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(absl::StrCat(path_,
                                                        " is in use by another coordinator: stop that one, or choose "
                                                        "another directory"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      if (cause != 0) return absl::InternalError(text);
      return absl::DataLossError(absl::StrCat(text, ": restore the directory from a copy"));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY: return absl::PermissionDeniedError(text);
    default: return absl::InternalError(text);
  }
}

absl::Status Database::Run(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<int64_t> Database::Number(const std::string& sql) {
  ATOLL_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  ATOLL_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::InternalError(absl::StrCat(path_, ": no answer to ", sql));
  return statement.NextSigned();
}

absl::StatusOr<Statement> Database::Prepare(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db_, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return Statement(*this, statement);
}

bool Database::IsUnlinked() const {
  int moved = 0;
  return sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
}

int64_t Database::changes() const { return sqlite3_changes64(db_); }

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      bound_(other.bound_),
      column_(other.column_),
      failure_(other.failure_) {}

Statement& Statement::Bind(uint64_t value) { return Bind(static_cast<int64_t>(value)); }
Statement& Statement::Bind(int64_t value) {
  failure_ |= sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::Bind(const std::string& text) {
  failure_ |= sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::BindBlob(const std::string& bytes) {
  failure_ |= sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (failure_ != SQLITE_OK) return database_.Error(failure_);
  column_ = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_.Error(code);
}

absl::Status Statement::Run() {
  absl::StatusOr<bool> row = Step();
  while (row.ok() && *row) row = Step();
  sqlite3_reset(statement_);
  bound_ = 0;
  failure_ = 0;
  return row.status();
}

uint64_t Statement::NextNumber() { return static_cast<uint64_t>(NextSigned()); }
int64_t Statement::NextSigned() { return sqlite3_column_int64(statement_, column_++); }
std::string Statement::NextText() {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column_));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column_++));
  return text == nullptr ? std::string() : std::string(text, size);
}
std::string Statement::NextBlob() {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column_));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column_++));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

}  // namespace atl
