// SPDX-License-Identifier: Apache-2.0
// What a process hides of its environment, and how it hands one on. For the beginning of main, before there are
// threads.
#ifndef ATOLL_COMMON_CONFIG_ENVIRONMENT_H_
#define ATOLL_COMMON_CONFIG_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "common/config/options.h"

namespace atl {

// The shared secret of an island's ranks.
inline constexpr char kIslandSecretVariable[] = "ATOLL_ISLAND_SECRET";
// "True": torchrun's agent listens at MASTER_PORT itself.
inline constexpr char kAgentStoreVariable[] = "TORCHELASTIC_USE_AGENT_STORE";
// Where it is set to anything, processes that hold keys leave core dumps and let in debuggers of the same user.
inline constexpr char kDebuggableVariable[] = "ATOLL_DEBUGGABLE";

// Overwrites the value where the system shows it to whoever lists processes (/proc/PID/environ). To be read before.
void HideInEnvironment(const std::string& name);
// "NAME=VALUE" of each.
std::vector<std::string> LinesOf(const Environment& environment);
// As exec takes arguments and environment: pointers into `texts`, and null at the end.
std::vector<char*> PointersTo(std::vector<std::string>& texts);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_ENVIRONMENT_H_
