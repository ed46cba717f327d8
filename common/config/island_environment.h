// SPDX-License-Identifier: Apache-2.0
// The environment variables that a launcher sets for the ranks of an island. Private to
// common/config.
#ifndef ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_
#define ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "common/config/options.h"

namespace atl {

// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE and
// ATOLL_ISLAND_SECRET if WORLD_SIZE is set and not 1; otherwise sets only ranks_here. `island` already has the values
// of the options. Returns one error message for each problem; no message contains the secret.
std::vector<std::string> ReadIslandEnvironment(const Environment& environment, IslandOptions& island);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_
