// SPDX-License-Identifier: Apache-2.0
// Hides secrets in the process's environment and arguments, and passes an environment to another program. The Hide
// functions are called at the start of main, before other threads exist.
#ifndef ATOLL_COMMON_CONFIG_ENVIRONMENT_H_
#define ATOLL_COMMON_CONFIG_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "common/config/options.h"

namespace atl {

// The shared secret of an island's ranks.
inline constexpr char kIslandSecretVariable[] = "ATOLL_ISLAND_SECRET";
// torchrun sets it to "True" when its agent listens at MASTER_PORT.
inline constexpr char kAgentStoreVariable[] = "TORCHELASTIC_USE_AGENT_STORE";
// If set to any value, processes that hold keys may leave core dumps and be debugged by the same
// user.
inline constexpr char kDebuggableVariable[] = "ATOLL_DEBUGGABLE";

// Overwrites the value that the system shows in process lists (/proc/PID/environ). Read the
// variable before.
void HideInEnvironment(const std::string& name);
// Overwrites join tokens among the arguments that the system shows in process lists (/proc/PID/cmdline). Copy the
// arguments before.
void HideInArguments(int count, char** arguments);
// One "NAME=VALUE" for each variable.
std::vector<std::string> LinesOf(const Environment& environment);
// The form that exec needs for arguments and environment: pointers into `texts`, then null.
std::vector<char*> PointersTo(std::vector<std::string>& texts);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_ENVIRONMENT_H_
