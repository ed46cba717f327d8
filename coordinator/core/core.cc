// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/core.h"

#include "coordinator/core/machine.h"

namespace atl {

size_t Effects::count() const {
  return records.size() + sends.size() + closes.size() + verdicts.size() + tasks.size() + answers.size() + notes.size();
}

Core::Core(CoreOptions options, RecoveredState recovered, Instant now)
    : machine_(std::make_unique<Machine>(options, std::move(recovered), now)) {}
Core::~Core() = default;

Effects Core::Start(Instant now, const std::map<JobId, std::string>& damaged_logs) {
  return machine_->Start(now, damaged_logs);
}
Effects Core::Step(const Event& event, Instant now, int64_t wall_nanos) {
  return machine_->Step(event, now, wall_nanos);
}
Instant Core::NextWake() const { return machine_->NextWake(); }
BootNumber Core::boot() const { return machine_->boot(); }
std::vector<JobId> Core::Jobs() const { return machine_->Jobs(); }
bool Core::HasJob(const JobId& job) const { return machine_->HasJob(job); }
std::optional<JobView> Core::ViewJob(const JobId& job, Instant now) const { return machine_->ViewJob(job, now); }
std::vector<WorkerView> Core::ViewWorkers(Instant now) const { return machine_->ViewWorkers(now); }
std::vector<WorkerView> Core::ViewWorkersOf(const JobId& job, Instant now) const {
  return machine_->ViewWorkers(now, &job);
}
void Core::CheckInvariants() const { machine_->CheckInvariants(); }

}  // namespace atl
