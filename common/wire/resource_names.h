// SPDX-License-Identifier: Apache-2.0
// Resource names: "jobs/tiny", "jobs/tiny/checkpoints/400", "workers/paris-1". Parsing is strict:
// names are 1 to 63 of [a-z0-9-], not beginning with '-', so that a name is also a safe file name.
// Pure functions.
#ifndef ATOLL_COMMON_WIRE_RESOURCE_NAMES_H_
#define ATOLL_COMMON_WIRE_RESOURCE_NAMES_H_

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace atl {

struct CheckpointName {
  JobId job;
  uint64_t step = 0;
  bool latest = false;  // "jobs/{job}/checkpoints/latest"; then step is 0
  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
};

std::string JobName(const JobId& job);
std::string WorkerName(const WorkerId& worker);
std::string CheckpointNameOf(const JobId& job, uint64_t step);

// InvalidArgument with the invalid name and the expected form.
absl::StatusOr<JobId> ParseJobName(const std::string& name);
absl::StatusOr<WorkerId> ParseWorkerName(const std::string& name);
absl::StatusOr<CheckpointName> ParseCheckpointName(const std::string& name);

// Checks a bare id (the part after the slash). `what` names the field in the error: "job", "worker".
absl::Status CheckId(const std::string& id, const char* what);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_RESOURCE_NAMES_H_
