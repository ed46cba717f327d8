// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/ledger_writer.h"

#include "common/wire/record_messages.h"
#include "coordinator/store/ledger_rows.h"

namespace atl {
namespace {

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

uint64_t Flag(bool value) { return value ? 1 : 0; }

// Writes the records of one transaction.
class RecordWriter {
 public:
  RecordWriter(Database& database, uint64_t& next_seq) : database_(database), next_seq_(next_seq) {}

  absl::Status operator()(const JobRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR REPLACE INTO jobs", 18)));
    s.Bind(r.job.value).Bind(r.sequence).BindBlob(SerializeJobSpec(r.spec)).Bind(r.spec_revision);
    s.Bind(uint64_t{static_cast<uint32_t>(r.state)}).Bind(r.reason).Bind(r.request_id).Bind(r.stop_step);
    s.Bind(r.dataset_samples).Bind(r.held_out_samples).Bind(uint64_t{r.fragments}).Bind(r.epoch);
    s.Bind(Flag(r.parameters_ready)).Bind(Flag(r.draining)).Bind(r.next_evaluation);
    return s.Bind(r.create_wall_nanos).Bind(r.start_wall_nanos).Bind(r.end_wall_nanos).Run();
  }
  absl::Status operator()(const PoolRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement pool, database_.Prepare(SealedInsert("INSERT OR REPLACE INTO pools", 4)));
    ATOLL_RETURN_IF_ERROR(pool.Bind(r.job.value).Bind(r.frontier).Bind(r.consumed).Bind(r.abandoned).Run());
    ATOLL_ASSIGN_OR_RETURN(Statement clear, database_.Prepare("DELETE FROM pool_ranges WHERE job = ?"));
    ATOLL_RETURN_IF_ERROR(clear.Bind(r.job.value).Run());
    ATOLL_ASSIGN_OR_RETURN(Statement range, database_.Prepare(SealedInsert("INSERT INTO pool_ranges", 3)));
    for (const SampleRange& free : r.returned) {
      ATOLL_RETURN_IF_ERROR(range.Bind(r.job.value).Bind(free.begin).Bind(free.end).Run());
    }
    return absl::OkStatus();
  }
  absl::Status operator()(const WorkerRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR REPLACE INTO workers", 9)));
    s.Bind(r.worker.value).Bind(r.incarnation.value).Bind(r.start_nonce).Bind(r.job.value).Bind(Flag(r.evaluate_only));
    return s.Bind(r.device).Bind(r.leases_from.value).Bind(r.quarantine).Bind(Flag(r.cordoned)).Run();
  }
  absl::Status operator()(const WorkerForgotten& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare("DELETE FROM workers WHERE worker = ?"));
    return s.Bind(r.worker.value).Run();
  }
  absl::Status operator()(const LeaseRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR REPLACE INTO leases", 9)));
    s.Bind(r.lease.value).Bind(r.job.value).Bind(r.worker.value).Bind(r.incarnation.value).Bind(r.range.begin);
    return s.Bind(r.range.end).Bind(r.consumed_to).Bind(r.request).Bind(Flag(r.revoked)).Run();
  }
  absl::Status operator()(const LeaseClosed& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare("DELETE FROM leases WHERE lease = ?"));
    return s.Bind(r.lease.value).Run();
  }
  absl::Status operator()(const ScreenedRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR REPLACE INTO screened", 6)));
    s.Bind(r.job.value).Bind(r.epoch).Bind(uint64_t{r.target.fragment.value}).Bind(r.target.version.value);
    return s.Bind(r.worker.value).BindBlob(Pack(std::vector<Digest>{r.digest})).Run();
  }
  absl::Status operator()(const RoundRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement over, database_.Prepare("DELETE FROM screened WHERE job = ? AND fragment = ?"));
    ATOLL_RETURN_IF_ERROR(over.Bind(r.job.value).Bind(uint64_t{r.reached.fragment.value}).Run());
    const std::string bytes = SerializeRoundRecord(r);
    const uint64_t fragment = r.reached.fragment.value;
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR IGNORE INTO rounds", 6)));
    s.Bind(r.job.value).Bind(r.epoch).Bind(fragment).Bind(r.reached.version.value);
    ATOLL_RETURN_IF_ERROR(s.Bind(next_seq_++).BindBlob(bytes).Run());
    if (database_.changes() == 1) return absl::OkStatus();
    ATOLL_ASSIGN_OR_RETURN(
        Statement there,
        database_.Prepare("SELECT record FROM rounds WHERE job = ? AND epoch = ? AND fragment = ? AND version = ?"));
    there.Bind(r.job.value).Bind(r.epoch).Bind(fragment).Bind(r.reached.version.value);
    ATOLL_ASSIGN_OR_RETURN(const bool row, there.Step());
    if (row && there.NextBlob() == bytes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("version ", r.reached.version.value, " of fragment ", fragment, " of job ",
                                            r.job.value, " was committed before with other content"));
  }
  absl::Status operator()(const EvaluationRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT OR IGNORE INTO evaluations", 11)));
    s.Bind(r.job.value)
        .Bind(r.evaluation)
        .Bind(next_seq_++)
        .Bind(r.clock_step)
        .BindBlob(Pack(r.versions))
        .Bind(r.nll_micro_nats);
    s.Bind(r.tokens).Bind(r.text_bytes).Bind(r.trained_tokens).Bind(r.wall_nanos);
    ATOLL_RETURN_IF_ERROR(s.BindBlob(SerializeTaskScores(r.tasks)).Run());
    if (database_.changes() == 1) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("evaluation ", r.evaluation, " of job ", r.job.value, " was recorded before"));
  }
  absl::Status operator()(const CheckpointRecord& r) { return WriteCheckpoint(r, false); }
  absl::Status operator()(const CheckpointDropped& r) {
    CheckpointRecord gone;
    gone.job = r.job;
    gone.step = r.step;
    return WriteCheckpoint(gone, true);
  }
  absl::Status operator()(const CountersRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(
        Statement s, database_.Prepare("UPDATE meta SET next_lease = ?, next_incarnation = ?, next_job_sequence = ?"));
    return s.Bind(r.next_lease).Bind(r.next_incarnation).Bind(r.next_job_sequence).Run();
  }
  absl::Status operator()(const RollbackRecord& r) {
    ATOLL_ASSIGN_OR_RETURN(Statement over, database_.Prepare("DELETE FROM screened WHERE job = ?"));
    ATOLL_RETURN_IF_ERROR(over.Bind(r.job.value).Run());
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT INTO rollbacks", 4)));
    return s.Bind(next_seq_++).Bind(r.job.value).Bind(r.epoch).BindBlob(Pack(r.versions)).Run();
  }

 private:
  // Dropped checkpoints stay in the history, because a rollback refers to the checkpoints of its
  // time.
  absl::Status WriteCheckpoint(const CheckpointRecord& r, bool dropped) {
    ATOLL_ASSIGN_OR_RETURN(Statement s, database_.Prepare(SealedInsert("INSERT INTO checkpoints", 11)));
    s.Bind(next_seq_++)
        .Bind(r.job.value)
        .Bind(r.step)
        .Bind(Flag(dropped))
        .BindBlob(Pack(r.versions))
        .BindBlob(Pack(r.hashes));
    s.Bind(Flag(r.complete)).Bind(r.pool_consumed).Bind(r.pool_frontier).Bind(r.wall_nanos);
    return s.Bind(uint64_t{r.kept_for_good}).Run();
  }

  Database& database_;
  uint64_t& next_seq_;
};

}  // namespace

absl::Status WriteRecord(Database& database, const LedgerRecord& record, uint64_t& next_seq) {
  return std::visit(RecordWriter(database, next_seq), record);
}

}  // namespace atl
