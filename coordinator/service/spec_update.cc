// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/spec_update.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/rpc/rpc_status.h"
#include "common/wire/job_spec_proto.h"

namespace atl {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Copies one field, given by its dotted path. False if no such field exists.
bool CopyField(const Message& from, Message& to, const std::vector<std::string>& path, size_t at) {
  const FieldDescriptor* field = to.GetDescriptor()->FindFieldByName(path[at]);
  if (field == nullptr) return false;
  if (at + 1 < path.size()) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) return false;
    return CopyField(from.GetReflection()->GetMessage(from, field), *to.GetReflection()->MutableMessage(&to, field),
                     path, at + 1);
  }
  // Merges a message with only this field into one in which the field is cleared.
  std::unique_ptr<Message> only(from.New());
  only->CopyFrom(from);
  std::vector<const FieldDescriptor*> set;
  only->GetReflection()->ListFields(*only, &set);
  for (const FieldDescriptor* other : set) {
    if (other != field) only->GetReflection()->ClearField(only.get(), other);
  }
  to.GetReflection()->ClearField(&to, field);
  to.MergeFrom(*only);
  return true;
}

void ChangeLabels(const v1::UpdateJobRequest& request, JobSpec& spec, std::vector<Violation>& violations) {
  for (const std::string& key : request.remove_labels()) {
    if (spec.labels.erase(key) == 0) violations.push_back({"metadata.labels", absl::StrCat("has no '", key, "'")});
  }
  for (const auto& [key, value] : request.set_labels()) spec.labels[key] = value;
}

// workers.planned was fixed at submit. If it was not given, it equals the workers.min of that time
// and follows new bounds.
void KeepPlannedWithin(const WorkersSpec& before, WorkersSpec& workers) {
  if (before.planned == before.min && workers.min <= workers.max)
    workers.planned = std::clamp(workers.planned, workers.min, workers.max);
}

}  // namespace

absl::Status ViolationsError(const std::vector<Violation>& violations) {
  std::vector<std::string> lines;
  std::vector<FieldViolation> fields;  // the command line maps them to lines of the job file
  for (const Violation& violation : violations) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.problem));
    fields.push_back({violation.field, violation.problem});
  }
  return WithViolations(absl::InvalidArgumentError(absl::StrJoin(lines, "\n")), fields);
}

absl::StatusOr<JobSpec> MergeSpecUpdate(const JobSpec& current, const v1::UpdateJobRequest& request) {
  if (request.update_mask().empty() && request.set_labels().empty() && request.remove_labels().empty()) {
    return absl::InvalidArgumentError(
        "nothing to update: name at least one field, as in --set inner_optimizer.learning_rate=2e-4, or a label");
  }
  std::vector<Violation> violations;
  v1::JobSpec merged = JobSpecToProto(current);
  // Handles a repeated path once, because each path costs a copy of a part of the spec.
  for (const std::string& path : std::set<std::string>(request.update_mask().begin(), request.update_mask().end())) {
    const bool readable = path.size() <= limits::kLabelBytes;
    if (!readable || !CopyField(request.spec(), merged, absl::StrSplit(path, '.'), 0)) {
      violations.push_back({path.substr(0, limits::kLabelBytes), "no such field exists"});
    } else if (!IsMutableField(path)) {
      violations.push_back({path, "cannot change while a job runs; submit a new job from a checkpoint instead"});
    }
  }
  if (!violations.empty()) return ViolationsError(violations);
  JobSpec spec;
  violations = JobSpecFromProto(merged, /*before_submit=*/false, spec);
  if (!violations.empty()) return ViolationsError(violations);
  spec.name = current.name;
  spec.labels = current.labels;
  ChangeLabels(request, spec, violations);
  if (!violations.empty()) return ViolationsError(violations);
  KeepPlannedWithin(current.workers, spec.workers);
  violations = ValidateJobSpec(spec, /*before_submit=*/false);
  if (!violations.empty()) return ViolationsError(violations);
  // Values that the update leaves out are chosen as at submit.
  (void)ResolveDefaults(spec, spec.model.vocab_size);
  return spec;
}

}  // namespace atl
