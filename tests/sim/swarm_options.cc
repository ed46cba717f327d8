// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/swarm.h"

namespace atl {

SwarmOptions OptionsOf(uint64_t seed, double hours) {
  return {.sqlite = seed % 8 == 0,
          .audit = seed % 4 == 0,
          .hours = hours,
          .voids = seed % 4 == 3,
          .stalls = seed % 4 == 3,
          .restores = seed % 16 == 6 || seed % 16 == 12};
}

std::string ReplayCommand(uint64_t seed, const SwarmOptions& options) {
  std::string command = absl::StrCat("scripts/simulate --only --seed ", seed, " --simulated ", options.hours);
  if (!options.strangers) absl::StrAppend(&command, " --no-strangers");
  if (options.drop_syncs) absl::StrAppend(&command, " --drop-syncs ", *options.drop_syncs);
  if (options.samples > 0) absl::StrAppend(&command, " --samples ", options.samples);
  if (!options.rows.empty()) absl::StrAppend(&command, " --faults ", absl::StrJoin(options.rows, ","));
  return command;
}

}  // namespace atl
