// SPDX-License-Identifier: Apache-2.0
// SQLite as values and statuses: a database, its prepared statements, bound by position. Only the ledger uses it.
// Not thread-safe.
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

// Eight bytes, big-endian: numbers in blobs and under checksums.
void PutBig(std::string& out, uint64_t value);

class Database {
 public:
  // Makes the file if needed. FailedPrecondition: held by another process. DataLoss: not a database, or damaged.
  // Statements may call row_crc(value, ...): the CRC-32C of all values, each as its kind and bytes
  // (docs/formats/ledger.md, "Checksums").
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without results, separated by semicolons.
  absl::Status Run(const std::string& sql);
  // A single number.
  absl::StatusOr<int64_t> Number(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql) const;
  // Rows changed by the last insert, update or delete.
  int64_t changes() const;
  // Whether the path no longer leads to the open file: it was moved, removed or replaced.
  bool IsUnlinked() const;
  // The present error of SQLite, with the path and, of a failing read, write or flush, the system's words for its
  // cause. ResourceExhausted: disk or quota full, or the file may not grow. FailedPrecondition: busy. DataLoss:
  // damaged.
  absl::Status Error(int code) const;
  const std::string& path() const { return path_; }

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  // errno of the failed call of the system behind the error; 0 where there was none, or nobody knows it.
  int CauseOf(int code) const;
  std::string path_;
  sqlite3* db_ = nullptr;
};

// A prepared statement and its present row. Bind calls fill the parameters from left to right. A failed bind shows at
// Step.
class Statement {
 public:
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  Statement& Bind(uint64_t value);  // stored as the signed number of the same bits
  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  Statement& Bind(const std::string& text);
  Statement& BindBlob(const std::string& bytes);
  // True when a row is there, false at the end.
  absl::StatusOr<bool> Step();
  // Steps to the end and makes the statement ready to be bound again.
  absl::Status Run();

  // Columns of the present row, from left to right.
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
