// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/sqlite_ledger.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/plan/boot_lines.h"
#include "common/plan/ledger_fold.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/ledger_records.h"
#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/ledger_schema.h"
#include "coordinator/store/sqlite.h"

namespace atl {
namespace {

// Applies the appended records to a fold. Each record is checked first: the fold treats an
// inconsistent record as a bug, but a record read from disk may be damaged.
class HistoryFold {
 public:
  HistoryFold(const std::vector<LedgerRecord>& jobs, LedgerFold& fold) : fold_(fold) {
    for (const LedgerRecord& record : jobs) {
      if (const auto* job = std::get_if<JobRecord>(&record)) heads_[job->job].resize(job->fragments);
    }
  }

  // Applies `history` and the rounds in the order of their commits. Reads one round at a time,
  // because a job may have millions.
  absl::Status Take(const Database& database, const LedgerHistory& history) {
    auto next = history.begin();
    const auto visit = [&](RoundRow row) -> absl::Status {
      for (; next != history.end() && next->first < row.seq; ++next) ATOLL_RETURN_IF_ERROR(TakeOne(next->second));
      return TakeOne(std::move(row.record));
    };
    ATOLL_RETURN_IF_ERROR(VisitRounds(database, visit));
    for (; next != history.end(); ++next) ATOLL_RETURN_IF_ERROR(TakeOne(next->second));
    return absl::OkStatus();
  }

 private:
  absl::Status TakeOne(LedgerRecord record) {
    const JobId& job = std::visit(
        [](const auto& r) -> const JobId& {
          if constexpr (requires { r.job; })
            return r.job;
          else {
            static const JobId none;
            return none;
          }
        },
        record);
    const auto at = heads_.find(job);
    if (at == heads_.end() || !Fits(record, at->second)) {
      return absl::DataLossError(
          absl::StrCat("the ledger contradicts itself in job ", job.value, ": restore it from a copy"));
    }
    fold_.Apply({std::move(record)});
    return absl::OkStatus();
  }

  static bool Fits(const LedgerRecord& record, VersionVector& heads) {
    if (const auto* rollback = std::get_if<RollbackRecord>(&record)) {
      if (rollback->versions.size() != heads.size()) return false;
      heads = rollback->versions;
    }
    const auto* round = std::get_if<RoundRecord>(&record);
    if (round == nullptr) return true;
    const size_t fragment = round->reached.fragment.value;
    if (fragment >= heads.size() || round->reached.version.value != heads[fragment].value + 1) return false;
    heads[fragment] = round->reached.version;
    return true;
  }

  LedgerFold& fold_;
  std::map<JobId, VersionVector> heads_;
};

absl::Status SetBoot(Database& database, const std::string& value) {
  ATOLL_RETURN_IF_ERROR(database.Run(absl::StrCat("BEGIN IMMEDIATE; UPDATE meta SET boot = ", value)));
  ATOLL_RETURN_IF_ERROR(SealMeta(database));
  return database.Run("COMMIT");
}

// ---- the ledger -----------------------------------------------------------------------------------------------------

class SqliteLedger final : public Ledger {
 public:
  explicit SqliteLedger(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  absl::Status Commit(const std::vector<LedgerRecord>& records) override {
    if (database_->IsUnlinked()) {
      return absl::FailedPreconditionError(
          absl::StrCat(database_->path(),
                       " was moved or removed while this coordinator was running: nothing can be stored any more. Move "
                       "it back, or restore a backup, then start the coordinator again"));
    }
    ATOLL_RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE"));
    ATOLL_ASSIGN_OR_RETURN(const int64_t first, database_->Number("SELECT next_seq FROM meta"));
    auto next_seq = static_cast<uint64_t>(first);
    absl::Status status;
    for (const LedgerRecord& record : records) {
      if (status.ok()) status = WriteRecord(*database_, record, next_seq);
    }
    if (status.ok()) status = database_->Run(absl::StrCat("UPDATE meta SET next_seq = ", next_seq));
    if (status.ok()) status = SealMeta(*database_);
    if (status.ok()) status = database_->Run("COMMIT");
    // The first error is returned; a failed rollback would not change it.
    if (!status.ok()) database_->Run("ROLLBACK").IgnoreError();
    return status;
  }

  absl::StatusOr<RecoveredState> Recover() override {
    ATOLL_RETURN_IF_ERROR(CheckRows(*database_));
    ATOLL_RETURN_IF_ERROR(SetBoot(*database_, "boot + 1"));
    ATOLL_ASSIGN_OR_RETURN(const LedgerRows rows, ReadLedgerRows(*database_));
    LedgerFold fold;
    fold.Apply(rows.state);
    ATOLL_RETURN_IF_ERROR(HistoryFold(rows.state, fold).Take(*database_, rows.history));
    fold.Apply(rows.screened);
    return fold.State(rows.boot);
  }

  absl::StatusOr<std::vector<RoundRecord>> Rounds(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                  Version after, size_t limit) const override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare("SELECT record FROM rounds WHERE job = ? AND epoch = ? AND "
                                                           "fragment = ? AND version > ? ORDER BY version LIMIT ?"));
    s.Bind(job.value).Bind(epoch).Bind(uint64_t{fragment.value}).Bind(after.value);
    s.Bind(static_cast<int64_t>(std::min<size_t>(limit, INT64_MAX)));
    std::vector<RoundRecord> out;
    for (;;) {
      ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
      if (!row) return out;
      ATOLL_ASSIGN_OR_RETURN(out.emplace_back(), ParseRoundRecord(s.NextBlob(), job, epoch));
    }
  }

  absl::Status PutToken(const TokenRecord& token) override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare(SealedInsert("INSERT OR REPLACE INTO tokens", 11)));
    const auto* hash = reinterpret_cast<const char*>(token.secret_hash.bytes().data());
    s.Bind(token.id).BindBlob({hash, token.secret_hash.bytes().size()}).Bind(RoleName(token.role)).Bind(token.name);
    s.Bind(uint64_t{token.uses}).Bind(uint64_t{token.used}).Bind(token.create_s).Bind(token.end_s);
    std::string holders;
    for (const Sha256& holder : token.holders)
      holders.append(reinterpret_cast<const char*>(holder.bytes.data()), holder.bytes.size());
    return s.Bind(uint64_t{token.revoked}).Bind(token.issue_s).BindBlob(holders).Run();
  }
  absl::Status DropToken(const std::string& id) override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare("DELETE FROM tokens WHERE id = ?"));
    return s.Bind(id).Run();
  }
  absl::StatusOr<std::vector<TokenRecord>> Tokens() const override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare("SELECT * FROM tokens ORDER BY id"));
    std::vector<TokenRecord> out;
    for (;;) {
      ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
      if (!row) return out;
      ATOLL_ASSIGN_OR_RETURN(out.emplace_back(), ReadToken(s));
    }
  }

  absl::Status PutRevocation(const RevocationRecord& revocation) override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare(SealedInsert("INSERT OR REPLACE INTO revocations", 3)));
    return s.Bind(revocation.name).Bind(revocation.revoke_s).Bind(revocation.by).Run();
  }
  absl::Status DropRevocation(const std::string& name) override {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_->Prepare("DELETE FROM revocations WHERE name = ?"));
    return s.Bind(name).Run();
  }
  absl::StatusOr<std::vector<RevocationRecord>> Revocations() const override {
    ATOLL_ASSIGN_OR_RETURN(Statement s,
                           database_->Prepare("SELECT name, revoke_s, revoked_by FROM revocations ORDER BY name"));
    std::vector<RevocationRecord> out;
    for (;;) {
      ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
      if (!row) return out;
      RevocationRecord& revocation = out.emplace_back(RevocationRecord{.name = s.NextText()});
      revocation.revoke_s = s.NextSigned();
      revocation.by = s.NextText();
    }
  }

 private:
  static absl::StatusOr<TokenRecord> ReadToken(Statement& s) {
    TokenRecord token{.id = s.NextText()};
    const std::string hash = s.NextBlob();
    const absl::StatusOr<Role> role = ParseRole(s.NextText());
    const absl::Status damaged = absl::DataLossError(
        absl::StrCat("join token ", token.id, " in the ledger is damaged: restore the ledger from a copy"));
    if (hash.size() != token.secret_hash.bytes().size() || !role.ok()) return damaged;
    std::copy(hash.begin(), hash.end(), token.secret_hash.bytes().begin());
    token.role = *role;
    token.name = s.NextText();
    token.uses = static_cast<uint32_t>(s.NextNumber());
    token.used = static_cast<uint32_t>(s.NextNumber());
    token.create_s = s.NextSigned();
    token.end_s = s.NextSigned();
    token.revoked = s.NextNumber() != 0;
    token.issue_s = s.NextSigned();
    const std::string holders = s.NextBlob();
    if (holders.size() % sizeof(Sha256::bytes) != 0) return damaged;
    token.holders.resize(holders.size() / sizeof(Sha256::bytes));
    for (size_t i = 0; i < token.holders.size(); ++i) {
      std::array<uint8_t, 32>& bytes = token.holders[i].bytes;
      std::copy_n(reinterpret_cast<const uint8_t*>(holders.data()) + i * bytes.size(), bytes.size(), bytes.begin());
    }
    return token;
  }

  const std::unique_ptr<Database> database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> OpenSqliteLedger(const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path));
  ATOLL_RETURN_IF_ERROR(PrepareLedgerSchema(*database, path));
  return std::make_unique<SqliteLedger>(std::move(database));
}

absl::Status BeginLedgerLine(const std::string& path, int64_t wall_s) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open(path));
  ATOLL_RETURN_IF_ERROR(PrepareLedgerSchema(*database, path));
  ATOLL_ASSIGN_OR_RETURN(const int64_t boot, database->Number("SELECT boot FROM meta"));
  const BootNumber line = NextLine(BootNumber{static_cast<uint64_t>(boot)}, wall_s);
  return SetBoot(*database, absl::StrCat(line.value));
}

}  // namespace atl
