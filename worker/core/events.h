// SPDX-License-Identifier: Apache-2.0
// What can happen to a worker's core; what it asks for in return is in effects.h. Pure values: no clock, thread, file,
// socket or floating point. Time is an argument of Core::Step. Everything is in namespace atl::worker, since the
// coordinator's core has words of the same names and a simulator holds both.
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
    uint64_t whole_bytes = 0, update_bytes = 0;  // as they are downloaded
  };
  JobId job;
  std::vector<FragmentSize> fragments;
};
// Answer to PrepareJob, or a failure that no repetition mends (missing data, out of memory, a device that is gone).
struct JobBroken {
  JobId job;
  std::string reason;      // one sentence
  bool permanent = false;  // it seems that no worker will do better
};
// Answer to PrepareJob when something was not reached in time: the core asks again.
struct JobDelayed {
  JobId job;
  std::string reason;
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

// Answers to FormContribution; steps may have been taken since. Neither comes while one runs.
struct ContributionFormed {
  FragmentVersion target;
  Digest digest;
  uint64_t encoded_bytes = 0;
  std::optional<uint64_t> upload_error_nano = {};  // lost by the codec, norm over norm, in 1e-9
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
  bool finite = true;      // false: parameters and moments are as before
  uint64_t tokens = 0;     // targets
  int64_t loss_micro = 0;  // mean over the targets, 1e-6 nats; at most 1e12 either way
  Duration took{};
};
// Answer to TakeStep when the samples are not there yet, or the step could not be taken; nothing was. The core asks
// again at the next Boundary, unless it leaves.
struct SamplesMissing {
  std::string reason;
};

// Answer to Evaluate: of its piece.
struct HeldOutEvaluated {
  uint64_t evaluation = 0;
  uint64_t samples = 0;  // fewer than asked: the held-out split ends there
  int64_t nll_micro_nats = 0;
  uint64_t tokens = 0;
  uint64_t text_bytes = 0;
};
// Answer to ScoreTask: of its piece.
struct TaskScored {
  uint64_t evaluation = 0;
  uint64_t correct = 0;
  std::optional<uint64_t> correct_per_byte;  // absent for minimal pairs
};
struct EvaluationFailed {
  uint64_t evaluation = 0;
  std::string reason;
};
// Answer to Evaluate or ScoreTask when something that the piece reads was not reached in time: the core asks for the
// same piece again.
struct EvaluationDelayed {
  uint64_t evaluation = 0;
  std::string reason;
};

// SIGTERM, SIGINT or a pause from the worker's own side.
struct LeaveWanted {
  std::string reason;
};

// No step, evaluation or verb is running: the only event after which a step may begin.
struct Boundary {};

using Event = std::variant<StreamUp, StreamDown, Received, JobPrepared, JobBroken, JobDelayed, FragmentFetched,
                           FragmentFetchFailed, FragmentInstalled, UpdateFetched, UpdateFetchFailed, UpdateApplied,
                           ContributionFormed, ContributionFailed, UploadEnded, StepDone, SamplesMissing,
                           HeldOutEvaluated, TaskScored, EvaluationFailed, EvaluationDelayed, LeaveWanted, Boundary>;

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EVENTS_H_
