// SPDX-License-Identifier: Apache-2.0
// A job without LibTorch for harnesses: real layout, real leases, and an inner step that pulls every parameter towards
// a target that depends on the samples, so that a wrong merge moves the loss. One step takes a set time on the clock.
#ifndef ATOLL_TESTS_SIM_TOY_JOB_H_
#define ATOLL_TESTS_SIM_TOY_JOB_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "worker/session/job.h"

namespace atl {

class ToyJobFactory final : public JobFactory {
 public:
  // `clock` moves on by `step` with each inner step.
  ToyJobFactory(ManualClock& clock, Duration step) : ToyJobFactory([&clock](Duration d) { clock.Advance(d); }, step) {}
  // `spend` is told the time that each inner step takes.
  ToyJobFactory(std::function<void(Duration)> spend, Duration step) : spend_(std::move(spend)), step_(step) {}
  // The same data and counters, with steps of another length.
  ToyJobFactory(const ToyJobFactory& shared, std::function<void(Duration)> spend, Duration step)
      : spend_(std::move(spend)),
        step_(step),
        arithmetic_(shared.arithmetic_),
        missing_(shared.missing_),
        pieces_scored_(shared.pieces_scored_),
        failing_evaluations_(shared.failing_evaluations_),
        trained_(shared.trained_) {}
  absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) override;
  // From now on neither a job nor a sample can be had, on any worker; empty: they can again.
  void SetMissing(std::string what) { *missing_ = std::move(what); }
  // The next so many evaluations cannot be made, on any worker.
  void FailEvaluations(int count) { *failing_evaluations_ = count; }
  // Jobs prepared from now on do not train: each step moves every parameter by so many times what a step of honest
  // training may, away from where it was. Below 0: each goes so many times
  // as far as an honest one, the other way. 0: they train.
  void SetHostile(double times) { hostile_ = times; }
  // Jobs prepared from now on take these in place of the pull towards a target. An inner step is given the local
  // parameters of a worker, which keep their place in memory; an evaluation the outer ones, and gives a loss.
  struct Arithmetic {
    std::function<void(std::span<float> local)> step;
    std::function<double(std::span<const float> outer)> evaluate;
  };
  void SetArithmetic(Arithmetic arithmetic) { arithmetic_ = std::move(arithmetic); }
  // Positions of the data order that were handed out for training, by any session of this factory, with repetitions.
  const std::map<uint64_t, int>& trained() const { return *trained_; }
  // Pieces of evaluation tasks that were scored, by any session of this factory.
  int pieces_scored() const { return *pieces_scored_; }

 private:
  const std::function<void(Duration)> spend_;
  const Duration step_;
  double hostile_ = 0;
  Arithmetic arithmetic_;
  std::shared_ptr<std::string> missing_ = std::make_shared<std::string>();
  std::shared_ptr<int> pieces_scored_ = std::make_shared<int>(0);
  std::shared_ptr<int> failing_evaluations_ = std::make_shared<int>(0);
  std::shared_ptr<std::map<uint64_t, int>> trained_ = std::make_shared<std::map<uint64_t, int>>();
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_TOY_JOB_H_
