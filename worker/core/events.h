// What can happen to a worker's core, and what it asks for in return. Pure values: no clock, thread, file, socket or
// floating point. Time is an argument of Core::Step. Everything is in namespace atl::worker, since the coordinator's core
// has words of the same names and a simulator holds both.
#ifndef ATOLL_WORKER_CORE_EVENTS_H_
#define ATOLL_WORKER_CORE_EVENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"

namespace atl::worker {

// ---- events -------------------------------------------------------------------------------------------------------

// The control stream is open; the core answers with Hello.
struct StreamUp {};
struct StreamDown {
  std::string reason;
};
struct Received {
  CoordinatorMessage message;
};

// Answer to PrepareJob.
struct JobPrepared {
  JobId job;
  uint32_t fragments = 0;
};
// Answer to PrepareJob, or a failure that no repetition mends (missing data, out of memory, a device that is gone).
struct JobBroken {
  JobId job;
  std::string reason;      // one sentence
  bool permanent = false;  // no worker will do better
};

// Answers to FetchFragment. The bytes stay with the session until InstallFragment.
struct FragmentFetched {
  FragmentIndex fragment;
  Version version;
};
struct FragmentFetchFailed {
  FragmentIndex fragment;
  std::string reason;
};
// Answer to InstallFragment; `matches` false: the bytes do not have the hash they were announced with.
struct FragmentInstalled {
  FragmentIndex fragment;
  Version version;
  bool matches = true;
};

// Answers to FetchUpdate. The bytes stay with the session until ApplyUpdate.
struct UpdateFetched {
  FragmentVersion reached;
};
struct UpdateFetchFailed {
  FragmentVersion reached;
  std::string reason;
};
// Answer to ApplyUpdate.
struct UpdateApplied {
  FragmentVersion reached;
  bool hash_matches = true;
};

// Answer to FormContribution.
struct ContributionFormed {
  FragmentVersion target;
  Digest digest;
  uint64_t encoded_bytes = 0;
};
struct ContributionFailed {
  FragmentVersion target;
  std::string reason;
};

enum class UploadResult {
  kAccepted,  // durable
  kRefused,   // for good; the work stays in the drift
};
// Answer to Upload. A broken transfer is resumed by the sender and is no event.
struct UploadEnded {
  FragmentVersion target;
  Digest digest;
  UploadResult result = UploadResult::kAccepted;
  std::string reason;  // of a refusal
};

// Answer to TakeStep.
struct StepDone {
  bool finite = true;        // false: parameters and moments are as before
  uint64_t tokens = 0;       // targets
  int64_t loss_micro = 0;    // mean over the targets, 1e-6 nats
  Duration took{};
};
// Answer to TakeStep when the samples are not there yet; nothing was taken. The core asks again at the next Boundary.
struct SamplesMissing {
  std::string reason;
};

// Answer to Evaluate.
struct EvaluationFinished {
  uint64_t evaluation = 0;
  int64_t nll_micro_nats = 0;
  uint64_t tokens = 0;
  uint64_t text_bytes = 0;
};
struct EvaluationFailed {
  uint64_t evaluation = 0;
  std::string reason;
};

// SIGTERM, SIGINT or a pause from the worker's own side.
struct LeaveWanted {
  std::string reason;
};

// No step, evaluation or verb is running: the only event after which a step may begin.
struct Boundary {};

using Event = std::variant<StreamUp, StreamDown, Received, JobPrepared, JobBroken, FragmentFetched, FragmentFetchFailed,
                           FragmentInstalled, UpdateFetched, UpdateFetchFailed, UpdateApplied, ContributionFormed,
                           ContributionFailed, UploadEnded, StepDone, SamplesMissing, EvaluationFinished,
                           EvaluationFailed, LeaveWanted, Boundary>;

// ---- effects, to be carried out in order --------------------------------------------------------------------------

// On the control stream; lost when it is down, which Hello makes good.
struct Say {
  WorkerMessage message;
};
// The peer must not be followed: end the stream, connect again after a backoff.
struct CloseStream {
  std::string reason;
};

// Make layout, replicas, trainer and readers of the job -> JobPrepared or JobBroken.
struct PrepareJob {
  JobId job;
  std::shared_ptr<const JobSpec> spec;
};
// A new revision of the spec: rates, schedule, stop rule.
struct ChangeSpec {
  std::shared_ptr<const JobSpec> spec;
};
// Stop transfers of the job and give its memory back.
struct ReleaseJob {};

// -> FragmentFetched or FragmentFetchFailed. The newest committed version is as good as the one named.
struct FetchFragment {
  JobId job;
  FragmentIndex fragment;
};
// Fetched bytes become the outer copy -> FragmentInstalled.
struct InstallFragment {
  FragmentIndex fragment;
  Version version;
};
// -> UpdateFetched or UpdateFetchFailed.
struct FetchUpdate {
  JobId job;
  FragmentVersion reached;
};
// Forget what was fetched or is being fetched of a fragment; no answer comes.
struct DropFetches {
  FragmentIndex fragment;
};

// Outer copy += update -> UpdateApplied. Local parameters are not touched. `expected_hash` zero: the download's own.
struct ApplyUpdate {
  FragmentVersion reached;
  bool contributor = false;
  Digest expected_hash;
};
// Local parameters after ApplyUpdate. Contributor: local := mix local + (1 - mix) outer, mix being the job's, or 1 when
// `late`. Otherwise local += outer(v + 1) - outer(v).
struct ResolveUpdate {
  FragmentIndex fragment;
  bool contributor = false;
  bool late = false;
};
// local := outer, residual := 0, contribution withdrawn.
struct AdoptOuter {
  FragmentIndex fragment;
};
// Zero moments and step count.
struct ResetOptimizer {};

// delta + residual, encoded and kept -> ContributionFormed or ContributionFailed.
struct FormContribution {
  FragmentVersion target;
};
// The kept bytes under this header -> UploadEnded. Resumes by itself until CancelUpload.
struct Upload {
  ContributionHeader header;
  BootNumber boot;
};
struct CancelUpload {
  FragmentIndex fragment;
};
// The kept contribution will not count.
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

// One inner step on the next `samples` samples -> StepDone or SamplesMissing. The rate is LearningRateAt(rate_step) times
// JoinRamp(steps_since_fetch, ramp_steps); ramp_steps 0: none.
struct TakeStep {
  uint64_t rate_step = 0;
  uint64_t steps_since_fetch = 0;
  uint32_t ramp_steps = 0;
  uint32_t samples = 0;
};
// The outer copies on held-out samples [0, samples) -> EvaluationFinished or EvaluationFailed.
struct Evaluate {
  uint64_t evaluation = 0;
  uint64_t samples = 0;
};

// Answer with a LogLines message from the log ring.
struct AnswerLogs {
  LogsWanted wanted;
};

enum class NoteLevel { kInfo, kWarning, kError };
// A line for the log: an event name and one sentence.
struct Note {
  NoteLevel level = NoteLevel::kInfo;
  std::string event;
  std::string text;
};

enum class ExitReason { kLeft, kRefused, kNonFinite };
// After what was said before has left, end the process.
struct Exit {
  ExitReason reason = ExitReason::kLeft;
  std::string text;  // one sentence
};

using Effect = std::variant<Say, CloseStream, PrepareJob, ChangeSpec, ReleaseJob, FetchFragment, InstallFragment,
                            FetchUpdate, DropFetches, ApplyUpdate, ResolveUpdate, AdoptOuter, ResetOptimizer,
                            FormContribution, Upload, CancelUpload, DropContribution, AddLease, RemoveLease, TakeStep,
                            Evaluate, AnswerLogs, Note, Exit>;
using Effects = std::vector<Effect>;

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EVENTS_H_
