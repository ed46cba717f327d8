// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/core.h"

#include "coordinator/core/machine.h"

namespace atl {

size_t Effects::count() const {
  return records.size() + sends.size() + closes.size() + verdicts.size() + tasks.size() + answers.size() + notes.size();
}

struct Core::State {
  Machine machine;
};

Core::Core(CoreOptions options, RecoveredState recovered, Instant now)
    : state_(std::make_unique<State>(State{Machine(options, std::move(recovered), now)})) {}
Core::~Core() = default;

Effects Core::Start(Instant now, const std::map<JobId, std::string>& damaged_logs) {
  return state_->machine.Start(now, damaged_logs);
}
Effects Core::Step(const Event& event, Instant now, int64_t wall_nanos) {
  return state_->machine.Step(event, now, wall_nanos);
}
Instant Core::NextWake() const { return state_->machine.NextWake(); }
BootNumber Core::boot() const { return state_->machine.boot(); }
std::vector<JobId> Core::Jobs() const { return state_->machine.Jobs(); }
bool Core::HasJob(const JobId& job) const { return state_->machine.HasJob(job); }
std::optional<JobView> Core::ViewJob(const JobId& job, Instant now) const { return state_->machine.ViewJob(job, now); }
std::vector<WorkerView> Core::ViewWorkers(Instant now) const { return state_->machine.ViewWorkers(now); }
std::vector<WorkerView> Core::ViewWorkersOf(const JobId& job, Instant now) const {
  return state_->machine.ViewWorkers(now, &job);
}
void Core::CheckInvariants() const { state_->machine.CheckInvariants(); }

}  // namespace atl
