// SPDX-License-Identifier: Apache-2.0
#include "common/wire/task_scores.h"

#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/field_checks.h"

namespace atl {
namespace {

absl::StatusOr<TaskScore> FromProto(const v1::TaskScore& in, const std::string& path) {
  TaskScore out;
  if (!IsTaskName(in.name())) return FieldError(path + ".name", "is not the name of a task");
  out.name = in.name();
  ATOLL_RETURN_IF_ERROR(CheckCount(in.examples(), path + ".examples"));
  out.examples = in.examples();
  out.correct = in.correct();
  if (in.has_correct_per_byte()) out.correct_per_byte = in.correct_per_byte();
  if (out.correct > out.examples || out.correct_per_byte.value_or(0) > out.examples || out.examples == 0) {
    return FieldError(path, absl::StrCat("has ", out.correct, " right answers of ", out.examples, " examples"));
  }
  return out;
}

}  // namespace

v1::TaskScore ToProto(const TaskScore& score) {
  v1::TaskScore out;
  out.set_name(score.name);
  out.set_examples(score.examples);
  out.set_correct(score.correct);
  if (score.correct_per_byte) out.set_correct_per_byte(*score.correct_per_byte);
  return out;
}

absl::StatusOr<std::vector<TaskScore>> TaskScoresFromProto(
    const google::protobuf::RepeatedPtrField<v1::TaskScore>& proto, const std::string& path) {
  ATOLL_RETURN_IF_ERROR(CheckSize(static_cast<size_t>(proto.size()), limits::kEvalTasks, path));
  std::vector<TaskScore> out;
  out.reserve(static_cast<size_t>(proto.size()));
  for (int i = 0; i < proto.size(); ++i) {
    ATOLL_ASSIGN_OR_RETURN(TaskScore score, FromProto(proto[i], absl::StrCat(path, "[", i, "]")));
    out.push_back(std::move(score));
  }
  return out;
}

}  // namespace atl
