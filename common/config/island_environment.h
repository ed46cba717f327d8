// SPDX-License-Identifier: Apache-2.0
// What a launcher tells the ranks of an island by the environment. Private to common/config.
#ifndef ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_
#define ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "common/config/options.h"

namespace atl {

// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and ATOLL_ISLAND_SECRET, where WORLD_SIZE is
// there and more than 1; `island` has what the options say. Every fault is a sentence; the secret is in none of them.
std::vector<std::string> ReadIslandEnvironment(const Environment& environment, IslandOptions& island);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_ISLAND_ENVIRONMENT_H_
