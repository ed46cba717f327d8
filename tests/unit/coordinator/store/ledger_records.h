// SPDX-License-Identifier: Apache-2.0
// Records of every type, and a ledger's contents as one text, for tests of ledger forms and files.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_STORE_LEDGER_RECORDS_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_STORE_LEDGER_RECORDS_H_

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/wire/record_messages.h"
#include "coordinator/store/ledger.h"

namespace atl {

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

inline JobRecord MakeJob(const std::string& name, uint64_t sequence) {
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

inline RoundRecord MakeRound(const std::string& job, uint32_t fragment, uint64_t reached, uint64_t epoch = 0) {
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

inline CheckpointRecord MakeCheckpoint(uint64_t step, std::vector<Version> versions) {
  CheckpointRecord checkpoint;
  checkpoint.job = {"tiny"};
  checkpoint.step = step;
  checkpoint.versions = std::move(versions);
  for (const Version v : checkpoint.versions) checkpoint.hashes.push_back({v.value, 42});
  checkpoint.complete = true;
  checkpoint.pool_consumed = 11;
  checkpoint.pool_frontier = 22;
  checkpoint.wall_nanos = 33;
  checkpoint.kept_for_good = true;
  return checkpoint;
}

// Records of every type, in three transactions.
inline std::vector<std::vector<LedgerRecord>> EveryRecord() {
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
       MakeRound("tiny", 0, 1), MakeRound("tiny", 1, 1), evaluation,
       ScreenedRecord{{"tiny"}, 0, {{0}, {1}}, {"sofia-1"}, {3, 4}},
       ScreenedRecord{{"tiny"}, 0, {{1}, {1}}, {"paris-1"}, {5, 6}}},
      {MakeRound("tiny", 0, 2), LeaseClosed{{2}}, PoolRecord{{"tiny"}, 200, {{30, 40}}, 60, 7},
       MakeCheckpoint(100, {{2}, {1}}), MakeCheckpoint(150, {{2}, {1}}), CheckpointDropped{{"tiny"}, 150}},
  };
}

// All fields as one text, so that one comparison covers every field.
inline std::string Describe(const RecoveredState& state) {
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
    absl::StrAppend(&out, "\n clock ", j.clock_step, " ", j.rounds_committed, " ", j.tokens_committed, " ",
                    j.round_wall_nanos, "\n");
    for (const FragmentHead& head : j.heads)
      absl::StrAppend(&out, " head ", head.version.value, " ", head.hash.Hex(), "\n");
    for (const ContributionHeader& c : j.committed)
      absl::StrAppend(&out, " committed ", SerializeContributionBegin(c), "\n");
    for (const ScreenedRecord& refused : j.screened) {
      absl::StrAppend(&out, " screened ", refused.epoch, " ", refused.target.fragment.value, " ",
                      refused.target.version.value, " ", refused.worker.value, " ", refused.digest.Hex(), "\n");
    }
    for (const EvaluationRecord& e : j.evaluations) {
      absl::StrAppend(&out, " evaluation ", e.evaluation, " ", e.clock_step, " ", versions(e.versions), " ",
                      e.nll_micro_nats, " ", e.tokens, " ", e.text_bytes, " ", e.trained_tokens, " ", e.wall_nanos, " ",
                      SerializeTaskScores(e.tasks), "\n");
    }
    for (const CheckpointRecord& c : j.checkpoints) {
      absl::StrAppend(&out, " checkpoint ", c.step, " ", versions(c.versions), " ", c.hashes.at(0).Hex(), c.complete,
                      " ", c.pool_consumed, " ", c.pool_frontier, " ", c.wall_nanos, " ", c.kept_for_good, "\n");
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

inline TokenRecord SomeToken(const std::string& id) {
  return {.id = id,
          .secret_hash = Secret<32>(Sha256Of(AsBytes(id)).bytes),
          .role = Role::kOperator,
          .name = "bob",
          .uses = 7,
          .used = 3,
          .create_s = 1'800'000'000,
          .end_s = 1'800'086'400,
          .issue_s = 1'800'000'050,
          .holders = {Sha256Of(AsBytes(std::string("one"))), Sha256Of(AsBytes(id))}};
}

inline void RunSql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db) << ": " << sql;
  sqlite3_close(db);
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_STORE_LEDGER_RECORDS_H_
