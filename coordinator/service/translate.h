// SPDX-License-Identifier: Apache-2.0
// Translates views of the engine into messages of the API. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_TRANSLATE_H_
#define ATOLL_COORDINATOR_SERVICE_TRANSLATE_H_

#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "coordinator/engine/engine.h"

namespace atl {

v1::JobState ToProto(JobState state);
v1::EvaluationResult ToProto(const EvaluationRecord& record);
v1::JobEvent ToProto(const EventLine& line);
v1::Checkpoint ToProto(const CheckpointRecord& record, const JobView& job,
                       const std::vector<uint64_t>& fragment_elements);
// `totals` null: no byte counts and no participation. `spec` null: no token rate and no pace.
v1::WorkerStatus ToProto(const WorkerView& worker, const JobHistory* totals, const JobSpec* spec);
// `with_spec` false omits the spec and the diagnostics of single contributions, for lists and watchers.
v1::Job ToProto(const JobGlance& glance, uint64_t parameters, const std::vector<uint64_t>& fragment_elements,
                bool with_spec);

// Changes with every update of the spec, every rollback and every change of the job's state.
std::string EtagOf(const JobView& view);

// RunUtilization of common/plan (0 to 1) for the worker's measured step time and rates; nothing until all are known,
// or if a rate is impossible.
std::optional<double> PlannedUtilization(const WorkerView& worker, const JobSpec& spec,
                                         const std::vector<uint64_t>& fragment_elements);

// Recent tokens per second of a worker on this job; 0 if it is silent, neither trains nor waits, or has no step time.
double TokensPerSecond(const WorkerView& worker, const JobSpec& spec);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_TRANSLATE_H_
