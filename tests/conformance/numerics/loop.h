// SPDX-License-Identifier: Apache-2.0
// A training run in one thread: the real SyncSchedule, FragmentReplica and Aggregator, joined by a
// loop that can be compared with Streaming DiLoCo (2501.18512) algorithm 2. Inner steps are the
// test's own arithmetic on fp32 spans.
#ifndef ATOLL_TESTS_CONFORMANCE_NUMERICS_LOOP_H_
#define ATOLL_TESTS_CONFORMANCE_NUMERICS_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/plan/model_layout.h"
#include "common/plan/sync_schedule.h"
#include "coordinator/aggregate/aggregator.h"
#include "worker/replica/fragment_replica.h"

namespace atl::numerics {

ModelLayout LayoutOf(const std::vector<uint64_t>& fragment_elements);

struct LoopOptions {
  uint32_t inner_steps = 1, overlap_steps = 0;
  double mix = 0;
  CodecKind upload_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  OuterParameters outer;
  unsigned threads = 1;
};

class Loop {
 public:
  // One inner step of worker `worker`: changes `local` in place. `step` counts from 1.
  using InnerStep = std::function<void(size_t worker, uint64_t step, std::span<float> local)>;
  // True if the contribution that `worker` sent at `step` reaches the round. A worker that is left
  // out resolves as a non-contributor.
  using Arrives = std::function<bool(size_t worker, FragmentIndex fragment, uint64_t step)>;

  Loop(const ModelLayout& layout, const LoopOptions& options, std::span<const float> start, size_t workers);

  // Takes one inner step of every worker, then sends and applies what is due.
  void Step(const InnerStep& inner);
  void set_arrives(Arrives arrives) { arrives_ = std::move(arrives); }
  // Rotates the inputs of CloseRound by this many places, to vary the order of arrival.
  void set_rotation(size_t rotation) { rotation_ = rotation; }

  std::span<const float> local(size_t worker) const { return workers_[worker]->local; }
  std::span<const float> outer(size_t worker) const { return workers_[worker]->outer; }
  const FragmentReplica& replica(size_t worker, uint32_t fragment) const {
    return workers_[worker]->replicas[fragment];
  }
  const Aggregator& aggregator() const { return aggregator_; }
  const std::vector<RoundResult>& rounds() const { return rounds_; }
  uint64_t step() const { return step_; }

 private:
  struct Worker {
    std::vector<float> local, outer;
    std::vector<FragmentReplica> replicas;
  };
  // A round in flight: sent at `step`, applied overlap_steps later.
  struct Pending {
    FragmentIndex fragment;
    uint64_t apply_step = 0;
    size_t round = 0;  // index into rounds_
    std::set<size_t> contributors;
  };
  std::span<float> Range(std::vector<float>& arena, FragmentIndex fragment) const;
  void Send(FragmentIndex fragment);
  void Apply(const Pending& pending);

  ModelLayout layout_;
  LoopOptions options_;
  SyncSchedule schedule_;
  Aggregator aggregator_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Pending> pending_;
  std::vector<RoundResult> rounds_;
  Arrives arrives_;
  size_t rotation_ = 0;
  uint64_t step_ = 0;
};

}  // namespace atl::numerics

#endif  // ATOLL_TESTS_CONFORMANCE_NUMERICS_LOOP_H_
