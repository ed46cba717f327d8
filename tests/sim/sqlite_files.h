// SPDX-License-Identifier: Apache-2.0
// SQLite over the files of a harness, with their syncs, crashes and faults. A file is open in one
// connection at a time. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_SQLITE_FILES_H_
#define ATOLL_TESTS_SIM_SQLITE_FILES_H_

#include <memory>

#include "coordinator/store/ledger.h"
#include "tests/sim/memory_files.h"

namespace atl {

class SqliteFiles {
 public:
  // `files` outlives it.
  explicit SqliteFiles(MemoryFiles& files);
  ~SqliteFiles();
  SqliteFiles(const SqliteFiles&) = delete;
  SqliteFiles& operator=(const SqliteFiles&) = delete;
  // OpenSqliteLedger on these files; this outlives the ledger.
  absl::StatusOr<std::unique_ptr<Ledger>> OpenLedger(const std::string& path);

 private:
  struct Vfs;
  std::unique_ptr<Vfs> vfs_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SQLITE_FILES_H_
