// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_records.h"

#include <concepts>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/ledger_rows.h"

namespace atl {
namespace {

// ---- columns --------------------------------------------------------------------------------------------------------
// The columns of each table from left to right (ledger_schema.cc), as members of a record that is read or written.

template <class T, class Record>
concept Is = std::same_as<std::remove_const_t<T>, Record>;

auto Columns(Is<JobRecord> auto& r, auto& fragments) {
  return std::tie(r.job, r.sequence, r.spec, r.spec_revision, r.state, r.reason, r.request_id, r.stop_step,
                  r.dataset_samples, r.held_out_samples, fragments, r.epoch, r.parameters_ready, r.draining,
                  r.next_evaluation, r.create_wall_nanos, r.start_wall_nanos, r.end_wall_nanos);
}
auto Columns(Is<PoolRecord> auto& r) { return std::tie(r.job, r.frontier, r.consumed, r.abandoned); }
auto Columns(Is<WorkerRecord> auto& r) {
  return std::tie(r.worker, r.incarnation, r.start_nonce, r.job, r.evaluate_only, r.device, r.leases_from, r.quarantine,
                  r.cordoned);
}
auto Columns(Is<LeaseRecord> auto& r) {
  return std::tie(r.lease, r.job, r.worker, r.incarnation, r.range.begin, r.range.end, r.consumed_to, r.request,
                  r.revoked);
}
auto Columns(Is<ScreenedRecord> auto& r) {
  return std::tie(r.job, r.epoch, r.target.fragment, r.target.version, r.worker, r.digest);
}
auto Columns(Is<EvaluationRecord> auto& r, auto& seq) {
  return std::tie(r.job, r.evaluation, seq, r.clock_step, r.versions, r.nll_micro_nats, r.tokens, r.text_bytes,
                  r.trained_tokens, r.wall_nanos, r.tasks);
}
auto Columns(Is<CheckpointRecord> auto& r, auto& seq, auto& dropped) {
  return std::tie(seq, r.job, r.step, dropped, r.versions, r.hashes, r.complete, r.pool_consumed, r.pool_frontier,
                  r.wall_nanos, r.kept_for_good);
}
auto Columns(Is<RollbackRecord> auto& r, auto& seq) { return std::tie(seq, r.job, r.epoch, r.versions); }
auto Columns(Is<CountersRecord> auto& r) { return std::tie(r.next_lease, r.next_incarnation, r.next_job_sequence); }

// ---- blobs ----------------------------------------------------------------------------------------------------------

std::string Pack(const VersionVector& versions) {
  std::string out;
  for (const Version v : versions) PutBig(out, v.value);
  return out;
}
std::string Pack(const std::vector<Digest>& hashes) {
  std::string out;
  for (const Digest& hash : hashes) {
    PutBig(out, hash.high);
    PutBig(out, hash.low);
  }
  return out;
}
std::string Pack(const Digest& digest) { return Pack(std::vector<Digest>{digest}); }
std::string Pack(const JobSpec& spec) { return SerializeJobSpec(spec); }
std::string Pack(const std::vector<TaskScore>& scores) { return SerializeTaskScores(scores); }
std::string Pack(const RoundRecord& round) { return SerializeRoundRecord(round); }

uint64_t GetBig(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}
absl::StatusOr<VersionVector> Unpack(const std::string& bytes, const VersionVector&) {
  VersionVector out;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) out.push_back({GetBig(bytes, at)});
  return out;
}
absl::StatusOr<std::vector<Digest>> Unpack(const std::string& bytes, const std::vector<Digest>&) {
  std::vector<Digest> out;
  for (size_t at = 0; at + 16 <= bytes.size(); at += 16) out.push_back({GetBig(bytes, at), GetBig(bytes, at + 8)});
  return out;
}
absl::StatusOr<Digest> Unpack(const std::string& bytes, const Digest&) {
  return bytes.size() == 16 ? Digest{GetBig(bytes, 0), GetBig(bytes, 8)} : Digest{};
}
absl::StatusOr<JobSpec> Unpack(const std::string& bytes, const JobSpec&) { return ParseJobSpec(bytes); }
absl::StatusOr<std::vector<TaskScore>> Unpack(const std::string& bytes, const std::vector<TaskScore>&) {
  return ParseTaskScores(bytes);
}

// ---- one row --------------------------------------------------------------------------------------------------------

template <class T>
void BindColumn(Statement& s, const T& value) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    s.Bind(static_cast<uint64_t>(value));
  } else if constexpr (requires { value.value; }) {
    BindColumn(s, value.value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    s.Bind(value);
  } else {
    s.BindBlob(Pack(value));
  }
}
template <class... T>
Statement& Bind(Statement& s, const std::tuple<T&...>& columns) {
  std::apply([&s](const auto&... column) { (BindColumn(s, column), ...); }, columns);
  return s;
}

template <class T>
absl::Status NextColumn(Statement& s, T& value) {
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    value = static_cast<T>(s.NextNumber());
  } else if constexpr (requires { value.value; }) {
    return NextColumn(s, value.value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = s.NextText();
  } else {
    ATOLL_ASSIGN_OR_RETURN(value, Unpack(s.NextBlob(), value));
  }
  return absl::OkStatus();
}
template <class... T>
absl::Status Next(Statement& s, const std::tuple<T&...>& columns) {
  absl::Status status;
  std::apply([&](auto&... column) { static_cast<void>((... && (status = NextColumn(s, column)).ok())); }, columns);
  return status;
}

// ---- writing --------------------------------------------------------------------------------------------------------

// Writes the records of one transaction.
class RecordWriter {
 public:
  RecordWriter(Database& database, uint64_t& next_seq) : database_(database), next_seq_(next_seq) {}

  absl::Status operator()(const JobRecord& r) { return Insert("INSERT OR REPLACE INTO jobs", Columns(r, r.fragments)); }
  absl::Status operator()(const PoolRecord& r) {
    ATOLL_RETURN_IF_ERROR(Insert("INSERT OR REPLACE INTO pools", Columns(r)));
    ATOLL_RETURN_IF_ERROR(Run("DELETE FROM pool_ranges WHERE job = ?", std::tie(r.job)));
    ATOLL_ASSIGN_OR_RETURN(Statement range, database_.Prepare(SealedInsert("INSERT INTO pool_ranges", 3)));
    for (const SampleRange& free : r.returned)
      ATOLL_RETURN_IF_ERROR(Bind(range, std::tie(r.job, free.begin, free.end)).Run());
    return absl::OkStatus();
  }
  absl::Status operator()(const WorkerRecord& r) { return Insert("INSERT OR REPLACE INTO workers", Columns(r)); }
  absl::Status operator()(const WorkerForgotten& r) {
    return Run("DELETE FROM workers WHERE worker = ?", std::tie(r.worker));
  }
  absl::Status operator()(const LeaseRecord& r) { return Insert("INSERT OR REPLACE INTO leases", Columns(r)); }
  absl::Status operator()(const LeaseClosed& r) { return Run("DELETE FROM leases WHERE lease = ?", std::tie(r.lease)); }
  absl::Status operator()(const ScreenedRecord& r) { return Insert("INSERT OR REPLACE INTO screened", Columns(r)); }
  absl::Status operator()(const RoundRecord& r) {
    ATOLL_RETURN_IF_ERROR(
        Run("DELETE FROM screened WHERE job = ? AND fragment = ?", std::tie(r.job, r.reached.fragment)));
    const uint64_t seq = next_seq_++;
    const auto key = std::tie(r.job, r.epoch, r.reached.fragment, r.reached.version);
    ATOLL_RETURN_IF_ERROR(Insert("INSERT OR IGNORE INTO rounds", std::tuple_cat(key, std::tie(seq, r))));
    if (database_.changes() == 1) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(
        Statement there,
        database_.Prepare("SELECT record FROM rounds WHERE job = ? AND epoch = ? AND fragment = ? AND version = ?"));
    ATOLL_ASSIGN_OR_RETURN(const bool row, Bind(there, key).Step());
    if (row && there.NextBlob() == Pack(r)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("version ", r.reached.version.value, " of fragment ",
                                            r.reached.fragment.value, " of job ", r.job.value,
                                            " was committed before with other content"));
  }
  absl::Status operator()(const EvaluationRecord& r) {
    const uint64_t seq = next_seq_++;
    ATOLL_RETURN_IF_ERROR(Insert("INSERT OR IGNORE INTO evaluations", Columns(r, seq)));
    if (database_.changes() == 1) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("evaluation ", r.evaluation, " of job ", r.job.value, " was recorded before"));
  }
  absl::Status operator()(const CheckpointRecord& r) { return WriteCheckpoint(r, false); }
  absl::Status operator()(const CheckpointDropped& r) { return WriteCheckpoint({.job = r.job, .step = r.step}, true); }
  absl::Status operator()(const CountersRecord& r) {
    return Run("UPDATE meta SET next_lease = ?, next_incarnation = ?, next_job_sequence = ?", Columns(r));
  }
  absl::Status operator()(const RollbackRecord& r) {
    ATOLL_RETURN_IF_ERROR(Run("DELETE FROM screened WHERE job = ?", std::tie(r.job)));
    const uint64_t seq = next_seq_++;
    return Insert("INSERT INTO rollbacks", Columns(r, seq));
  }

 private:
  // Dropped checkpoints stay in the history, because a rollback refers to the checkpoints of its
  // time.
  absl::Status WriteCheckpoint(const CheckpointRecord& r, bool dropped) {
    const uint64_t seq = next_seq_++;
    return Insert("INSERT INTO checkpoints", Columns(r, seq, dropped));
  }

  absl::Status Run(const std::string& sql, const auto& columns) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(sql));
    return Bind(s, columns).Run();
  }
  template <class... T>
  absl::Status Insert(const char* insert, const std::tuple<T&...>& columns) {
    return Run(SealedInsert(insert, sizeof...(T)), columns);
  }

  Database& database_;
  uint64_t& next_seq_;
};

// ---- reading --------------------------------------------------------------------------------------------------------

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

template <typename Record>
absl::Status ReadState(const Database& database, const char* query, std::vector<LedgerRecord>& out) {
  return EachRow(database, query, [&out](Statement& s) {
    Record r;
    const absl::Status status = Next(s, Columns(r));
    out.push_back(std::move(r));
    return status;
  });
}

template <typename Record>
absl::Status ReadHistory(const Database& database, const char* query, LedgerHistory& out) {
  return EachRow(database, query, [&out](Statement& s) {
    Record r;
    uint64_t seq = 0;
    const absl::Status status = Next(s, Columns(r, seq));
    out.emplace(seq, std::move(r));
    return status;
  });
}

absl::Status ReadJobs(const Database& database, std::vector<LedgerRecord>& out) {
  return EachRow(database, "SELECT * FROM jobs", [&](Statement& s) -> absl::Status {
    JobRecord r;
    uint64_t fragments = 0;
    const absl::Status status = Next(s, Columns(r, fragments));
    if (!status.ok()) return Annotate(status, absl::StrCat("job ", r.job.value));
    if (fragments > limits::kFragments) {
      return absl::DataLossError(absl::StrCat("job ", r.job.value, " has ", fragments, " fragments, more than the ",
                                              limits::kFragments, " that a job can have"));
    }
    r.fragments = static_cast<uint32_t>(fragments);
    out.push_back(std::move(r));
    return absl::OkStatus();
  });
}

absl::Status ReadPools(const Database& database, std::vector<LedgerRecord>& out) {
  std::map<JobId, PoolRecord> pools;
  ATOLL_RETURN_IF_ERROR(EachRow(database, "SELECT * FROM pools", [&](Statement& s) {
    PoolRecord r;
    const absl::Status status = Next(s, Columns(r));
    pools[r.job] = std::move(r);
    return status;
  }));
  const char* const query = "SELECT job, first, last FROM pool_ranges ORDER BY job, first";
  ATOLL_RETURN_IF_ERROR(EachRow(database, query, [&](Statement& s) {
    JobId job;
    SampleRange range;
    const absl::Status status = Next(s, std::tie(job, range.begin, range.end));
    pools[job].returned.push_back(range);
    return status;
  }));
  for (auto& [job, pool] : pools) out.push_back(std::move(pool));
  return absl::OkStatus();
}

absl::Status ReadCheckpoints(const Database& database, LedgerHistory& out) {
  return EachRow(database, "SELECT * FROM checkpoints", [&](Statement& s) {
    CheckpointRecord r;
    uint64_t seq = 0;
    bool dropped = false;
    const absl::Status status = Next(s, Columns(r, seq, dropped));
    if (dropped)
      out.emplace(seq, CheckpointDropped{r.job, r.step});
    else
      out.emplace(seq, std::move(r));
    return status;
  });
}

absl::Status ReadMeta(const Database& database, LedgerRows& out) {
  ATOLL_ASSIGN_OR_RETURN(
      Statement s,
      database.Prepare(
          "SELECT boot, next_seq, next_lease, next_incarnation, next_job_sequence FROM meta WHERE id = 1"));
  ATOLL_ASSIGN_OR_RETURN(const bool row, s.Step());
  if (!row) return absl::DataLossError("table meta of the ledger has no row: restore it from a copy");
  CountersRecord& counters = out.counters;
  const absl::Status status = Next(
      s, std::tie(out.boot, out.next_seq, counters.next_lease, counters.next_incarnation, counters.next_job_sequence));
  out.state.push_back(counters);
  return status;
}

}  // namespace

absl::Status WriteRecord(Database& database, const LedgerRecord& record, uint64_t& next_seq) {
  return std::visit(RecordWriter(database, next_seq), record);
}

absl::StatusOr<LedgerRows> ReadLedgerRows(const Database& database) {
  LedgerRows out;
  ATOLL_RETURN_IF_ERROR(ReadMeta(database, out));
  ATOLL_RETURN_IF_ERROR(ReadJobs(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadPools(database, out.state));
  ATOLL_RETURN_IF_ERROR(ReadState<WorkerRecord>(database, "SELECT * FROM workers", out.state));
  ATOLL_RETURN_IF_ERROR(ReadState<LeaseRecord>(database, "SELECT * FROM leases", out.state));
  ATOLL_RETURN_IF_ERROR(ReadState<ScreenedRecord>(database, "SELECT * FROM screened", out.screened));
  ATOLL_RETURN_IF_ERROR(ReadHistory<EvaluationRecord>(database, "SELECT * FROM evaluations", out.history));
  ATOLL_RETURN_IF_ERROR(ReadCheckpoints(database, out.history));
  ATOLL_RETURN_IF_ERROR(ReadHistory<RollbackRecord>(database, "SELECT * FROM rollbacks", out.history));
  return out;
}

absl::Status VisitRounds(const Database& database, const std::function<absl::Status(RoundRow)>& visit) {
  const char* const query = "SELECT seq, job, epoch, fragment, version, record FROM rounds ORDER BY seq";
  return EachRow(database, query, [&](Statement& s) -> absl::Status {
    RoundRow row;
    JobId job;
    uint64_t epoch = 0;
    ATOLL_RETURN_IF_ERROR(Next(s, std::tie(row.seq, job, epoch, row.reached.fragment, row.reached.version)));
    ATOLL_ASSIGN_OR_RETURN(row.record, ParseRoundRecord(s.NextBlob(), job, epoch));
    return visit(std::move(row));
  });
}

}  // namespace atl
