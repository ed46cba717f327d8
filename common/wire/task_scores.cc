// SPDX-License-Identifier: Apache-2.0
#include "common/wire/task_scores.h"

#include <algorithm>
#include <optional>

#include "common/plan/job_validation.h"
#include "common/plan/limits.h"
#include "common/wire/field_checks.h"

namespace atl {
v1::TaskScore ToProto(const TaskScore& score) {
  v1::TaskScore out;
  out.set_name(Sendable(score.name));
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
    const v1::TaskScore& in = proto[i];
    ATOLL_RETURN_IF_ERROR(CheckText(in.name(), absl::StrCat(path, "[", i, "].name")));
    out.push_back({in.name(), in.examples(), in.correct(), std::nullopt});
    if (in.has_correct_per_byte()) out.back().correct_per_byte = in.correct_per_byte();
  }
  return out;
}

absl::Status CheckTaskScores(const std::vector<TaskScore>& scores, const std::string& path) {
  for (size_t i = 0; i < scores.size(); ++i) {
    const TaskScore& score = scores[i];
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (!IsTaskName(score.name)) return FieldError(at + ".name", "is not the name of a task");
    ATOLL_RETURN_IF_ERROR(CheckCount(score.examples, at + ".examples"));
    const uint64_t most = std::max(score.correct, score.correct_per_byte.value_or(0));
    if (score.examples == 0 || most > score.examples)
      return FieldError(at, absl::StrCat("has ", most, " right answers of ", score.examples, " examples"));
  }
  return absl::OkStatus();
}

}  // namespace atl
