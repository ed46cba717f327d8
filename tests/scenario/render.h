// SPDX-License-Identifier: Apache-2.0
// Renders each effect of the coordinator's core as one line, as in the stories.
#ifndef ATOLL_TESTS_SCENARIO_RENDER_H_
#define ATOLL_TESTS_SCENARIO_RENDER_H_

#include <map>
#include <string>
#include <vector>

#include "coordinator/core/core.h"

namespace atl {

// `names`: the worker of each connection. Records come first, then sends, closes, verdicts, tasks,
// answers, notes.
std::vector<std::string> Render(const Effects& effects, const std::map<ConnectionId, std::string>& names);
std::vector<std::string> Render(const JobView& view);
std::string Render(const WorkerView& view);

}  // namespace atl

#endif  // ATOLL_TESTS_SCENARIO_RENDER_H_
