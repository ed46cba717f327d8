// SPDX-License-Identifier: Apache-2.0
// One simulated life of a deployment, drawn from a seed: the jobs, the machines and their links, which kinds of faults
// there are and how often. Hours of faults, then all is mended and every job must go on and end (liveness); the laws
// are checked throughout (laws.h), and the state that is left is audited.
#ifndef ATOLL_TESTS_SIM_SWARM_H_
#define ATOLL_TESTS_SIM_SWARM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/laws.h"

namespace atl {

struct SwarmOptions {
  bool sqlite = false;                 // the ledger in SQLite over the simulated disk; otherwise in memory
  bool audit = false;                  // verify and replay what is left
  double hours = 1;                    // of faults
  bool tell = false;                   // print what happens, for people
  bool strangers = true;               // of strangers.h, and jobs that lose syncs; in a stream of draws of their own
  bool voids = false;                  // World::MeetVoid; with strangers alone
  bool stalls = false;                 // of transfers, likewise
  bool restores = false;               // of backups (backups.h), likewise
  std::optional<double> drop_syncs{};  // experiment.drop_sync_probability of every job, whatever is drawn
  uint64_t samples = 0;                // of a job at most: its data ends then, and so does the job; 0: they have no end
  // Of docs/results/faults.md, such as F1: each time these faults together and no other; empty: all kinds, as drawn.
  std::vector<std::string> rows{};
};

struct SwarmResult {
  std::string broken;  // the first law that did not hold; empty: all held
  uint64_t trace = 0;  // equal for equal seeds and options
  double simulated_seconds = 0;
  uint64_t messages = 0, lost_messages = 0, steps = 0;
  std::map<std::string, uint64_t> faults;   // that happened, by kind
  std::map<std::string, uint64_t> of_rows;  // of those, by row of docs/results/faults.md
  Laws::Counts counts;
};

// Which seeds have SQLite (one of eight), are audited (one of four), meet what is of void incarnations and transfers
// that stall (one of four, others), and go back to backups (one of eight, half of them audited).
SwarmOptions OptionsOf(uint64_t seed, double hours);
// The one command that plays it again and tells what happens. `options` are OptionsOf's, but for strangers, drop_syncs,
// samples and rows.
std::string ReplayCommand(uint64_t seed, const SwarmOptions& options);
// Those that `rows` may name.
std::vector<std::string> SimulatedRows();
SwarmResult PlaySwarm(uint64_t seed, const SwarmOptions& options);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SWARM_H_
