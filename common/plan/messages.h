// SPDX-License-Identifier: Apache-2.0
// The control conversation in domain form: what a worker says and what the coordinator answers (docs/design.md section
// 5). coordinator/core and worker/core speak these; common/wire turns them into atoll.v1 messages and back. Plain
// values. Every message is idempotent: a repetition after a reconnect changes nothing.
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

// Raised when messages change their meaning; other numbers are refused with both versions named.
constexpr uint32_t kProtocolRevision = 1;
// Raised when aggregate, outer step or a decoder may give other bits.
constexpr uint32_t kArithmeticRevision = 1;

// A half-open range of positions in the job's data order (data_order.h), in samples.
struct SampleRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  friend auto operator<=>(const SampleRange&, const SampleRange&) = default;
};

// A lease and how far it has been trained on: samples [range.begin, cursor) are in the sender's parameters.
struct LeaseCursor {
  LeaseId lease;
  uint64_t cursor = 0;  // range.begin <= cursor <= range.end
  friend auto operator<=>(const LeaseCursor&, const LeaseCursor&) = default;
};

// (fragment, version it was measured against): with job and worker the key of a contribution.
struct FragmentVersion {
  FragmentIndex fragment;
  Version version;
  friend auto operator<=>(const FragmentVersion&, const FragmentVersion&) = default;
};

// What a contribution says of itself; sent ahead of its bytes and repeated in its durable trailer.
struct ContributionHeader {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  FragmentVersion target;  // measured against version `target.version`; it takes part in the round that ends it
  Digest digest;           // XXH3-128 of the encoded bytes
  uint64_t encoded_bytes = 0;
  CodecKind codec = CodecKind::kFp32;
  uint64_t tokens = 0;               // trained since this worker's last contribution to this fragment that counted
  uint64_t steps = 0;                // inner steps, likewise
  uint64_t send_step = 0;            // job clock of the sender
  int64_t mean_loss_micro = 0;       // mean training loss over those steps, in 1e-6 nats
  std::vector<LeaseCursor> cursors;  // every lease held, at the send step
  std::optional<uint64_t>
      upload_error_nano;  // lost by the codec, norm over norm, in 1e-9; not kept with a committed one
};

// ---- worker to coordinator ----------------------------------------------------------------------------------------

// An unresolved contribution the worker still holds the bytes of.
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
  uint64_t start_nonce = 0;   // random, of this process: tells a restart from a reconnect
  Incarnation incarnation;    // the one it holds, 0 when it has none
  BootNumber last_boot;       // newest boot number seen, 0 when none
  std::string device;         // "cpu" or the GPU's name; for people
  uint64_t memory_bytes = 0;  // of the device, for the admission check
  bool evaluate_only = false;
  JobId job;                             // the job it was training, empty when none
  std::vector<FragmentVersion> applied;  // newest applied version of each fragment, empty when none
  std::vector<HeldContribution> held;
  std::vector<LeaseCursor> leases;  // still held, with cursors
};

struct MetricSample {
  std::string name;  // from the metric catalogue, "train_loss"
  double value = 0;  // carried, never looked at by a core
};

enum class WorkerActivity { kIdle, kFetching, kTraining, kWaiting, kEvaluating, kDraining };

struct Heartbeat {
  uint64_t sequence = 0;
  JobId job;  // empty when idle
  WorkerActivity activity = WorkerActivity::kIdle;
  uint64_t step = 0;          // job clock of the worker
  uint64_t tokens_total = 0;  // trained in this job by this incarnation
  int64_t step_ns = 0;        // recent mean duration of an inner step, 0 unknown
  int64_t loss_micro = 0;     // newest training loss in 1e-6 nats
  std::string waiting_for;    // one clause, empty when not waiting: "lease of 800 samples for 3 s"
  std::vector<MetricSample> metrics;
  uint32_t period_steps = 0;  // own steps a period under sync.pace balanced; 0: another pace, or not training
  // What the link carries, best of several recent transfers (worker/link/rate_window.h); 0: too few were measured.
  uint64_t upload_bytes_per_second = 0, download_bytes_per_second = 0;
};

// Wants its unused leased samples of `job` raised to `samples`. The answer is LeaseGranted, or a LeaseDenied notice.
struct LeaseRequest {
  JobId job;
  uint64_t request = 0;  // grows by one with each new wish; a repetition gets the same lease
  uint64_t samples = 0;
};

// The worker has everything of its assignment and trains from `step` on.
// While the job is ending (ClosingStarted), `step` >= stop_step says instead: everything is contributed and accepted,
// and nothing more will come from this worker; the closing rounds no longer wait for it.
struct Ready {
  JobId job;
  uint64_t step = 0;
  std::vector<FragmentVersion> applied;
};

// An update was applied; `hash_matches` is false for a deviant, which then fetches the whole fragment.
struct Applied {
  JobId job;
  FragmentVersion applied;  // the version reached
  bool hash_matches = true;
};

// Results of an evaluation, or why there are none.
struct EvaluationDone {
  JobId job;
  uint64_t evaluation = 0;            // as assigned
  int64_t nll_micro_nats = 0;         // summed over tokens, in 1e-6 nats
  uint64_t tokens = 0;                // targets scored
  uint64_t text_bytes = 0;            // bytes of text those tokens stand for, 0 unknown
  std::vector<TaskScore> tasks = {};  // in the job's order; empty when not asked for
  std::string failure = {};           // why it could not be made: one sentence; empty when it was
};

// Leases given back: samples beyond each cursor were not trained on; those before it are in no contribution any more.
struct LeaseReturn {
  JobId job;
  std::vector<LeaseCursor> leases;
};

// The job drops this worker's sync to the round of `target` (experiment.h): no contribution comes, and the round does
// not wait for one. Said at the send step, and again after a reconnect while the round is open.
struct SyncDropped {
  JobId job;
  FragmentVersion target;
  uint64_t send_step = 0;  // job clock of the sender
};

// The worker leaves (SIGTERM, pause, failure). Nothing follows on this stream.
struct Leaving {
  std::string reason;
};

// The worker cannot go on with its job: non-finite loss three times, out of memory, missing data.
struct JobFailure {
  JobId job;
  std::string reason;      // one sentence: what, where, what to do
  bool permanent = false;  // as it thinks no worker will do better (bad data hash, model too large for any memory)
};

// Lines of its log ring, in answer to LogsWanted.
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
  bool resumed = false;     // true: leases, drift and residuals stand; false: a new incarnation, all of them are void
  Duration heartbeat_interval{}, membership_timeout{};
  struct Fate {
    FragmentVersion target;
    ContributionFate fate = ContributionFate::kUnknown;
  };
  std::vector<Fate> fates;  // one for each held contribution
  uint64_t boot_nonce = 0;  // random for each start of a coordinator; 0: not told
};

// One version of each fragment, in fragment order.
using VersionVector = std::vector<Version>;

// Train this job. Sent when it is assigned, after a reconnect, and with a higher revision after `job update`.
struct Assignment {
  JobId job;
  uint64_t spec_revision = 0;
  std::shared_ptr<const JobSpec> spec;
  uint64_t clock_step = 0;  // the job clock now: where a joiner starts
  VersionVector versions;   // committed versions
  Duration clock_pace{};    // what a step of the job clock takes now; 0: a joiner starts at clock_step however late
  uint64_t epoch = 0;       // raised by each rollback
  Digest layout{};          // of the job's ModelLayout; zero: the coordinator does not tell it
};

// Leave the job: finish the step, return the leases, drop the state. An idle worker stays connected.
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

// Samples of these leases are no longer the worker's: it sets local := outer copy and clears residuals for all
// fragments.
struct LeaseRevoked {
  JobId job;
  std::vector<LeaseId> leases;
  std::string reason;
};

// Version `version` of a fragment is committed and can be downloaded.
struct UpdatePublished {
  JobId job;
  FragmentVersion reached;     // the new version
  Digest hash;                 // ContentHash of the fragment at the new version
  uint64_t encoded_bytes = 0;  // size of the encoded update
  std::vector<WorkerId> contributors;
  uint64_t clock_step = 0;  // the job clock after this commit
  // Of the contributions, in the order of `contributors`; empty where the coordinator does not tell them.
  std::vector<Digest> digests = {};
};

// The fate of one contribution, when it is not told by UpdatePublished.
struct ContributionRefused {
  JobId job;
  FragmentVersion target;
  Digest digest;
  std::string reason;
};

// sync.pace balanced: from now on this many of the worker's own steps make a period of the job clock.
struct PaceAssigned {
  JobId job;
  uint32_t period_steps = 1;  // 1 to sync.inner_steps
};

// Whether the rounds wait for this worker, by what its link carries (coordinator/core/admission.h). Said when it
// changes; a worker counts as admitted from its assignment on.
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
  bool score_tasks = false;  // the job's evaluation.tasks as well
};

// The stop step is reached: drain what is in flight, then contribute every fragment once more against `versions` with
// tau 0.
struct ClosingStarted {
  JobId job;
  uint64_t stop_step = 0;
  VersionVector versions;
};

// Finish the step, send what the grace period allows, return leases and leave.
struct DrainRequested {
  std::string reason;
};

struct LogsWanted {
  uint64_t request = 0;
  uint32_t lines = 0;
  int64_t since_wall_nanos = 0;
};

// The stream ends here and why. `retry` false: the worker exits and prints the reason.
struct Refused {
  std::string reason;
  bool retry = false;
};

using CoordinatorMessage = std::variant<Welcome, Assignment, Unassign, LeaseGranted, LeaseDenied, LeaseRevoked,
                                        UpdatePublished, ContributionRefused, EvaluationAssigned, ClosingStarted,
                                        DrainRequested, LogsWanted, Refused, PaceAssigned, LinkJudged>;

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_MESSAGES_H_
