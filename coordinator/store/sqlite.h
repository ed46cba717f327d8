// SPDX-License-Identifier: Apache-2.0
// A small C++ interface to SQLite that returns statuses: a database and prepared statements, bound
// by position. The ledger and the audits' reader of ledgers use it. Not thread-safe.
#ifndef ATOLL_COORDINATOR_STORE_SQLITE_H_
#define ATOLL_COORDINATOR_STORE_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace atl {

class Statement;

// Appends eight bytes, big-endian: for numbers in blobs and under checksums.
void PutBig(std::string& out, uint64_t value);

class Database {
 public:
  // Creates a missing file. PermissionDenied: it cannot be opened. Only the first statement reads it and may return
  // FailedPrecondition (another process holds it) or DataLoss (damaged, or no database). Statements may call
  // row_crc(value, ...): the CRC-32C of all values, each as its kind and bytes (docs/formats/ledger.md, "Checksums").
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements without results, separated by semicolons.
  absl::Status Run(const std::string& sql);
  // Runs a query whose result is one number.
  absl::StatusOr<int64_t> Number(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql) const;
  // Rows changed by the last INSERT, UPDATE or DELETE.
  int64_t changes() const;
  // Whether the path no longer names the open file, because the file was moved, removed or
  // replaced.
  bool IsUnlinked() const;
  // The current SQLite error with the path and, for a failed read, write or flush, the system's error
  // message. ResourceExhausted: disk or quota full, or the file may not grow. FailedPrecondition:
  // busy. DataLoss: damaged. PermissionDenied: it cannot be opened or written. Internal: any other.
  absl::Status Error(int code) const;
  const std::string& path() const { return path_; }

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  // errno of the failed system call; 0 if there was none or it is unknown.
  int CauseOf(int code) const;
  std::string path_;
  sqlite3* db_ = nullptr;
};

// A prepared statement and its current row. Bind calls fill the parameters from left to right. Step
// reports the error of a failed Bind.
class Statement {
 public:
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  Statement& Bind(uint64_t value);  // stored as the signed number with the same bits
  Statement& Bind(int64_t value);
  Statement& Bind(const std::string& text);
  Statement& BindBlob(const std::string& bytes);
  // True if there is a row, false at the end.
  absl::StatusOr<bool> Step();
  // Steps to the end and resets the statement for new parameters.
  absl::Status Run();

  // Columns of the current row, from left to right.
  uint64_t NextNumber();
  int64_t NextSigned();
  std::string NextText();
  std::string NextBlob();

 private:
  friend class Database;
  Statement(const Database& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  const Database& database_;
  sqlite3_stmt* statement_;
  int bound_ = 0, column_ = 0;
  int failure_ = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SQLITE_H_
