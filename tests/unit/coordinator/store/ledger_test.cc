// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/sqlite_ledger.h"
#include "tests/support/memory_ledger.h"
#include "tests/unit/coordinator/store/ledger_records.h"

namespace atl {
namespace {

// Both forms of the ledger under one set of cases.
class LedgerTest : public testing::TestWithParam<bool> {
 protected:
  absl::StatusOr<std::unique_ptr<Ledger>> Open() {
    if (GetParam()) return OpenSqliteLedger(directory_.File("ledger.sqlite"));
    return MakeMemoryLedger(memory_, nullptr);
  }
  TemporaryDirectory directory_;
  MemoryLedgerDisk memory_;
};
INSTANTIATE_TEST_SUITE_P(Forms, LedgerTest, testing::Bool(),
                         [](const auto& form) { return form.param ? std::string("Sqlite") : std::string("Memory"); });

TEST_P(LedgerTest, EveryRecordTypeComesBack) {
  {
    auto ledger = *Open();
    ASSERT_TRUE(ledger->Recover().ok());
    for (const auto& transaction : EveryRecord()) ASSERT_EQ(ledger->Commit(transaction), absl::OkStatus());
  }
  auto ledger = *Open();
  const RecoveredState state = *ledger->Recover();
  EXPECT_EQ(state.boot.value, 2u);
  ASSERT_EQ(state.jobs.size(), 2u);
  const RecoveredJob& tiny = state.jobs[0];
  EXPECT_EQ(tiny.job.spec.labels, MakeJob("tiny", 1).spec.labels);
  EXPECT_EQ(tiny.job.dataset_samples, UINT64_MAX);
  EXPECT_EQ(tiny.heads[0].version.value, 2u);
  EXPECT_EQ(tiny.heads[1].hash, (Digest{1, 1}));
  EXPECT_EQ(tiny.clock_step, 100u);
  EXPECT_EQ(tiny.checkpoints.size(), 1u);
  EXPECT_EQ(tiny.pool.returned, (std::vector<SampleRange>{{30, 40}}));
  ASSERT_EQ(state.leases.size(), 1u);
  EXPECT_EQ(state.leases[0].request, 4u);
  ASSERT_EQ(state.workers.size(), 2u) << "rome-1 is forgotten; sofia-1 was, and came back";
  EXPECT_EQ(state.workers[0].start_nonce, 0xFFFFFFFFFFFFFFFF);

  // The same as the fold of the same records, field by field.
  MemoryLedgerDisk disk;
  auto memory = MakeMemoryLedger(disk, nullptr);
  for (const auto& transaction : EveryRecord()) ASSERT_EQ(memory->Commit(transaction), absl::OkStatus());
  EXPECT_EQ(Describe(state), Describe(*memory->Recover()));
}

// During its lifetime no file of this process grows beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// SQLite reports "disk I/O error" for every failed call except a write to a full disk. The message
// adds the system's error, followed by the remedy.
TEST(SqliteTest, FailedCallReportsItsCause) {
  TemporaryDirectory directory;
  auto database = *Database::Open(directory.File("ledger.sqlite"));
  ASSERT_EQ(database->Run("PRAGMA journal_mode = WAL; CREATE TABLE bytes (value BLOB)"), absl::OkStatus());
  absl::Status status;
  {
    const FileSizeLimit limit(size_t{256} << 10);
    for (int i = 0; i < 100 && status.ok(); ++i) status = database->Run("INSERT INTO bytes VALUES (randomblob(65536))");
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::EndsWith(status.message(), ": disk I/O error: File too large")) << status;
  EXPECT_EQ(database->Run("INSERT INTO bytes VALUES (randomblob(65536))"), absl::OkStatus()) << "it goes on with room";
}

TEST(SqliteLedgerTest, NothingIsStoredInAFileThatWasMovedAway) {
  TemporaryDirectory directory;
  const std::string path = directory.File("ledger.sqlite"), elsewhere = directory.File("elsewhere");
  auto ledger = *OpenSqliteLedger(path);
  ASSERT_EQ(std::rename(path.c_str(), elsewhere.c_str()), 0);
  const absl::Status refused = ledger->Commit(EveryRecord().front());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(),
              testing::HasSubstr("ledger.sqlite was moved or removed while this coordinator was running"));
  ASSERT_EQ(std::rename(elsewhere.c_str(), path.c_str()), 0);
  EXPECT_EQ(ledger->Commit(EveryRecord().front()), absl::OkStatus());
}

TEST_P(LedgerTest, RollbacksSurviveTheirCheckpoint) {
  auto ledger = *Open();
  for (const auto& transaction : EveryRecord()) ASSERT_EQ(ledger->Commit(transaction), absl::OkStatus());
  JobRecord job = MakeJob("tiny", 1);
  job.epoch = 1;
  ASSERT_EQ(ledger->Commit({MakeRound("tiny", 0, 3), MakeRound("tiny", 0, 4)}), absl::OkStatus());
  ASSERT_EQ(ledger->Commit({job, RollbackRecord{{"tiny"}, 1, {{2}, {1}}}}), absl::OkStatus());
  ASSERT_EQ(ledger->Commit({CheckpointDropped{{"tiny"}, 100}, MakeRound("tiny", 0, 3, 1)}), absl::OkStatus());
  ledger.reset();
  ledger = *Open();
  const RecoveredState state = *ledger->Recover();
  EXPECT_EQ(state.jobs[0].heads[0].version.value, 3u);
  EXPECT_EQ(state.jobs[0].heads[1].version.value, 1u);
  EXPECT_EQ(state.jobs[0].heads[1].hash, (Digest{1, 42}));
  EXPECT_EQ(state.jobs[0].clock_step, 150u);
  EXPECT_TRUE(state.jobs[0].checkpoints.empty());
  EXPECT_EQ(ledger->Rounds({"tiny"}, 0, {0}, {0}, 100)->size(), 4u);
  EXPECT_EQ(ledger->Rounds({"tiny"}, 1, {0}, {0}, 100)->size(), 1u);
}

TEST_P(LedgerTest, RoundsComeInOrderWithExactValues) {
  auto ledger = *Open();
  for (const auto& transaction : EveryRecord()) ASSERT_EQ(ledger->Commit(transaction), absl::OkStatus());
  const std::vector<RoundRecord> rounds = *ledger->Rounds({"tiny"}, 0, {0}, {0}, 10);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(SerializeRoundRecord(rounds[0]), SerializeRoundRecord(MakeRound("tiny", 0, 1)));
  EXPECT_EQ(rounds[1].momentum, 0.1 + 0.2);
  EXPECT_EQ(rounds[1].contributions[0].weight, 1.0 / 3.0);
  EXPECT_EQ(rounds[1].contributions[0].header.target.version.value, 1u);
  EXPECT_EQ(ledger->Rounds({"tiny"}, 0, {0}, {1}, 10)->size(), 1u);
  EXPECT_EQ(ledger->Rounds({"tiny"}, 0, {0}, {0}, 1)->size(), 1u);
  EXPECT_EQ(ledger->Rounds({"other"}, 0, {0}, {0}, 10)->size(), 0u);
}

TEST_P(LedgerTest, TheBootNumberRisesWithEachRecovery) {
  auto ledger = *Open();
  EXPECT_EQ(ledger->Recover()->boot.value, 1u);
  EXPECT_EQ(ledger->Recover()->boot.value, 2u);
  ledger.reset();
  EXPECT_EQ((*Open())->Recover()->boot.value, 3u);
}

TEST(SqliteLedgerTest, ATransactionIsAllOrNothing) {
  TemporaryDirectory directory;
  auto ledger = *OpenSqliteLedger(directory.File("l"));
  ASSERT_EQ(ledger->Commit({MakeJob("tiny", 1), MakeRound("tiny", 0, 1)}), absl::OkStatus());
  EXPECT_EQ(ledger->Commit({MakeRound("tiny", 0, 1)}), absl::OkStatus()) << "the same again changes nothing";
  RoundRecord other = MakeRound("tiny", 0, 1);
  other.hash = {9, 9};
  EXPECT_EQ(ledger->Commit({CountersRecord{99, 99, 99}, other}).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ledger->Recover()->counters.next_lease, 1u);
}

TEST(SqliteLedgerTest, ASecondOpenerIsRefusedWithASentence) {
  TemporaryDirectory directory;
  auto first = *OpenSqliteLedger(directory.File("l"));
  const absl::Status second = OpenSqliteLedger(directory.File("l")).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(second.message().find("in use by another coordinator"), absl::string_view::npos) << second;
  first.reset();
  EXPECT_TRUE(OpenSqliteLedger(directory.File("l")).ok());
}

TEST(SqliteLedgerTest, TokensAreKept) {
  TemporaryDirectory directory;
  TokenRecord token = SomeToken("b");
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    ASSERT_TRUE(ledger->PutToken(token).ok());
    ASSERT_TRUE(ledger->PutToken(SomeToken("a")).ok());
    ASSERT_TRUE(ledger->PutToken(SomeToken("c")).ok());
    token.revoked = true;
    ASSERT_TRUE(ledger->PutToken(token).ok());
    ASSERT_TRUE(ledger->DropToken("c").ok());
  }
  const auto tokens = (*OpenSqliteLedger(directory.File("l")))->Tokens();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(*tokens, (std::vector<TokenRecord>{SomeToken("a"), token}));
}

TEST(SqliteLedgerTest, RevocationsAreKept) {
  TemporaryDirectory directory;
  RevocationRecord ops{.name = "ops", .revoke_s = 1'800'000'000, .by = "admin/second"};
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    ASSERT_TRUE(ledger->PutRevocation(ops).ok());
    ASSERT_TRUE(ledger->PutRevocation({.name = "bob", .revoke_s = 7, .by = "admin/admin"}).ok());
    ASSERT_TRUE(ledger->PutRevocation({.name = "a", .revoke_s = 8, .by = "admin/admin"}).ok());
    ops.revoke_s += 60;
    ASSERT_TRUE(ledger->PutRevocation(ops).ok());
    ASSERT_TRUE(ledger->DropRevocation("a").ok());
  }
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    ASSERT_TRUE(ledger->Recover().ok());
    const auto revocations = ledger->Revocations();
    ASSERT_TRUE(revocations.ok()) << revocations.status();
    EXPECT_EQ(*revocations, (std::vector<RevocationRecord>{{.name = "bob", .revoke_s = 7, .by = "admin/admin"}, ops}));
  }
  RunSql(directory.File("l"), "UPDATE revocations SET revoke_s = 0 WHERE name = 'ops'");
  const absl::Status damaged = (*OpenSqliteLedger(directory.File("l")))->Recover().status();
  EXPECT_NE(damaged.message().find("row (ops) of table revocations"), std::string::npos) << damaged;
}

TEST(SqliteLedgerTest, ADamagedTokenIsDataLoss) {
  TemporaryDirectory directory;
  ASSERT_TRUE((*OpenSqliteLedger(directory.File("l")))->PutToken(SomeToken("a")).ok());
  RunSql(directory.File("l"), "UPDATE tokens SET role = 'root'");
  EXPECT_EQ((*OpenSqliteLedger(directory.File("l")))->Tokens().status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteLedgerTest, AFileThatIsNoDatabaseIsDataLoss) {
  TemporaryDirectory directory;
  FILE* f = fopen(directory.File("text").c_str(), "w");
  fputs("this is a text that is no database at all, and it is long enough to be read as a header of one, is it not?",
        f);
  fclose(f);
  EXPECT_EQ(OpenSqliteLedger(directory.File("text")).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteLedgerTest, AContradictionIsDataLossNotACrash) {
  TemporaryDirectory directory;
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    ASSERT_EQ(ledger->Commit({MakeJob("tiny", 1), MakeRound("tiny", 0, 1), MakeRound("tiny", 0, 2)}), absl::OkStatus());
  }
  RunSql(directory.File("l"), "DELETE FROM rounds WHERE version = 1");
  EXPECT_EQ((*OpenSqliteLedger(directory.File("l")))->Recover().status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteLedgerTest, IsFlushedAtEachCommit) {
  TemporaryDirectory directory;
  auto ledger = *OpenSqliteLedger(directory.File("l"));
  ASSERT_EQ(ledger->Commit({MakeJob("tiny", 1)}), absl::OkStatus());
  // A copy of the files at this moment equals a crash: it must hold everything committed.
  std::filesystem::copy_file(directory.File("l"), directory.File("copy"));
  std::filesystem::copy_file(directory.File("l-wal"), directory.File("copy-wal"));
  EXPECT_EQ((*OpenSqliteLedger(directory.File("copy")))->Recover()->jobs.size(), 1u);
}

}  // namespace
}  // namespace atl
