// SPDX-License-Identifier: Apache-2.0
// One simulated life of a deployment. The seed draws the jobs, the machines and their links, and
// the kinds and rates of faults. After hours of faults everything is repaired, and every job must
// make progress and end (liveness). The laws (laws.h) are checked throughout, and the final state
// is audited.
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
  bool sqlite = false;    // the ledger in SQLite over the simulated disk; otherwise in memory
  bool audit = false;     // verify and replay the final state
  double hours = 1;       // of faults
  bool tell = false;      // print the events, for people
  bool strangers = true;  // strangers (strangers.h), and jobs that drop syncs; drawn from a separate stream
  bool voids = false;     // World::MeetVoid; requires strangers
  bool stalls = false;    // stalled transfers; requires strangers
  bool restores = false;  // restores from backups (backups.h); requires strangers
  std::optional<double> drop_syncs{};  // experiment.drop_sync_probability of every job; overrides the draw
  uint64_t samples = 0;  // upper limit for each job's dataset, with which the job ends; 0: datasets are endless
  // Rows of docs/results/faults.md, such as F1: only these faults, each time together. Empty: all
  // kinds, as drawn.
  std::vector<std::string> rows{};
};

struct SwarmResult {
  std::string broken;  // the first broken law; empty: all held
  uint64_t trace = 0;  // equal for equal seeds and options
  double simulated_seconds = 0;
  uint64_t messages = 0, lost_messages = 0, steps = 0;
  std::map<std::string, uint64_t> faults;   // faults that happened, by kind
  std::map<std::string, uint64_t> of_rows;  // the same, by row of docs/results/faults.md
  Laws::Counts counts;
};

// Draws which seeds use SQLite (one of eight), are audited (one of four), meet void incarnations
// and stalled transfers (one of four, drawn separately), and restore backups (one of eight, half of
// them audited).
SwarmOptions OptionsOf(uint64_t seed, double hours);
// The one command that replays the seed and prints its events. `options` are OptionsOf's, except
// for strangers, drop_syncs, samples and rows.
std::string ReplayCommand(uint64_t seed, const SwarmOptions& options);
// The names allowed in `rows`.
std::vector<std::string> SimulatedRows();
SwarmResult PlaySwarm(uint64_t seed, const SwarmOptions& options);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SWARM_H_
