// SPDX-License-Identifier: Apache-2.0
// A job without LibTorch for harnesses: real layout, real leases, and an inner step that pulls
// every parameter towards a target that depends on the samples, so that a wrong merge changes the
// loss. A step takes a fixed time on the clock.
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
#include "tests/support/manual_clock.h"
#include "worker/session/job.h"

namespace atl {

class ToyJobFactory final : public JobFactory {
 public:
  // Each inner step advances `clock` by `step`.
  ToyJobFactory(ManualClock& clock, Duration step) : ToyJobFactory([&clock](Duration d) { clock.Advance(d); }, step) {}
  // `spend` receives the duration of each inner step.
  ToyJobFactory(std::function<void(Duration)> spend, Duration step) : spend_(std::move(spend)), step_(step) {}
  // Shares data and counters with `shared`; its steps have another duration.
  ToyJobFactory(const ToyJobFactory& shared, std::function<void(Duration)> spend, Duration step)
      : spend_(std::move(spend)),
        step_(step),
        arithmetic_(shared.arithmetic_),
        missing_(shared.missing_),
        pieces_scored_(shared.pieces_scored_),
        failing_evaluations_(shared.failing_evaluations_),
        trained_(shared.trained_) {}
  absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) override;
  // From now on preparing a job or reading a sample fails with this message on every worker. Empty:
  // both work again.
  void SetMissing(std::string what) { *missing_ = std::move(what); }
  // The next `count` evaluations fail, on any worker.
  void FailEvaluations(int count) { *failing_evaluations_ = count; }
  // Jobs prepared from now on do not train. Positive: each step moves every parameter by `times`
  // times the largest honest step, away from its start. Negative: each step goes -`times` times as
  // far as an honest step, in the opposite direction. 0: jobs train.
  void SetHostile(double times) { hostile_ = times; }
  // Jobs prepared from now on use these functions instead of the pull towards a target. An inner
  // step gets a worker's local parameters; their address does not change. An evaluation gets the
  // outer parameters and returns a loss.
  struct Arithmetic {
    std::function<void(std::span<float> local)> step;
    std::function<double(std::span<const float> outer)> evaluate;
  };
  void SetArithmetic(Arithmetic arithmetic) { arithmetic_ = std::move(arithmetic); }
  // Positions of the data order that any session of this factory received for training, with
  // counts.
  const std::map<uint64_t, int>& trained() const { return *trained_; }
  // Pieces of evaluation tasks scored by any session of this factory.
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
