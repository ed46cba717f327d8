#include "coordinator/store/ledger.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/wire/record_messages.h"
#include "coordinator/store/memory_ledger.h"
#include "coordinator/store/sqlite_ledger.h"

namespace atl {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "atoll-ledger-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

JobRecord MakeJob(const std::string& name, uint64_t sequence) {
  JobRecord job;
  job.job = {name};
  job.sequence = sequence;
  job.spec.name = name;
  job.spec.labels = {{"team", "north"}, {"a", "b"}};
  job.spec.outer.learning_rate = 0.7;
  job.spec.outer.momentum = 0.9;
  job.spec.stop.inner_steps = 1000;
  job.spec.sync.inner_steps = 50;
  job.state = JobState::kRunning;
  job.reason = "it's \"fine\"";
  job.request_id = "0b1c";
  job.stop_step = 1000;
  job.dataset_samples = UINT64_MAX;
  job.held_out_samples = 12;
  job.fragments = 2;
  job.parameters_ready = true;
  job.draining = true;
  job.next_evaluation = 3;
  job.create_wall_nanos = 1;
  job.start_wall_nanos = 2;
  job.end_wall_nanos = -3;
  return job;
}

RoundRecord MakeRound(const std::string& job, uint32_t fragment, uint64_t reached, uint64_t epoch = 0) {
  RoundRecord round;
  round.job = {job};
  round.epoch = epoch;
  round.reached = {{fragment}, {reached}};
  round.spec_revision = 2;
  CommittedContribution c;
  c.header.job = round.job;
  c.header.worker = {"paris-1"};
  c.header.incarnation = {5};
  c.header.target = {{fragment}, {reached - 1}};
  c.header.digest = {7, reached};
  c.header.encoded_bytes = 4096;
  c.header.codec = CodecKind::kBf16;
  c.header.tokens = 640;
  c.header.steps = 10;
  c.header.send_step = 50 * reached;
  c.header.mean_loss_micro = 3'141'592;
  c.header.cursors = {{{1}, 80}, {{2}, 96}};
  c.weight = 1.0 / 3.0;
  c.clip_factor = 0.5;
  c.norm = 12.25;
  round.contributions = {c};
  round.learning_rate = 0.7;
  round.momentum = 0.1 + 0.2;
  round.hash = {reached, fragment};
  round.update_digest = {3, 4};
  round.update_bytes = 4096;
  round.clock_step = 50 * reached;
  round.tokens = 640;
  round.boot = {1};
  round.wall_nanos = 99;
  return round;
}

CheckpointRecord MakeCheckpoint(uint64_t step, std::vector<Version> versions) {
  CheckpointRecord checkpoint;
  checkpoint.job = {"tiny"};
  checkpoint.step = step;
  checkpoint.versions = std::move(versions);
  for (const Version v : checkpoint.versions) checkpoint.hashes.push_back({v.value, 42});
  checkpoint.complete = true;
  checkpoint.pool_consumed = 11;
  checkpoint.pool_frontier = 22;
  checkpoint.wall_nanos = 33;
  return checkpoint;
}

// Records of every type, in three transactions.
std::vector<std::vector<LedgerRecord>> EveryRecord() {
  WorkerRecord worker{{"paris-1"}, {5}, 0xFFFFFFFFFFFFFFFF, {"tiny"}, true, "cpu", {2}, "its norm was far off"};
  const WorkerRecord gone{{"rome-1"}, {4}, 1, {}, false, "cpu", {1}, ""};
  const WorkerRecord back{{"sofia-1"}, {5}, 2, {}, false, "cpu", {3}, ""};
  LeaseRecord lease{{1}, {"tiny"}, {"paris-1"}, {5}, {0, 100}, 80, 4, true};
  LeaseRecord other{{2}, {"tiny"}, {"paris-1"}, {5}, {100, 200}, 100, 5, false};
  PoolRecord pool{{"tiny"}, 200, {{10, 20}, {30, 40}}, 50, 7};
  EvaluationRecord evaluation{{"tiny"}, 0, 50, {{1}, {0}}, -5, 1000, 4000, 640, 77, {{"a", 10, 7, {}}, {"b", 5, 5, 3}}};
  return {
      {MakeJob("tiny", 1), pool, CountersRecord{10, 6, 3}, worker, gone, back, lease, other},
      {WorkerForgotten{{"rome-1"}}, WorkerForgotten{{"sofia-1"}}, back, WorkerForgotten{{"nobody"}}, MakeJob("big", 2),
       MakeRound("tiny", 0, 1), MakeRound("tiny", 1, 1), evaluation},
      {MakeRound("tiny", 0, 2), LeaseClosed{{2}}, PoolRecord{{"tiny"}, 200, {{30, 40}}, 60, 7},
       MakeCheckpoint(100, {{2}, {1}}), MakeCheckpoint(150, {{2}, {1}}), CheckpointDropped{{"tiny"}, 150}},
  };
}

// A text of everything, so that one comparison sees every field.
std::string Describe(const RecoveredState& state) {
  std::string out = absl::StrCat("counters ", state.counters.next_lease, " ", state.counters.next_incarnation, " ",
                                 state.counters.next_job_sequence, "\n");
  const auto versions = [](const VersionVector& v) {
    std::string text;
    for (const Version version : v) absl::StrAppend(&text, version.value, ",");
    return text;
  };
  for (const RecoveredJob& j : state.jobs) {
    const JobRecord& r = j.job;
    absl::StrAppend(&out, "job ", r.job.value, " ", r.sequence, " ", SerializeJobSpec(r.spec), " ", r.spec_revision,
                    " ", static_cast<uint32_t>(r.state), " ", r.reason, " ", r.request_id, " ", r.stop_step, " ",
                    r.dataset_samples, " ", r.held_out_samples, " ", r.fragments, " ", r.epoch, r.parameters_ready,
                    r.draining, " ");
    absl::StrAppend(&out, r.next_evaluation, " ", r.create_wall_nanos, " ", r.start_wall_nanos, " ", r.end_wall_nanos,
                    "\n");
    absl::StrAppend(&out, " pool ", j.pool.frontier, " ", j.pool.consumed, " ", j.pool.abandoned);
    for (const SampleRange& range : j.pool.returned) absl::StrAppend(&out, " [", range.begin, ",", range.end, ")");
    absl::StrAppend(&out, "\n clock ", j.clock_step, " ", j.rounds_committed, " ", j.tokens_committed, "\n");
    for (const FragmentHead& head : j.heads)
      absl::StrAppend(&out, " head ", head.version.value, " ", head.hash.Hex(), "\n");
    for (const ContributionHeader& c : j.committed)
      absl::StrAppend(&out, " committed ", SerializeContributionBegin(c), "\n");
    for (const EvaluationRecord& e : j.evaluations) {
      absl::StrAppend(&out, " evaluation ", e.evaluation, " ", e.clock_step, " ", versions(e.versions), " ",
                      e.nll_micro_nats, " ", e.tokens, " ", e.text_bytes, " ", e.trained_tokens, " ", e.wall_nanos, " ",
                      SerializeTaskScores(e.tasks), "\n");
    }
    for (const CheckpointRecord& c : j.checkpoints) {
      absl::StrAppend(&out, " checkpoint ", c.step, " ", versions(c.versions), " ", c.hashes.at(0).Hex(), c.complete,
                      " ", c.pool_consumed, " ", c.pool_frontier, " ", c.wall_nanos, "\n");
    }
  }
  for (const WorkerRecord& w : state.workers) {
    absl::StrAppend(&out, "worker ", w.worker.value, " ", w.incarnation.value, " ", w.start_nonce, " ", w.job.value,
                    " ", w.evaluate_only, w.device, w.leases_from.value, " ", w.quarantine, " ", w.cordoned, "\n");
  }
  for (const LeaseRecord& l : state.leases) {
    absl::StrAppend(&out, "lease ", l.lease.value, " ", l.job.value, " ", l.worker.value, " ", l.incarnation.value, " ",
                    l.range.begin);
    absl::StrAppend(&out, " ", l.range.end, " ", l.consumed_to, " ", l.request, " ", l.revoked, "\n");
  }
  return out;
}

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

void RunSql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
}

TEST(SqliteLedgerTest, ANewerRevisionIsRefused) {
  TemporaryDirectory directory;
  ASSERT_TRUE(OpenSqliteLedger(directory.File("l")).ok());
  RunSql(directory.File("l"), absl::StrCat("PRAGMA user_version=", kLedgerRevision + 1));
  const absl::Status status = OpenSqliteLedger(directory.File("l")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("use the newer program"), absl::string_view::npos) << status;
}

// What a ledger of revision 1 holds is there after the step to the present one.
TEST(SqliteLedgerTest, AnOlderRevisionIsBroughtUpToDate) {
  TemporaryDirectory directory;
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    for (const auto& records : EveryRecord()) ASSERT_EQ(ledger->Commit(records), absl::OkStatus());
  }
  RunSql(directory.File("l"),
         "ALTER TABLE evaluations DROP COLUMN tasks; DROP TABLE tokens; ALTER TABLE workers DROP COLUMN quarantine; "
         "ALTER TABLE workers DROP COLUMN cordoned; "
         "PRAGMA user_version=1");
  auto ledger = OpenSqliteLedger(directory.File("l"));
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const auto state = (*ledger)->Recover();
  ASSERT_TRUE(state.ok()) << state.status();
  size_t evaluations = 0;
  for (const RecoveredJob& job : state->jobs) {
    for (const EvaluationRecord& e : job.evaluations) {
      EXPECT_EQ(e.wall_nanos, 77);
      EXPECT_TRUE(e.tasks.empty());
      ++evaluations;
    }
  }
  EXPECT_EQ(evaluations, 1u);
}

TokenRecord SomeToken(const std::string& id) {
  return {.id = id,
          .secret_hash = Secret<32>(Sha256Of(AsBytes(id)).bytes),
          .role = Role::kOperator,
          .name = "bob",
          .uses = 7,
          .used = 3,
          .create_s = 1'800'000'000,
          .end_s = 1'800'086'400};
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

TEST(SqliteLedgerTest, ALedgerWithoutTokensIsBroughtUpToDate) {
  TemporaryDirectory directory;
  ASSERT_TRUE(OpenSqliteLedger(directory.File("l")).ok());
  RunSql(directory.File("l"),
         "UPDATE meta SET boot = 41; DROP TABLE tokens; ALTER TABLE workers DROP COLUMN quarantine; ALTER TABLE "
         "workers DROP COLUMN cordoned; "
         "PRAGMA user_version=2");
  auto ledger = OpenSqliteLedger(directory.File("l"));
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ((*ledger)->Recover()->boot.value, 42u);
  EXPECT_TRUE((*ledger)->Tokens()->empty());
  EXPECT_TRUE((*ledger)->PutToken(SomeToken("a")).ok());
}

TEST(SqliteLedgerTest, ALedgerWithoutQuarantinesIsBroughtUpToDate) {
  TemporaryDirectory directory;
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    for (const auto& records : EveryRecord()) ASSERT_EQ(ledger->Commit(records), absl::OkStatus());
    ASSERT_TRUE(ledger->PutToken(SomeToken("a")).ok());
  }
  RunSql(directory.File("l"),
         "ALTER TABLE workers DROP COLUMN quarantine; ALTER TABLE workers DROP COLUMN cordoned; PRAGMA user_version=3");
  {
    auto ledger = OpenSqliteLedger(directory.File("l"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    const auto state = (*ledger)->Recover();
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_EQ(state->workers.size(), 2u);
    WorkerRecord worker = state->workers[0];
    EXPECT_EQ(worker.device, "cpu");
    EXPECT_EQ(worker.quarantine, "");
    EXPECT_EQ(*(*ledger)->Tokens(), std::vector<TokenRecord>{SomeToken("a")});
    worker.quarantine = "its norm was far off";
    ASSERT_TRUE((*ledger)->Commit({worker}).ok());
  }
  const auto again = (*OpenSqliteLedger(directory.File("l")))->Recover();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->workers[0].quarantine, "its norm was far off");
}

TEST(SqliteLedgerTest, ALedgerWithoutCordonsIsBroughtUpToDate) {
  TemporaryDirectory directory;
  {
    auto ledger = *OpenSqliteLedger(directory.File("l"));
    for (const auto& records : EveryRecord()) ASSERT_EQ(ledger->Commit(records), absl::OkStatus());
  }
  RunSql(directory.File("l"), "ALTER TABLE workers DROP COLUMN cordoned; PRAGMA user_version=4");
  {
    auto ledger = OpenSqliteLedger(directory.File("l"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    WorkerRecord worker = (*ledger)->Recover()->workers[0];
    EXPECT_FALSE(worker.cordoned);
    worker.cordoned = true;
    ASSERT_TRUE((*ledger)->Commit({worker}).ok());
  }
  const auto again = (*OpenSqliteLedger(directory.File("l")))->Recover();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->workers[0].cordoned);
  EXPECT_FALSE(again->workers[1].cordoned);
}

TEST(SqliteLedgerTest, ADamagedTokenIsDataLoss) {
  TemporaryDirectory directory;
  ASSERT_TRUE((*OpenSqliteLedger(directory.File("l")))->PutToken(SomeToken("a")).ok());
  RunSql(directory.File("l"), "UPDATE tokens SET role = 'root'");
  EXPECT_EQ((*OpenSqliteLedger(directory.File("l")))->Tokens().status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteLedgerTest, AnotherProgramsFileIsRefused) {
  TemporaryDirectory directory;
  RunSql(directory.File("l"), "CREATE TABLE recipes (name TEXT)");
  EXPECT_EQ(OpenSqliteLedger(directory.File("l")).status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::create_directories(directory.File("d"));
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
  // A copy of the files as they lie at this moment is a crash: it must hold what was committed.
  std::filesystem::copy_file(directory.File("l"), directory.File("copy"));
  std::filesystem::copy_file(directory.File("l-wal"), directory.File("copy-wal"));
  EXPECT_EQ((*OpenSqliteLedger(directory.File("copy")))->Recover()->jobs.size(), 1u);
}

}  // namespace
}  // namespace atl
