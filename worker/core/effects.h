// SPDX-License-Identifier: Apache-2.0
// What a worker's core asks for, to be carried out in order (events.h says what comes back). Pure values.
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

namespace atl::worker {

// On the control stream; lost when it is down, which Hello makes good.
struct Say {
  WorkerMessage message;
};
// The peer must not be followed: end the stream, connect again after a backoff.
struct CloseStream {
  std::string reason;
};

// Make layout, replicas, trainer and readers of the job -> JobPrepared, JobBroken or JobDelayed.
struct PrepareJob {
  JobId job;
  std::shared_ptr<const JobSpec> spec;
  Digest layout{};  // that the coordinator computes; zero: it did not send one
};
// A new revision of the spec: rates, schedule, stop rule.
struct ChangeSpec {
  std::shared_ptr<const JobSpec> spec;
};
// Stop transfers of the job and give its memory back.
struct ReleaseJob {};

// -> FragmentFetched or FragmentFetchFailed. The newest snapshot, whichever it is; one below `at_least` is not worth
// its bytes and fails at once.
struct FetchFragment {
  JobId job;
  FragmentIndex fragment;
  Version at_least{};
};
// Fetched bytes become the outer copy -> FragmentInstalled. `leap`: as updates would have brought it there; the local
// parameters follow with ResolveUpdate, and keep their drift.
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
// Forget what was fetched or is being fetched of a fragment; no answer comes.
struct DropFetches {
  FragmentIndex fragment;
};

// Outer copy += update -> UpdateApplied. Local parameters are not touched. `expected_hash` zero: the download's own.
struct ApplyUpdate {
  FragmentVersion reached;
  bool contributor = false;
  bool ahead = false;  // a contributor that sent ahead of the others
  Digest expected_hash{};
  bool beside = false;  // before its apply step: steps may be taken meanwhile, and the answer comes behind one
};
// Local parameters after ApplyUpdate. Contributor: local := mix local + (1 - mix) outer, mix being the job's, or 1 when
// `late`; or, where it was sent `ahead`, local += outer(v + 1) - outer(v) + what was contributed. Otherwise local +=
// outer(v + 1) - outer(v); or, where the job dropped this sync, local stays as it is.
struct ResolveUpdate {
  FragmentIndex fragment;
  bool contributor = false;
  bool ahead = false;
  bool late = false;
  bool dropped = false;
};
// local := outer, residual := 0, contribution withdrawn.
struct AdoptOuter {
  FragmentIndex fragment;
};
// Moments and step count from zero, or those that this machine kept of this course of the job, at or before about
// `clock_step` of it and at no later versions of any fragment.
struct BeginOptimizer {
  uint64_t clock_step = 0;
  VersionVector versions;  // the job's newest, as assigned
  JobCourse course;
};

// delta + residual, encoded and kept -> ContributionFormed or ContributionFailed, while training goes on: the delta is
// that of the local parameters as they are now. DropContribution takes it back, and no answer comes.
struct FormContribution {
  FragmentVersion target;
  bool at_rest = false;  // the next step waits for its update, as far as can be told now
};
// The kept bytes under this header -> UploadEnded. Resumes by itself until CancelUpload.
struct Upload {
  ContributionHeader header;
  BootNumber boot;
};
struct CancelUpload {
  FragmentIndex fragment;
};
// The contribution that is kept, or being formed, will not count.
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
// The outer copies on held-out samples [first, first + samples), or as many as there are -> HeldOutEvaluated,
// EvaluationFailed or EvaluationDelayed. Pieces of one evaluation come in order, each at a boundary of its own, and a
// delayed one again.
struct Evaluate {
  uint64_t evaluation = 0;
  uint64_t first = 0, samples = 0;
};

// The outer copies on `examples` examples of the job's evaluation.tasks[task], from `first` on -> TaskScored,
// EvaluationFailed or EvaluationDelayed. Pieces come as those of Evaluate.
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
                            FetchUpdate, DropFetches, ApplyUpdate, ResolveUpdate, AdoptOuter, BeginOptimizer,
                            FormContribution, Upload, CancelUpload, DropContribution, AddLease, RemoveLease, TakeStep,
                            Evaluate, ScoreTask, AnswerLogs, Note, Exit>;
using Effects = std::vector<Effect>;

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EFFECTS_H_
