// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_reader.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/wire/record_messages.h"

namespace atl {
namespace {

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

// Calls `visit` with the statement at each row of the query, until it returns an error.
template <typename Visit>
absl::Status EachRow(const Database& database, const char* query, const Visit& visit) {
  ATOLL_ASSIGN_OR_RETURN(Statement rows, database.Prepare(query));
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return absl::OkStatus();
    ATOLL_RETURN_IF_ERROR(visit(rows));
  }
}

absl::Status ReadJobs(const Database& database, std::vector<LedgerRecord>& out) {
  return EachRow(database, "SELECT * FROM jobs", [&](Statement& s) -> absl::Status {
    JobRecord r;
    r.job.value = s.NextText();
    r.sequence = s.NextNumber();
    absl::StatusOr<JobSpec> spec = ParseJobSpec(s.NextBlob());
    if (!spec.ok()) return Annotate(spec.status(), absl::StrCat("job ", r.job.value));
    r.spec = *std::move(spec);
    r.spec_revision = s.NextNumber();
    r.state = static_cast<JobState>(s.NextNumber());
    r.reason = s.NextText();
    r.request_id = s.NextText();
    r.stop_step = s.NextNumber();
    r.dataset_samples = s.NextNumber();
    r.held_out_samples = s.NextNumber();
    const uint64_t fragments = s.NextNumber();
    if (fragments > limits::kFragments) {
      return absl::DataLossError(absl::StrCat("job ", r.job.value, " has ", fragments, " fragments, more than the ",
                                              limits::kFragments, " that a job can have"));
    }
    r.fragments = static_cast<uint32_t>(fragments);
    r.epoch = s.NextNumber();
    r.parameters_ready = s.NextNumber() != 0;
    r.draining = s.NextNumber() != 0;
    r.next_evaluation = s.NextNumber();
    r.create_wall_nanos = s.NextSigned();
    r.start_wall_nanos = s.NextSigned();
    r.end_wall_nanos = s.NextSigned();
    out.push_back(std::move(r));
    return absl::OkStatus();
  });
}

absl::Status ReadPools(const Database& database, std::vector<LedgerRecord>& out) {
  std::map<JobId, PoolRecord> pools;
  ATOLL_RETURN_IF_ERROR(EachRow(database, "SELECT * FROM pools", [&](Statement& s) -> absl::Status {
    PoolRecord r;
    r.job.value = s.NextText();
    r.frontier = s.NextNumber();
    r.consumed = s.NextNumber();
    r.abandoned = s.NextNumber();
    pools[r.job] = std::move(r);
    return absl::OkStatus();
  }));
  ATOLL_RETURN_IF_ERROR(EachRow(database, "SELECT job, first, last FROM pool_ranges ORDER BY job, first",
                                [&](Statement& ranges) -> absl::Status {
                                  PoolRecord& pool = pools[JobId{ranges.NextText()}];
                                  const uint64_t begin = ranges.NextNumber();
                                  pool.returned.push_back({begin, ranges.NextNumber()});
                                  return absl::OkStatus();
                                }));
  for (auto& [job, pool] : pools) out.push_back(std::move(pool));
  return absl::OkStatus();
}

absl::Status ReadWorkers(const Database& database, std::vector<LedgerRecord>& out) {
  return EachRow(database, "SELECT * FROM workers", [&](Statement& s) -> absl::Status {
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
    return absl::OkStatus();
  });
}

absl::Status ReadLeases(const Database& database, std::vector<LedgerRecord>& out) {
  return EachRow(database, "SELECT * FROM leases", [&](Statement& s) -> absl::Status {
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
    return absl::OkStatus();
  });
}

absl::Status ReadScreened(const Database& database, std::vector<LedgerRecord>& out) {
  return EachRow(database, "SELECT * FROM screened", [&](Statement& s) -> absl::Status {
    ScreenedRecord r;
    r.job.value = s.NextText();
    r.epoch = s.NextNumber();
    r.target.fragment.value = static_cast<uint32_t>(s.NextNumber());
    r.target.version.value = s.NextNumber();
    r.worker.value = s.NextText();
    const std::vector<Digest> digest = UnpackDigests(s.NextBlob());
    if (digest.size() == 1) r.digest = digest[0];
    out.push_back(std::move(r));
    return absl::OkStatus();
  });
}

absl::Status ReadEvaluations(const Database& database, LedgerHistory& out) {
  return EachRow(database, "SELECT * FROM evaluations", [&](Statement& s) -> absl::Status {
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
    return absl::OkStatus();
  });
}

absl::Status ReadCheckpoints(const Database& database, LedgerHistory& out) {
  return EachRow(database, "SELECT * FROM checkpoints", [&](Statement& s) -> absl::Status {
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
    return absl::OkStatus();
  });
}

absl::Status ReadRollbacks(const Database& database, LedgerHistory& out) {
  return EachRow(database, "SELECT * FROM rollbacks", [&](Statement& s) -> absl::Status {
    RollbackRecord r;
    const uint64_t seq = s.NextNumber();
    r.job.value = s.NextText();
    r.epoch = s.NextNumber();
    r.versions = UnpackVersions(s.NextBlob());
    out.emplace(seq, std::move(r));
    return absl::OkStatus();
  });
}

absl::Status ReadMeta(const Database& database, LedgerRows& out) {
  ATOLL_ASSIGN_OR_RETURN(
      Statement s,
      database.Prepare(
          "SELECT boot, next_seq, next_lease, next_incarnation, next_job_sequence FROM meta WHERE id = 1"));
  ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
  if (!row) return absl::DataLossError("table meta of the ledger has no row, not one: restore it from a copy");
  out.boot.value = s.NextNumber();
  out.next_seq = s.NextNumber();
  out.counters.next_lease = s.NextNumber();
  out.counters.next_incarnation = s.NextNumber();
  out.counters.next_job_sequence = s.NextNumber();
  out.state.push_back(out.counters);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LedgerRows> ReadLedgerRows(const Database& database) {
  LedgerRows out;
  ATOLL_RETURN_IF_ERROR(ReadMeta(database, out));
  ATOLL_RETURN_IF_ERROR(ReadJobs(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadPools(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadWorkers(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadLeases(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadScreened(database, out.screened));
  ATOLL_RETURN_IF_ERROR(ReadEvaluations(database, out.history));
  ATOLL_RETURN_IF_ERROR(ReadCheckpoints(database, out.history));
  ATOLL_RETURN_IF_ERROR(ReadRollbacks(database, out.history));
  return out;
}

absl::Status VisitRounds(const Database& database, const std::function<absl::Status(RoundRow)>& visit) {
  const char* const query = "SELECT seq, job, epoch, fragment, version, record FROM rounds ORDER BY seq";
  return EachRow(database, query, [&](Statement& s) -> absl::Status {
    RoundRow row;
    row.seq = s.NextNumber();
    const JobId job{s.NextText()};
    const uint64_t epoch = s.NextNumber();
    row.reached.fragment.value = static_cast<uint32_t>(s.NextNumber());
    row.reached.version.value = s.NextNumber();
    ATOLL_ASSIGN_OR_RETURN(row.record, ParseRoundRecord(s.NextBlob(), job, epoch));
    return visit(std::move(row));
  });
}

}  // namespace atl
