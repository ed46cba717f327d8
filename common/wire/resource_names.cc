// SPDX-License-Identifier: Apache-2.0
#include "common/wire/resource_names.h"

#include "absl/strings/numbers.h"
#include "common/base/names.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr char kJobs[] = "jobs/";
constexpr char kWorkersPrefix[] = "workers/";
constexpr char kCheckpoints[] = "/checkpoints/";

absl::Status NotOfForm(const std::string& name, const char* form) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", name.substr(0, limits::kLabelBytes), "' is not a resource name of the form ", form));
}

// Returns the part after `prefix`.
absl::StatusOr<std::string> After(const std::string& name, const std::string& prefix, const char* form) {
  if (name.size() <= limits::kTextBytes && name.compare(0, prefix.size(), prefix) == 0)
    return name.substr(prefix.size());
  return NotOfForm(name, form);
}

}  // namespace

std::string JobName(const JobId& job) { return kJobs + job.value; }
std::string WorkerName(const WorkerId& worker) { return kWorkersPrefix + worker.value; }
std::string CheckpointNameOf(const JobId& job, uint64_t step) {
  return absl::StrCat(kJobs, job.value, kCheckpoints, step);
}

absl::Status CheckId(const std::string& id, const char* what) {
  if (IsName(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": '", id.substr(0, limits::kLabelBytes),
                                                 "' is not a name: use 1 to ", limits::kNameBytes,
                                                 " of a-z, 0-9 and '-', not beginning with '-'"));
}

absl::StatusOr<JobId> ParseJobName(const std::string& name) {
  ATOLL_ASSIGN_OR_RETURN(const std::string id, After(name, kJobs, "jobs/{job}"));
  ATOLL_RETURN_IF_ERROR(CheckId(id, "job"));
  return JobId{id};
}

absl::StatusOr<WorkerId> ParseWorkerName(const std::string& name) {
  ATOLL_ASSIGN_OR_RETURN(const std::string id, After(name, kWorkersPrefix, "workers/{worker}"));
  ATOLL_RETURN_IF_ERROR(CheckId(id, "worker"));
  return WorkerId{id};
}

absl::StatusOr<CheckpointName> ParseCheckpointName(const std::string& name) {
  constexpr char kForm[] = "jobs/{job}/checkpoints/{step}";
  ATOLL_ASSIGN_OR_RETURN(const std::string rest, After(name, kJobs, kForm));
  const size_t at = rest.find(kCheckpoints);
  if (at == std::string::npos) return NotOfForm(name, kForm);
  CheckpointName out{.job = {rest.substr(0, at)}};
  ATOLL_RETURN_IF_ERROR(CheckId(out.job.value, "job"));
  const std::string step = rest.substr(at + sizeof(kCheckpoints) - 1);
  if (step == "latest") {
    out.latest = true;
    return out;
  }
  // Comparing with the printed number refuses signs, blanks and leading zeros.
  if (!absl::SimpleAtoi(step, &out.step) || absl::StrCat(out.step) != step) {
    return absl::InvalidArgumentError(absl::StrCat("'", step.substr(0, limits::kLabelBytes),
                                                   "' is not a checkpoint's step: use a number, or 'latest'"));
  }
  return out;
}

}  // namespace atl
