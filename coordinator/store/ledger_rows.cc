// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_rows.h"

#include <sqlite3.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace atl {
namespace {

absl::StatusOr<std::vector<std::string>> Texts(const Database& database, const std::string& sql) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare(sql));
  std::vector<std::string> out;
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return out;
    out.push_back(s.NextText());
  }
}

absl::StatusOr<std::vector<std::string>> TableNames(const Database& database) {
  return Texts(database, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
}

// The SQL expression that computes row_crc of all columns of `table` except `crc`.
absl::StatusOr<std::string> Sum(const Database& database, const std::string& table) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> columns,
                         Texts(database, absl::StrCat("SELECT name FROM pragma_table_info('", table,
                                                      "') WHERE name <> 'crc' ORDER BY cid")));
  return absl::StrCat("row_crc(", absl::StrJoin(columns, ","), ")");
}

// Whether a message of SQLite's integrity check is about a failed read, not about a damaged page: such a
// message ends with the error code of the read.
bool IsOfAReadThatFailed(std::string_view told) {
  constexpr std::string_view kCode = "error code=";
  const size_t at = told.find(kCode);
  int code = 0;
  if (at == told.npos) return false;
  std::from_chars(told.data() + at + kCode.size(), told.data() + told.size(), code);
  return (code & 0xff) == SQLITE_IOERR;
}

// The damaged rows of a table: "row (KEY) of table TABLE is not as it was written".
absl::StatusOr<std::vector<std::string>> DamagedRows(const Database& database, const std::string& table) {
  ATOLL_ASSIGN_OR_RETURN(const std::string sum, Sum(database, table));
  ATOLL_ASSIGN_OR_RETURN(
      const std::vector<std::string> key,
      Texts(database, absl::StrCat("SELECT name FROM pragma_table_info('", table, "') WHERE pk > 0 ORDER BY pk")));
  ATOLL_ASSIGN_OR_RETURN(std::vector<std::string> damaged,
                         Texts(database, absl::StrCat("SELECT CAST(", absl::StrJoin(key, " || ', ' || "),
                                                      " AS TEXT) FROM ", table, " WHERE crc IS NOT ", sum)));
  for (std::string& row : damaged)
    row = absl::StrCat("row (", absl::Utf8SafeCHexEscape(row), ") of table ", table, " is not as it was written");
  return damaged;
}

}  // namespace

std::string SealedInsert(const std::string& insert, int columns) {
  std::vector<std::string> values;
  for (int i = 1; i <= columns; ++i) values.push_back(absl::StrCat("?", i));
  const std::string all = absl::StrJoin(values, ",");
  return absl::StrCat(insert, " VALUES (", all, ",row_crc(", all, "))");
}

absl::Status SealMeta(Database& database) {
  return database.Run(
      "UPDATE meta SET crc = row_crc(id, boot, next_seq, next_lease, next_incarnation, next_job_sequence)");
}

absl::Status SealRows(Database& database) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> tables, TableNames(database));
  for (const std::string& table : tables) {
    ATOLL_ASSIGN_OR_RETURN(const std::string sum, Sum(database, table));
    ATOLL_RETURN_IF_ERROR(database.Run(absl::StrCat("UPDATE ", table, " SET crc = ", sum)));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(Database& database) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> pages, Texts(database, "PRAGMA quick_check(1)"));
  if (pages.size() != 1 || pages[0] != "ok") {
    const std::string told = absl::StrReplaceAll(absl::StrJoin(pages, "; "), {{"\n", " "}});
    if (IsOfAReadThatFailed(told)) {
      return absl::InternalError(
          absl::StrCat("the ledger ", database.path(), " cannot be read (", told, "): ", std::strerror(EIO)));
    }
    return absl::DataLossError(
        absl::StrCat("the ledger ", database.path(), " is damaged (", told, "): restore the directory from a copy"));
  }
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> damaged, FindDamagedRows(database));
  if (damaged.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the ledger ", database.path(), ": ", damaged[0], ": restore the directory from a copy"));
}

absl::StatusOr<std::vector<std::string>> FindDamagedRows(const Database& database) {
  std::vector<std::string> damaged;
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> tables, TableNames(database));
  for (const std::string& table : tables) {
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> rows, DamagedRows(database, table));
    damaged.insert(damaged.end(), rows.begin(), rows.end());
  }
  return damaged;
}

}  // namespace atl
