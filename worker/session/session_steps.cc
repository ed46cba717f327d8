// SPDX-License-Identifier: Apache-2.0
// The session's work on samples: takes steps and evaluates.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/learning_rate.h"
#include "common/plan/limits.h"
#include "worker/session/session_state.h"

namespace atl {
namespace {

// The largest reported losses, for a diverging run: a mean of a million nats per token, above which the coordinator
// refuses, and for one piece of an evaluation a sum that leaves room for others, because the core adds in 64 bits.
constexpr double kMostMeanNats = static_cast<double>(limits::kMostLossMicro) / 1e6, kMostSumNats = 1e12;
constexpr char kNoLoss[] = "the loss on the held-out samples is not finite";

int64_t Micro(double nats, double most) {
  return std::isfinite(nats) ? std::llround(std::clamp(nats, 0.0, most) * 1e6) : 0;
}

}  // namespace

void Session::State::Do(const worker::AddLease& e) {
  if (const auto status = parts->samples->AddLease(e.lease, e.range, e.cursor); !status.ok()) Break(status);
}

void Session::State::Do(const worker::RemoveLease& e) {
  if (parts) parts->samples->RemoveLease(e.lease);
}

double Session::State::RateOf(const worker::TakeStep& e) const {
  const double rate = LearningRateAt(spec->inner, e.rate_step);
  return e.ramp_steps == 0 ? rate : rate * JoinRamp(e.steps_since_fetch, e.ramp_steps);
}

absl::StatusOr<StepOutcome> Session::State::StepModel(const SampleBatch& batch, double rate) {
  const auto set_stepping = [this](bool to) {
    MutexLock lock(step_mutex);
    stepping = to;
  };
  replicas->ReleaseParameters();
  if (options.work_begins) options.work_begins(job, *spec, TrainWork::kStep);
  set_stepping(true);
  ListenInStep();  // handles events since the turn began
  auto outcome = parts->model->Step(batch, rate);
  set_stepping(false);
  if (options.work_ended) options.work_ended();
  return outcome;
}

// If the device is lost, the core leaves only after an answer to the step: SamplesMissing.
void Session::State::BreakStep(const absl::Status& why) {
  Break(why);
  if (device_lost) Answer(worker::SamplesMissing{std::string(why.message())});
}

void Session::State::Do(const worker::TakeStep& e) {
  const Instant asked = clock.Now();
  auto batch = parts->samples->Next(e.samples, options.sample_wait);
  const Instant began = clock.Now();
  data_wait = data_wait + (began - asked);
  if (!batch.ok()) {
    // Fewer samples than the core counts: a lease that was just revoked, or a violated invariant,
    // which the core reports.
    const bool fewer = batch.status().code() == absl::StatusCode::kFailedPrecondition;
    if (!fewer && !WorthAnotherTry(batch.status())) return BreakStep(batch.status());
    worked = true;
    Answer(worker::SamplesMissing{absl::StrCat("samples: ", batch.status().message())});
    DrainAnswers();
    return;
  }
  worked = true;
  PublishHeartbeat();
  const double rate = RateOf(e);
  const auto outcome = StepModel(*batch, rate);
  if (absl::IsUnavailable(outcome.status())) {
    LoseDevice(outcome.status());
    Answer(worker::SamplesMissing{std::string(outcome.status().message())});
    return;
  }
  if (!outcome.ok()) return BreakStep(outcome.status());
  const Instant ended = clock.Now();
  const Duration took = ended - began;
  Answer(worker::StepDone{outcome->applied, outcome->tokens, Micro(outcome->loss, kMostMeanNats), took});
  if (step_ended == kNever) {
    step_ended = asked;
    data_wait = began - asked;
    sync_wait = Duration{};
  }
  const Duration work = ended - step_ended - took - data_wait - sync_wait;
  if (options.on_step) options.on_step({e.rate_step + 1, rate, *outcome, took, data_wait, sync_wait, work});
  data_wait = sync_wait = Duration{};
  step_ended = ended;
  optimizer_at.clock_step = e.rate_step + 1;
  optimizer_at.versions.clear();
  for (const worker::FragmentStatus& fragment : core.fragments()) optimizer_at.versions.push_back(fragment.applied);
  BetweenSteps([this] { parts->model->KeepOptimizer(optimizer_at, false); });
}

void Session::State::Do(const worker::Evaluate& e) {
  worked = true;
  PublishHeartbeat();
  replicas->ReleaseParameters();
  auto outcome = parts->model->Evaluate(replicas->outer(), {e.first, e.samples});
  if (outcome.ok() && !std::isfinite(outcome->nll)) outcome = absl::OutOfRangeError(kNoLoss);
  if (!outcome.ok()) return TellNotMade(e.evaluation, outcome.status());
  const double most = std::min(kMostSumNats, kMostMeanNats * static_cast<double>(outcome->tokens));
  Answer(worker::HeldOutEvaluated{e.evaluation, outcome->samples, Micro(outcome->nll, most), outcome->tokens,
                                  outcome->text_bytes});
}

void Session::State::TellNotMade(uint64_t evaluation, const absl::Status& why) {
  const std::string reason(why.message());
  // Cancelled: the worker is to leave; the core learns it from the next event.
  if (WorthAnotherTry(why) || absl::IsCancelled(why) || LosesDevice(why)) {
    Answer(worker::EvaluationDelayed{evaluation, reason});
  } else {
    Answer(worker::EvaluationFailed{evaluation, reason});
  }
}

void Session::State::Do(const worker::ScoreTask& e) {
  worked = true;
  PublishHeartbeat();
  replicas->ReleaseParameters();
  const auto score = parts->model->ScoreTask(replicas->outer(), {e.task, e.first, e.examples});
  if (!score.ok()) return TellNotMade(e.evaluation, score.status());
  Answer(worker::TaskScored{e.evaluation, score->correct, score->correct_per_byte});
}

}  // namespace atl
