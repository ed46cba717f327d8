// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/state_on_disk.h"

#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/replay.h"
#include "coordinator/audit/state_paths.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl {

void StoreManifest(Harness& h) {
  const std::string manifest = "toy";
  const Bytes bytes = AsBytes(manifest);
  h.files().SetContent(DataDirectory("/state").BlobPath(Sha256Of(bytes)), {bytes.begin(), bytes.end()});
}

StateOnDisk::StateOnDisk(Harness& h) : files_(h.files()) {
  ATOLL_CHECK(!h.coordinator_runs(), "an audit is made of a state that nobody writes");
  MakeDirectory();
  h.sqlite() ? CopyLedger() : WriteLedger(h.ledger_disk());
}

StateOnDisk::StateOnDisk(const MemoryFiles& files, const MemoryLedgerDisk* ledger) : files_(files) {
  MakeDirectory();
  ledger == nullptr ? CopyLedger() : WriteLedger(*ledger);
}

void StateOnDisk::CopyLedger() {
  for (const char* suffix : {"", "-wal"}) {
    const std::string from = DataDirectory("/state").LedgerPath() + suffix;
    if (!files_.Exists(from)) continue;
    const std::vector<std::byte> content = files_.Content(from);
    std::ofstream to(ledger_ + suffix, std::ios::binary);
    to.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    ATOLL_CHECK(to.good(), "the ledger cannot be copied");
  }
}

void StateOnDisk::MakeDirectory() {
  directory_ = (std::filesystem::temp_directory_path() / "atoll-state-XXXXXX").string();
  ATOLL_CHECK(::mkdtemp(directory_.data()) != nullptr, "no temporary directory can be made");
  ledger_ = directory_ + "/ledger.sqlite";
}

void StateOnDisk::WriteLedger(const MemoryLedgerDisk& disk) {
  {
    const auto ledger = OpenSqliteLedger(ledger_);
    ATOLL_CHECK(ledger.ok(), "the ledger of a test cannot be made");
    ATOLL_CHECK((*ledger)->Recover().ok(), "the ledger cannot be begun");
    std::vector<LedgerRecord> all;  // in one transaction: only their order matters
    for (const auto& transaction : disk.transactions) all.insert(all.end(), transaction.begin(), transaction.end());
    ATOLL_CHECK((*ledger)->Commit(all).ok(), "the ledger cannot be written");
  }
  Edit("UPDATE meta SET boot = " + std::to_string(disk.boot));
}

StateOnDisk::~StateOnDisk() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void StateOnDisk::Edit(const std::string& sql) const {
  sqlite3* database = nullptr;
  ATOLL_CHECK(sqlite3_open(ledger_.c_str(), &database) == SQLITE_OK, "the ledger cannot be opened");
  const bool done = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  ATOLL_CHECK(sqlite3_close(database) == SQLITE_OK && done, "the ledger cannot be edited");
  const auto edited = Database::Open(ledger_);
  ATOLL_CHECK(edited.ok() && SealRows(**edited).ok(), "the rows cannot be given their checksums");
}

audit::LedgerImage StateOnDisk::Ledger() const {
  audit::Report report("verify", "/state");
  const auto files = audit::ListState(files_, "/state", report);
  ATOLL_CHECK(files.ok(), "the files of a test cannot be listed");
  const auto image = audit::ReadLedger(*real_, ledger_, report, audit::CheckingRounds(*files, report));
  ATOLL_CHECK(image.ok() && image->has_value(), "the ledger of a test cannot be read");
  return **image;
}

audit::Report StateOnDisk::Verify() const {
  audit::Report report("verify", "/state");
  const absl::Status made = audit::VerifyState({files_, "/state", ledger_, *real_}, report);
  if (!made.ok()) report.Damage({ledger_, {}, "", "no audit: " + std::string(made.message()), ""});
  return report;
}

audit::Report StateOnDisk::Replay() const {
  audit::Report report("replay", "/state");
  const absl::Status made = audit::ReplayState({files_, "/state", ledger_, *real_}, report);
  if (!made.ok()) report.Damage({ledger_, {}, "", "no audit: " + std::string(made.message()), ""});
  return report;
}

}  // namespace atl
