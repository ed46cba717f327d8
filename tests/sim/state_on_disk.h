// SPDX-License-Identifier: Apache-2.0
// The state of a harness as an audit sees it: its files, and its ledger as a SQLite file.
#ifndef ATOLL_TESTS_SIM_STATE_ON_DISK_H_
#define ATOLL_TESTS_SIM_STATE_ON_DISK_H_

#include <string>

#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_image.h"
#include "coordinator/audit/verify.h"
#include "tests/sim/harness.h"

namespace atl {

// Stores the manifest that SmallJob names among the stored files of `h`, where an audit looks for
// it.
void StoreManifest(Harness& h);

class StateOnDisk {
 public:
  // Writes the ledger of `h` into its own directory. The coordinator of `h` must not run.
  explicit StateOnDisk(Harness& h);
  // The same for a simulation. If `ledger` is null, the ledger is a SQLite file on `files`. Both
  // outlive this.
  StateOnDisk(const MemoryFiles& files, const MemoryLedgerDisk* ledger);
  ~StateOnDisk();
  StateOnDisk(const StateOnDisk&) = delete;
  StateOnDisk& operator=(const StateOnDisk&) = delete;

  // Reports of `atoll-coordinator verify` and `replay`.
  audit::Report Verify() const;
  audit::Report Replay() const;
  // The ledger's tables, as verify reads them.
  audit::LedgerImage Ledger() const;
  // Runs a SQL statement on the ledger and updates the row checksums.
  void Edit(const std::string& sql) const;

 private:
  void MakeDirectory();
  void WriteLedger(const MemoryLedgerDisk& disk);
  void CopyLedger();
  const MemoryFiles& files_;
  std::unique_ptr<Files> real_ = MakePosixFiles();
  std::string directory_, ledger_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_STATE_ON_DISK_H_
