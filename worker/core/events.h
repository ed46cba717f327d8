// SPDX-License-Identifier: Apache-2.0
// The events of a worker's core; effects.h has its effects. Pure values: no clock, thread, file,
// socket or floating point. Time is an argument of Core::Step. In namespace atl::worker, because
// the coordinator's core uses the same names and a simulator includes both.
#ifndef ATOLL_WORKER_CORE_EVENTS_H_
#define ATOLL_WORKER_CORE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"

namespace atl::worker {

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
  struct FragmentSize {
    uint64_t whole_bytes = 0, update_bytes = 0;  // as downloaded
  };
  JobId job;
  std::vector<FragmentSize> fragments;
};
// Answer to PrepareJob, or sent at any later time: the job has failed on this worker (missing data, out of memory).
struct JobBroken {
  JobId job;
  std::string reason;      // one message
  bool permanent = false;  // probably no worker can do better
};
// Answer to PrepareJob if a source did not respond in time: the core asks again.
struct JobDelayed {
  JobId job;
  std::string reason;
};

// Answers to FetchFragment. The session keeps the bytes until InstallFragment or DropFetches.
struct FragmentFetched {
  FragmentIndex fragment;
  Version version;
};
struct FragmentFetchFailed {
  FragmentIndex fragment;
  std::string reason;
};
// Answer to InstallFragment; `matches` false: not installed, as with another hash or size of the bytes.
struct FragmentInstalled {
  FragmentIndex fragment;
  Version version;
  bool matches = true;
};

// Answers to FetchUpdate. The session keeps the bytes until ApplyUpdate or DropFetches.
struct UpdateFetched {
  FragmentVersion reached;
};
struct UpdateFetchFailed {
  FragmentVersion reached;
  std::string reason;
};
// Answer to ApplyUpdate; `hash_matches` false: the outer copy then has another hash, or the update was not applied.
struct UpdateApplied {
  FragmentVersion reached;
  bool hash_matches = true;
};

// Answers to FormContribution; steps may have been taken since. Only ContributionFormed may come during a step.
struct ContributionFormed {
  FragmentVersion target;
  Digest digest;
  uint64_t encoded_bytes = 0;
  std::optional<uint64_t> upload_error_nano = {};  // loss of the codec, norm over norm, in 1e-9
};
struct ContributionFailed {
  FragmentVersion target;
  std::string reason;
};

enum class UploadResult {
  kAccepted,  // durable
  kRefused,   // permanently; the work stays in the drift
};
// Answer to Upload. The sender resumes a broken transfer without an event.
struct UploadEnded {
  FragmentVersion target;
  Digest digest;
  UploadResult result = UploadResult::kAccepted;
  std::string reason;  // of a refusal
};

// Answer to TakeStep.
struct StepDone {
  bool finite = true;      // false: parameters and moments are unchanged
  uint64_t tokens = 0;     // targets
  int64_t loss_micro = 0;  // mean over the targets, 1e-6 nats; at most 1e12 in magnitude
  Duration took{};
};
// Answer to TakeStep if samples are not available yet, or the step could not be taken; nothing
// changed. The core asks again at the next Boundary, unless it leaves.
struct SamplesMissing {
  std::string reason;
};

// Answer to Evaluate, for its piece.
struct HeldOutEvaluated {
  uint64_t evaluation = 0;
  uint64_t samples = 0;  // fewer than requested: the held-out split ends there
  int64_t nll_micro_nats = 0;
  uint64_t tokens = 0;
  uint64_t text_bytes = 0;
};
// Answer to ScoreTask, for its piece.
struct TaskScored {
  uint64_t evaluation = 0;
  uint64_t correct = 0;
  std::optional<uint64_t> correct_per_byte;  // absent for minimal pairs
};
struct EvaluationFailed {
  uint64_t evaluation = 0;
  std::string reason;
};
// Answer to Evaluate or ScoreTask if a data source did not respond in time: the core requests the same piece again.
// Also if a device is lost or leaving was requested, of which another event informs the core.
struct EvaluationDelayed {
  uint64_t evaluation = 0;
  std::string reason;
};

// SIGTERM, SIGINT, a local pause or a lost device.
struct LeaveWanted {
  std::string reason;
};

// No step or piece of an evaluation runs; forming, applying and transfers may. Only now may a step begin.
struct Boundary {};

using Event = std::variant<StreamUp, StreamDown, Received, JobPrepared, JobBroken, JobDelayed, FragmentFetched,
                           FragmentFetchFailed, FragmentInstalled, UpdateFetched, UpdateFetchFailed, UpdateApplied,
                           ContributionFormed, ContributionFailed, UploadEnded, StepDone, SamplesMissing,
                           HeldOutEvaluated, TaskScored, EvaluationFailed, EvaluationDelayed, LeaveWanted, Boundary>;

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EVENTS_H_
