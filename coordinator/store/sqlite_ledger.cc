// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/sqlite_ledger.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/plan/boot_lines.h"
#include "common/plan/ledger_fold.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/ledger_rows.h"
#include "coordinator/store/ledger_schema.h"
#include "coordinator/store/ledger_writer.h"
#include "coordinator/store/sqlite.h"

namespace atl {
namespace {

// ---- packed columns -------------------------------------------------------------------------------------------------

uint64_t GetBig(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

VersionVector UnpackVersions(const std::string& bytes) {
  VersionVector out;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) out.push_back({GetBig(bytes, at)});
  return out;
}
std::vector<Digest> UnpackDigests(const std::string& bytes) {
  std::vector<Digest> out;
  for (size_t at = 0; at + 16 <= bytes.size(); at += 16) out.push_back({GetBig(bytes, at), GetBig(bytes, at + 8)});
  return out;
}

// ---- reading --------------------------------------------------------------------------------------------------------

absl::StatusOr<std::vector<LedgerRecord>> ReadJobs(const Database& database) {
  std::vector<LedgerRecord> out;
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM jobs"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return out;
    JobRecord r;
    r.job.value = s.NextText();
    r.sequence = s.NextNumber();
    ATOLL_ASSIGN_OR_RETURN(r.spec, ParseJobSpec(s.NextBlob()));
    r.spec_revision = s.NextNumber();
    r.state = static_cast<JobState>(s.NextNumber());
    r.reason = s.NextText();
    r.request_id = s.NextText();
    r.stop_step = s.NextNumber();
    r.dataset_samples = s.NextNumber();
    r.held_out_samples = s.NextNumber();
    r.fragments = static_cast<uint32_t>(s.NextNumber());
    r.epoch = s.NextNumber();
    r.parameters_ready = s.NextNumber() != 0;
    r.draining = s.NextNumber() != 0;
    r.next_evaluation = s.NextNumber();
    r.create_wall_nanos = s.NextSigned();
    r.start_wall_nanos = s.NextSigned();
    r.end_wall_nanos = s.NextSigned();
    out.push_back(std::move(r));
  }
}

absl::Status ReadPools(const Database& database, std::vector<LedgerRecord>& out) {
  std::map<JobId, PoolRecord> pools;
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM pools"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) break;
    PoolRecord r;
    r.job.value = s.NextText();
    r.frontier = s.NextNumber();
    r.consumed = s.NextNumber();
    r.abandoned = s.NextNumber();
    pools[r.job] = std::move(r);
  }
  ATOLL_ASSIGN_OR_RETURN(Statement ranges,
                         database.Prepare("SELECT job, first, last FROM pool_ranges ORDER BY job, first"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, ranges.Step());
    if (!row) break;
    PoolRecord& pool = pools[JobId{ranges.NextText()}];
    const uint64_t begin = ranges.NextNumber();
    pool.returned.push_back({begin, ranges.NextNumber()});
  }
  for (auto& [job, pool] : pools) out.push_back(std::move(pool));
  return absl::OkStatus();
}

absl::Status ReadWorkers(const Database& database, std::vector<LedgerRecord>& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM workers"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    WorkerRecord r;
    r.worker.value = s.NextText();
    r.incarnation.value = s.NextNumber();
    r.start_nonce = s.NextNumber();
    r.job.value = s.NextText();
    r.evaluate_only = s.NextNumber() != 0;
    r.device = s.NextText();
    r.leases_from.value = s.NextNumber();
    r.quarantine = s.NextText();
    r.cordoned = s.NextNumber() != 0;
    out.push_back(std::move(r));
  }
}

absl::Status ReadLeases(const Database& database, std::vector<LedgerRecord>& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM leases"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    LeaseRecord r;
    r.lease.value = s.NextNumber();
    r.job.value = s.NextText();
    r.worker.value = s.NextText();
    r.incarnation.value = s.NextNumber();
    r.range.begin = s.NextNumber();
    r.range.end = s.NextNumber();
    r.consumed_to = s.NextNumber();
    r.request = s.NextNumber();
    r.revoked = s.NextNumber() != 0;
    out.push_back(std::move(r));
  }
}

absl::Status ReadScreened(const Database& database, std::vector<LedgerRecord>& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM screened"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    ScreenedRecord r;
    r.job.value = s.NextText();
    r.epoch = s.NextNumber();
    r.target.fragment.value = static_cast<uint32_t>(s.NextNumber());
    r.target.version.value = s.NextNumber();
    r.worker.value = s.NextText();
    const std::vector<Digest> digest = UnpackDigests(s.NextBlob());
    if (digest.size() == 1) r.digest = digest[0];
    out.push_back(std::move(r));
  }
}

// All appended records except rounds, by the order of their commits.
using History = std::map<uint64_t, LedgerRecord>;

absl::Status ReadEvaluations(const Database& database, History& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM evaluations"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    EvaluationRecord r;
    r.job.value = s.NextText();
    r.evaluation = s.NextNumber();
    const uint64_t seq = s.NextNumber();
    r.clock_step = s.NextNumber();
    r.versions = UnpackVersions(s.NextBlob());
    r.nll_micro_nats = s.NextSigned();
    r.tokens = s.NextNumber();
    r.text_bytes = s.NextNumber();
    r.trained_tokens = s.NextNumber();
    r.wall_nanos = s.NextSigned();
    ATOLL_ASSIGN_OR_RETURN(r.tasks, ParseTaskScores(s.NextBlob()));
    out.emplace(seq, std::move(r));
  }
}

absl::Status ReadCheckpoints(const Database& database, History& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM checkpoints"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    CheckpointRecord r;
    const uint64_t seq = s.NextNumber();
    r.job.value = s.NextText();
    r.step = s.NextNumber();
    const bool dropped = s.NextNumber() != 0;
    r.versions = UnpackVersions(s.NextBlob());
    r.hashes = UnpackDigests(s.NextBlob());
    r.complete = s.NextNumber() != 0;
    r.pool_consumed = s.NextNumber();
    r.pool_frontier = s.NextNumber();
    r.wall_nanos = s.NextSigned();
    r.kept_for_good = s.NextNumber() != 0;
    if (dropped)
      out.emplace(seq, CheckpointDropped{r.job, r.step});
    else
      out.emplace(seq, std::move(r));
  }
}

absl::Status ReadRollbacks(const Database& database, History& out) {
  ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT * FROM rollbacks"));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::OkStatus();
    RollbackRecord r;
    const uint64_t seq = s.NextNumber();
    r.job.value = s.NextText();
    r.epoch = s.NextNumber();
    r.versions = UnpackVersions(s.NextBlob());
    out.emplace(seq, std::move(r));
  }
}

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
  absl::Status Take(const Database& database, const History& history) {
    auto next = history.begin();
    ATOLL_ASSIGN_OR_RETURN(Statement s, database.Prepare("SELECT seq, job, epoch, record FROM rounds ORDER BY seq"));
    for (;;) {
      ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
      if (!row) break;
      const uint64_t seq = s.NextNumber();
      const JobId job{s.NextText()};
      const uint64_t epoch = s.NextNumber();
      for (; next != history.end() && next->first < seq; ++next) ATOLL_RETURN_IF_ERROR(TakeOne(next->second));
      ATOLL_ASSIGN_OR_RETURN(RoundRecord round, ParseRoundRecord(s.NextBlob(), job, epoch));
      ATOLL_RETURN_IF_ERROR(TakeOne(std::move(round)));
    }
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
                       " was moved or removed while this coordinator was running: nothing more can be "
                       "stored. Move it back, or restore a backup, then start the coordinator again"));
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
    ATOLL_ASSIGN_OR_RETURN(const int64_t boot, database_->Number("SELECT boot FROM meta"));
    ATOLL_ASSIGN_OR_RETURN(std::vector<LedgerRecord> rows, ReadJobs(*database_));
    History history;
    ATOLL_RETURN_IF_ERROR(ReadEvaluations(*database_, history));
    ATOLL_RETURN_IF_ERROR(ReadCheckpoints(*database_, history));
    ATOLL_RETURN_IF_ERROR(ReadRollbacks(*database_, history));
    ATOLL_RETURN_IF_ERROR(ReadPools(*database_, rows));
    ATOLL_RETURN_IF_ERROR(ReadWorkers(*database_, rows));
    ATOLL_RETURN_IF_ERROR(ReadLeases(*database_, rows));
    ATOLL_ASSIGN_OR_RETURN(const CountersRecord counters, ReadCounters());
    rows.push_back(counters);
    LedgerFold fold;
    fold.Apply(rows);
    ATOLL_RETURN_IF_ERROR(HistoryFold(rows, fold).Take(*database_, history));
    std::vector<LedgerRecord> screened;  // of rounds after all of those
    ATOLL_RETURN_IF_ERROR(ReadScreened(*database_, screened));
    fold.Apply(screened);
    return fold.State(BootNumber{static_cast<uint64_t>(boot)});
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

  absl::StatusOr<CountersRecord> ReadCounters() {
    ATOLL_ASSIGN_OR_RETURN(Statement s,
                           database_->Prepare("SELECT next_lease, next_incarnation, next_job_sequence FROM meta"));
    ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return absl::DataLossError("the ledger has lost its counters: restore it from a copy");
    CountersRecord r;
    r.next_lease = s.NextNumber();
    r.next_incarnation = s.NextNumber();
    r.next_job_sequence = s.NextNumber();
    return r;
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
