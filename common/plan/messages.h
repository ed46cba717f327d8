// SPDX-License-Identifier: Apache-2.0
// Control messages between worker and coordinator in domain form (docs/design.md section 5), used by both cores.
// common/wire converts them from and to atoll.v1 messages. Plain values. Every message is idempotent: a repetition
// after a reconnect changes nothing.
#ifndef ATOLL_COMMON_PLAN_MESSAGES_H_
#define ATOLL_COMMON_PLAN_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/plan/job_spec.h"
#include "common/plan/task_score.h"

namespace atl {

// Incremented when messages change their meaning. Other revisions are refused, with both numbers in the message.
constexpr uint32_t kProtocolRevision = 1;
// Incremented when the merge of a round, the outer step or a decoder may produce different bits.
constexpr uint32_t kArithmeticRevision = 1;

// A half-open range of positions in the job's data order (data_order.h), in samples.
struct SampleRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  friend auto operator<=>(const SampleRange&, const SampleRange&) = default;
};

// A lease and its progress: the samples [range.begin, cursor) are in the sender's parameters.
struct LeaseCursor {
  LeaseId lease;
  uint64_t cursor = 0;  // range.begin <= cursor <= range.end
  friend auto operator<=>(const LeaseCursor&, const LeaseCursor&) = default;
};

// A fragment and a version. The key of a contribution is its job, its worker and the version it is measured against.
struct FragmentVersion {
  FragmentIndex fragment;
  Version version;
  friend auto operator<=>(const FragmentVersion&, const FragmentVersion&) = default;
};

// A worker's description of its contribution, sent before its bytes and repeated in its durable trailer.
struct ContributionHeader {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  FragmentVersion target;  // measured against version `target.version`; takes part in the round that ends it
  Digest digest;           // XXH3-128 of the encoded bytes
  uint64_t encoded_bytes = 0;
  CodecKind codec = CodecKind::kFp32;
  uint64_t tokens = 0;               // of the drift: since the last committed contribution or adopted outer copy
  uint64_t steps = 0;                // inner steps of the drift
  uint64_t send_step = 0;            // job clock of the sender
  int64_t mean_loss_micro = 0;       // mean training loss over those steps, in 1e-6 nats
  std::vector<LeaseCursor> cursors;  // every lease held at the send step
  std::optional<uint64_t> upload_error_nano;  // codec error, norm over norm, in 1e-9; not stored with a committed one
};

// Announces a contribution.
struct ContributionUpload {
  ContributionHeader header;
  BootNumber boot;  // newest boot number that the sender has seen; 0: none
};

// ---- worker to coordinator ----------------------------------------------------------------------------------------

// A contribution of unknown fate; the worker still holds its bytes.
struct HeldContribution {
  FragmentVersion target;
  Digest digest;
};

// First message of every control stream.
struct Hello {
  WorkerId worker;
  std::string program_version;
  uint32_t protocol_revision = kProtocolRevision;
  uint32_t arithmetic_revision = kArithmeticRevision;
  uint64_t start_nonce = 0;   // random for each process: distinguishes a restart from a reconnect
  Incarnation incarnation;    // its present incarnation; 0: none
  BootNumber last_boot;       // newest boot number seen; 0: none
  std::string device;         // "cpu" or the GPU's name; for people
  uint64_t memory_bytes = 0;  // memory of the device, for the admission check
  bool evaluate_only = false;
  JobId job;                             // the job it was training; empty: none
  std::vector<FragmentVersion> applied;  // newest applied version of each fragment; empty: none
  std::vector<HeldContribution> held;
  std::vector<LeaseCursor> leases;  // leases still held, with cursors
};

struct MetricSample {
  std::string name;  // from the metric catalogue, "train_loss"
  double value = 0;  // forwarded, never read by a core
};

enum class WorkerActivity { kIdle, kFetching, kTraining, kWaiting, kEvaluating, kDraining };

struct Heartbeat {
  uint64_t sequence = 0;
  JobId job;  // empty when idle
  WorkerActivity activity = WorkerActivity::kIdle;
  uint64_t step = 0;          // job clock of the worker
  uint64_t tokens_total = 0;  // trained in this job by this incarnation
  int64_t step_ns = 0;        // recent mean duration of an inner step; 0: unknown
  int64_t loss_micro = 0;     // newest training loss in 1e-6 nats
  std::string waiting_for;    // short phrase, empty when not waiting: "lease of 800 samples for 3 s"
  std::vector<MetricSample> metrics;
  uint32_t period_steps = 0;  // own steps in a period with sync.pace balanced; 0: another pace, or not training
  // Measured rates of the link, the best of several recent transfers (worker/link/rate_window.h); 0: too few
  // measurements.
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

// Asks to raise the worker's unused leased samples of `job` to `samples`. The answer is LeaseGranted or LeaseDenied.
struct LeaseRequest {
  JobId job;
  uint64_t request = 0;  // incremented with each new request; a repetition gets the same lease
  uint64_t samples = 0;
};

// The worker has everything of its assignment and trains from `step` on. After ClosingStarted, a Ready that does not
// answer an Assignment and has `step` >= stop_step means: all contributions of this worker are accepted, no more will
// follow, and the closing rounds no longer wait for it.
struct Ready {
  JobId job;
  uint64_t step = 0;
  std::vector<FragmentVersion> applied;
};

// The worker applied an update to its outer copy. `hash_matches` false: the copy deviates and is fetched whole again.
struct Applied {
  JobId job;
  FragmentVersion applied;  // the version reached
  bool hash_matches = true;
};

// Results of an evaluation, or the reason of its failure.
struct EvaluationDone {
  JobId job;
  uint64_t evaluation = 0;            // number from the assignment
  int64_t nll_micro_nats = 0;         // summed over tokens, in 1e-6 nats
  uint64_t tokens = 0;                // number of targets scored
  uint64_t text_bytes = 0;            // bytes of text that the tokens stand for; 0: unknown
  std::vector<TaskScore> tasks = {};  // in the job's order; empty when not requested
  std::string failure = {};           // one sentence: why the evaluation failed; empty: it succeeded
};

// Leases that the worker returns: it contributes none of their samples any more. The coordinator takes back all
// samples that are in no accepted contribution, also those before a cursor.
struct LeaseReturn {
  JobId job;
  std::vector<LeaseCursor> leases;
};

// The job drops this worker's sync in the round of `target` (experiment.h): the worker sends no contribution, and the
// round does not wait for one. Sent at the send step, and again after a reconnect while the round is open.
struct SyncDropped {
  JobId job;
  FragmentVersion target;
  uint64_t send_step = 0;  // job clock of the sender
};

// The worker process leaves: a signal, a drain, a lost device, non-finite losses. The last message on the stream.
struct Leaving {
  std::string reason;
};

// The worker cannot continue its job: non-finite losses in a row, out of memory, missing data.
struct JobFailure {
  JobId job;
  std::string reason;      // one sentence: what, where, what to do
  bool permanent = false;  // the worker expects every worker to fail (bad data hash, model too large for any memory)
};

// Lines of the worker's log ring, in answer to LogsWanted.
struct LogLines {
  uint64_t request = 0;
  std::vector<std::string> lines;
};

using WorkerMessage = std::variant<Hello, Heartbeat, LeaseRequest, Ready, Applied, EvaluationDone, LeaseReturn, Leaving,
                                   JobFailure, LogLines, SyncDropped>;

// ---- coordinator to worker ----------------------------------------------------------------------------------------

enum class ContributionFate { kUnknown, kAccepted, kCommitted, kRefused };

// Answer to Hello.
struct Welcome {
  BootNumber boot;
  Incarnation incarnation;  // the worker's from now on
  bool resumed = false;  // true: leases, drift and residuals stay valid; false: a new incarnation, all of them are void
  Duration heartbeat_interval{}, membership_timeout{};
  struct Fate {
    FragmentVersion target;
    ContributionFate fate = ContributionFate::kUnknown;
  };
  std::vector<Fate> fates;  // one for each held contribution
  uint64_t boot_nonce = 0;  // random for each start of a coordinator; 0: not reported
};

// One version of each fragment, in fragment order.
using VersionVector = std::vector<Version>;

// Assigns a job. Sent at the assignment, after a reconnect, and with a higher revision after `job update`.
struct Assignment {
  JobId job;
  uint64_t spec_revision = 0;
  std::shared_ptr<const JobSpec> spec;
  uint64_t clock_step = 0;  // the job clock now, where a joining worker starts
  VersionVector versions;   // committed versions
  Duration clock_pace{};  // present duration of a step of the job clock; 0: a joiner starts at clock_step, however late
  uint64_t epoch = 0;     // incremented by each rollback
  Digest layout{};        // of the job's ModelLayout; zero: not sent
};

// The worker finishes its step, returns its leases, drops its state of the job, and stays connected.
struct Unassign {
  JobId job;
  std::string reason;
};

struct LeaseGranted {
  JobId job;
  uint64_t request = 0;
  LeaseId lease;
  SampleRange range;
};

struct LeaseDenied {
  JobId job;
  uint64_t request = 0;
  std::string reason;  // "the dataset is used up", "paused"
};

// The worker loses these leases. If it trained on one, it discards all drift and residuals: local := outer copy.
struct LeaseRevoked {
  JobId job;
  std::vector<LeaseId> leases;
  std::string reason;
};

// Version `reached` of a fragment is committed, and its update can be downloaded.
struct UpdatePublished {
  JobId job;
  FragmentVersion reached;     // the new version
  Digest hash;                 // ContentHash of the fragment at the new version
  uint64_t encoded_bytes = 0;  // size of the encoded update
  std::vector<WorkerId> contributors;
  uint64_t clock_step = 0;  // the job clock after this commit
  // Digests of the contributions, in the order of `contributors`.
  std::vector<Digest> digests = {};
};

// The screens refused this accepted contribution: it is not merged. (UpdatePublished names the merged contributions.)
struct ContributionRefused {
  JobId job;
  FragmentVersion target;
  Digest digest;
  std::string reason;
};

// With sync.pace balanced: number of the worker's own steps in a period of the job clock, from now on.
struct PaceAssigned {
  JobId job;
  uint32_t period_steps = 1;  // 1 to sync.inner_steps
};

// Whether rounds wait for this worker, according to the rate of its link (coordinator/core/admission.h). Sent when the
// decision changes, and again after a reconnect while it is negative. A worker is admitted from its assignment on.
struct LinkJudged {
  JobId job;
  bool admitted = true;
  std::string reason;  // one sentence with the measured and the needed rates
};

// Evaluate the outer parameters at `versions` on held-out samples [0, samples).
struct EvaluationAssigned {
  JobId job;
  uint64_t evaluation = 0;  // number of the evaluation in the job
  VersionVector versions;
  uint64_t samples = 0;
  bool score_tasks = false;  // also score the job's evaluation.tasks
};

// The job is closing at `stop_step`. The worker finishes the contributions in flight and then contributes the
// remaining drift of every fragment against the version in `versions`, or a later one, with tau 0.
struct ClosingStarted {
  JobId job;
  uint64_t stop_step = 0;
  VersionVector versions;
};

// Asks the worker to finish its step, send contributions within the grace period, return its leases and leave.
struct DrainRequested {
  std::string reason;
};

struct LogsWanted {
  uint64_t request = 0;
  uint32_t lines = 0;
  int64_t since_wall_nanos = 0;
};

// The coordinator ends the stream and states the reason. `retry`: the worker connects again later. False: it exits.
struct Refused {
  std::string reason;
  bool retry = false;
};

using CoordinatorMessage = std::variant<Welcome, Assignment, Unassign, LeaseGranted, LeaseDenied, LeaseRevoked,
                                        UpdatePublished, ContributionRefused, EvaluationAssigned, ClosingStarted,
                                        DrainRequested, LogsWanted, Refused, PaceAssigned, LinkJudged>;

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_MESSAGES_H_
