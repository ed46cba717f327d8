// SPDX-License-Identifier: Apache-2.0
// The events of the coordinator's core, and its effects. Pure values: no clock, thread, file,
// socket or floating-point decision. Time is an argument of Core::Step.
#ifndef ATOLL_COORDINATOR_CORE_EVENTS_H_
#define ATOLL_COORDINATOR_CORE_EVENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"
#include "coordinator/core/admission.h"
#include "coordinator/core/screen_events.h"
#include "coordinator/core/tasks.h"

namespace atl {

using ConnectionId = uint64_t;  // of a control stream; never reused in one process
using RequestId = uint64_t;     // of a call that awaits an answer; never reused in one process

// ---- events -------------------------------------------------------------------------------------------------------

struct WorkerConnected {
  ConnectionId connection = 0;
  Hello hello;
};
// Any message but Hello (WorkerConnected) and LogLines (handled by the engine), already validated by the service.
struct WorkerSaid {
  ConnectionId connection = 0;
  WorkerMessage message;
};
struct ConnectionClosed {
  ConnectionId connection = 0;
};
// The certificate of a connected worker was revoked.
struct WorkerRevoked {
  WorkerId worker;
};

// A worker offers an upload. Answered by UploadVerdict.
struct UploadOffered {
  UploadId upload = 0;
  ContributionUpload contribution;
};
// All bytes are in the segment and the digest matches. The core answers with FlushAcceptance or a refusing verdict.
struct UploadFinished {
  UploadId upload = 0;
};
// The trailer is flushed: the acceptance is final.
struct ContributionDurable {
  UploadId upload = 0;
};
// The upload's stream broke, or its bytes were refused, before the acceptance. A resume continues at verified bytes.
struct UploadBroken {
  UploadId upload = 0;
};

// A job with resolved spec and known sizes. Answered by RequestAnswered.
struct JobSubmitted {
  RequestId request = 0;
  std::string request_id;  // the caller's idempotency key; empty if none
  JobSpec spec;            // spec.name is the requested id
  uint32_t fragments = 0;
  uint64_t stop_step = 0;
  uint64_t dataset_samples = 0;
  uint64_t held_out_samples = 0;
  int64_t wall_nanos = 0;
};
enum class JobAction { kCancel, kCancelWithDrain, kPause, kResume };
struct JobControlled {
  RequestId request = 0;
  JobId job;
  JobAction action = JobAction::kCancel;
  int64_t wall_nanos = 0;
};
struct JobUpdated {
  RequestId request = 0;
  JobId job;
  JobSpec spec;  // the whole new spec; the service has merged and validated it
  uint64_t stop_step = 0;
  uint64_t expected_revision = 0;  // 0: any
};
struct JobRolledBack {
  RequestId request = 0;
  JobId job;
  uint64_t checkpoint_step = 0;
  int64_t wall_nanos = 0;
};
struct CheckpointUnwanted {
  RequestId request = 0;
  JobId job;
  uint64_t step = 0;
};
// Deletes everything that an ended job keeps, except its record in the ledger.
struct JobUnwanted {
  RequestId request = 0;
  JobId job;
};
// kDrain: the worker is asked to leave. kCordon: it gets no other job. kEvict: into quarantine. kReadmit: ends both.
enum class WorkerAction { kDrain, kCordon, kEvict, kReadmit };
struct WorkerSteered {
  RequestId request = 0;
  WorkerId worker;
  WorkerAction action = WorkerAction::kDrain;
};

// Completions of tasks.
struct ParametersReady {
  JobId job;
  std::vector<Digest> hashes;  // content hash of each fragment at version 0 (or at the versions of a rollback)
  PeriodTraffic traffic = {};
};
// The disk has no space for the parameters of version 0, or of a rollback. Nothing is lost: the
// core asks again.
struct PreparationDelayed {
  JobId job;
  std::string reason;
};
struct TaskFailed {
  JobId job;
  std::string reason;  // the reason for which the job stops
};
struct CheckpointChecked {
  JobId job;
  uint64_t step = 0;
  absl::Status status;  // of all its files together
};
struct RoundAggregated {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion reached;
  RoundRecord record;                      // contributions with weights, hash, update digest and size, rates; wall time
  std::vector<ScreenRemark> remarks = {};  // in the order of the contributions
};
struct CheckpointWritten {
  JobId job;
  uint64_t step = 0;
  std::vector<Digest> hashes;
  int64_t wall_nanos = 0;
};
// The disk has no space for the checkpoint. The core asks again, or for a newer checkpoint; rounds go on.
struct CheckpointDelayed {
  JobId job;
  uint64_t step = 0;
  std::string reason;
};
// Free space crossed the threshold (docs/design.md section 4, "Published bounds").
struct DiskSpace {
  bool low = false;
};
// The coordinator did not run for `time`, up to now (process stopped, machine asleep): it could not
// hear any worker.
struct CoordinatorStalled {
  Duration time;
};
struct Tick {};

using Event = std::variant<WorkerConnected, WorkerSaid, ConnectionClosed, WorkerRevoked, UploadOffered, UploadFinished,
                           ContributionDurable, UploadBroken, JobSubmitted, JobControlled, JobUpdated, JobRolledBack,
                           CheckpointUnwanted, JobUnwanted, WorkerSteered, ParametersReady, PreparationDelayed,
                           TaskFailed, CheckpointChecked, RoundAggregated, ContributionsScreened, CheckpointWritten,
                           CheckpointDelayed, DiskSpace, CoordinatorStalled, Tick>;

// ---- effects ------------------------------------------------------------------------------------------------------

struct Send {
  ConnectionId connection = 0;
  CoordinatorMessage message;
};
struct CloseConnection {
  ConnectionId connection = 0;
};

enum class UploadDecision {
  kGranted,   // send the bytes (the engine says from which offset)
  kAccepted,  // everything is durable already; nothing to send
  kRefused,   // `status` has the reason
};
struct UploadVerdict {
  UploadId upload = 0;
  UploadDecision decision = UploadDecision::kRefused;
  absl::Status status;  // for kRefused: code and message for the sender
  Digest replaces;      // for kGranted: this worker's contribution that the screens refused; zero: none
};

struct RequestAnswered {
  RequestId request = 0;
  absl::Status status;
  JobId job;  // for job calls
};

// A line of the job's event log, for people and machines.
struct JobNote {
  JobId job;         // empty: about the fleet
  std::string kind;  // "round committed"
  std::string text;  // one sentence
  std::map<std::string, std::string> fields;
};

// The effects of one step. The engine commits `records` in one transaction, perhaps with those of later steps, before
// it releases any other effect of the step (commit, then publish). Steps are released in order. Only FlushAcceptance
// may run in parallel with the commit.
struct Effects {
  std::vector<LedgerRecord> records;
  std::vector<Send> sends;
  std::vector<CloseConnection> closes;  // after the sends
  std::vector<UploadVerdict> verdicts;
  std::vector<Task> tasks;
  std::vector<RequestAnswered> answers;
  std::vector<JobNote> notes;
  size_t count() const;  // of all kinds together
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_EVENTS_H_
