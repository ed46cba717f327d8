// SPDX-License-Identifier: Apache-2.0
// Scores of evaluation tasks, used by messages and records.
#ifndef ATOLL_COMMON_WIRE_TASK_SCORES_H_
#define ATOLL_COMMON_WIRE_TASK_SCORES_H_

#include <string>
#include <vector>

#include "atoll/v1/worker.pb.h"
#include "common/base/status.h"
#include "common/plan/messages.h"

namespace atl {

v1::TaskScore ToProto(const TaskScore& score);
// InvalidArgument that begins with the field's path: more than limits::kEvalTasks, or a name longer
// than any text may be. Names and figures may be impossible.
absl::StatusOr<std::vector<TaskScore>> TaskScoresFromProto(
    const google::protobuf::RepeatedPtrField<v1::TaskScore>& proto, const std::string& path);
// InvalidArgument that begins with the field's path: an invalid task name, no examples, more correct
// examples than examples.
absl::Status CheckTaskScores(const std::vector<TaskScore>& scores, const std::string& path);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_TASK_SCORES_H_
