// SPDX-License-Identifier: Apache-2.0
// The effects of a worker's core, to be executed in order (events.h has the answers). Pure values.
#ifndef ATOLL_WORKER_CORE_EFFECTS_H_
#define ATOLL_WORKER_CORE_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/boot_lines.h"
#include "common/plan/messages.h"
#include "worker/core/standing.h"

namespace atl::worker {

// Sends a message on the control stream. Dropped if the stream is down: the next Hello reports the worker's state.
struct Say {
  WorkerMessage message;
};
// The peer must not be followed: end the stream, reconnect after a backoff.
struct CloseStream {
  std::string reason;
};

// Make layout, replicas, trainer and readers of the job -> JobPrepared, JobBroken or JobDelayed.
struct PrepareJob {
  JobId job;
  std::shared_ptr<const JobSpec> spec;
  Digest layout{};  // computed by the coordinator; zero: not sent
};
// A new revision of the spec: rates, schedule, stop rule.
struct ChangeSpec {
  std::shared_ptr<const JobSpec> spec;
};
// Stop the job's transfers, save its moments locally if the worker leaves, and free its memory.
struct ReleaseJob {};

// -> FragmentFetched or FragmentFetchFailed. Fetches the newest snapshot, of any version; one below
// `at_least` fails at once, to save its transfer.
struct FetchFragment {
  JobId job;
  FragmentIndex fragment;
  Version at_least{};
};
// Makes the fetched bytes the outer copy -> FragmentInstalled. Does not touch local parameters: AdoptOuter follows,
// or ResolveUpdate after a `leap`, which is in place of several updates and keeps the drift.
struct InstallFragment {
  FragmentIndex fragment;
  Version version;
  bool leap = false;
};
// -> UpdateFetched or UpdateFetchFailed.
struct FetchUpdate {
  JobId job;
  FragmentVersion reached;
};
// Drop all fetched data and fetches of a fragment; no answer comes.
struct DropFetches {
  FragmentIndex fragment;
};

// Outer copy += update -> UpdateApplied. Does not touch local parameters. If `expected_hash` is zero, the hash that
// came with the download counts.
struct ApplyUpdate {
  FragmentVersion reached;
  Standing standing{};
  Digest expected_hash{};
  bool beside = false;  // before its apply step: in parallel with steps, but the answer comes between two steps
};
// Changes local parameters after ApplyUpdate, or after a leap as a non-contributor. kContributor: local := mix local
// + (1 - mix) outer, with the job's mix, or 1 if `late`. kAhead: local += outer(v + 1) - outer(v) + contribution.
// kNotContributor: local += outer(v + 1) - outer(v). `dropped`, by the job on purpose: local stays unchanged.
struct ResolveUpdate {
  FragmentIndex fragment;
  Standing standing{};
  bool late = false;
  bool dropped = false;
};
// local := outer, residual := 0, contribution withdrawn.
struct AdoptOuter {
  FragmentIndex fragment;
};
// Moments and step count start from zero, or from a local snapshot of this course of the job, taken no later
// than about `clock_step` and at no later versions of any fragment.
struct BeginOptimizer {
  uint64_t clock_step = 0;
  VersionVector versions;  // the job's newest, as assigned
  JobCourse course;
};

// Forms, encodes and stores delta + residual, while training continues -> ContributionFormed or ContributionFailed.
// The delta is that of the present local parameters. DropContribution cancels the forming, and no answer comes.
struct FormContribution {
  FragmentVersion target;
  bool at_rest = false;  // the next step probably waits for its update
};
// Sends the stored bytes with this header -> UploadEnded. Resumes automatically until CancelUpload.
struct Upload {
  ContributionUpload contribution;
};
struct CancelUpload {
  FragmentIndex fragment;
};
// The stored contribution, or the one being formed, will not count.
struct DropContribution {
  FragmentIndex fragment;
};

struct AddLease {
  LeaseId lease;
  SampleRange range;
  uint64_t cursor = 0;
};
struct RemoveLease {
  LeaseId lease;
};

// One inner step on the next `samples` samples -> StepDone or SamplesMissing. The rate is LearningRateAt(rate_step)
// times JoinRamp(steps_since_fetch, ramp_steps); ramp_steps 0: none.
struct TakeStep {
  uint64_t rate_step = 0;
  uint64_t steps_since_fetch = 0;
  uint32_t ramp_steps = 0;
  uint32_t samples = 0;
};
// Evaluates the outer copies on held-out samples [first, first + samples), or as many as exist ->
// HeldOutEvaluated, EvaluationFailed or EvaluationDelayed. The pieces of one evaluation come in
// order, each at its own boundary, and a delayed one again.
struct Evaluate {
  uint64_t evaluation = 0;
  uint64_t first = 0, samples = 0;
};

// Evaluates the outer copies on `examples` examples of the job's evaluation.tasks[task], from
// `first` on -> TaskScored, EvaluationFailed or EvaluationDelayed. Pieces come as for Evaluate.
struct ScoreTask {
  uint64_t evaluation = 0;
  uint32_t task = 0;
  uint64_t first = 0, examples = 0;
};

// Answer with a LogLines message from the log ring.
struct AnswerLogs {
  LogsWanted wanted;
};

enum class NoteLevel { kInfo, kWarning, kError };
// A log line: an event name and a message.
struct Note {
  NoteLevel level = NoteLevel::kInfo;
  std::string event;
  std::string text;
};

enum class ExitReason { kLeft, kRefused, kNonFinite };
// End the process after the earlier messages are sent.
struct Exit {
  ExitReason reason = ExitReason::kLeft;
  std::string text;  // one message
};

using Effect = std::variant<Say, CloseStream, PrepareJob, ChangeSpec, ReleaseJob, FetchFragment, InstallFragment,
                            FetchUpdate, DropFetches, ApplyUpdate, ResolveUpdate, AdoptOuter, BeginOptimizer,
                            FormContribution, Upload, CancelUpload, DropContribution, AddLease, RemoveLease, TakeStep,
                            Evaluate, ScoreTask, AnswerLogs, Note, Exit>;
using Effects = std::vector<Effect>;

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EFFECTS_H_
