// SPDX-License-Identifier: Apache-2.0
// Plays simulation seeds one after the other, each twice, and prints one line per seed: see
// scripts/simulate.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/time.h"
#include "nlohmann/json.hpp"
#include "tests/sim/swarm.h"

namespace {

uint64_t Number(const char* text) { return std::strtoull(text, nullptr, 10); }

double CpuSeconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

void PrintLine(uint64_t seed, const atl::SwarmOptions& options, const atl::SwarmResult& played, double cpu_seconds) {
  const atl::Laws::Counts& c = played.counts;
  const nlohmann::json line = {{"seed", seed},
                               {"sqlite", options.sqlite},
                               {"audit", options.audit},
                               {"broken", played.broken},
                               {"replay", atl::ReplayCommand(seed, options)},
                               {"trace", absl::StrFormat("%016x", played.trace)},
                               {"simulated_seconds", played.simulated_seconds},
                               {"cpu_seconds", cpu_seconds},
                               {"messages", played.messages},
                               {"lost_messages", played.lost_messages},
                               {"steps", played.steps},
                               {"faults", played.faults},
                               {"reached",
                                {{"commits", c.commits},
                                 {"rounds", c.rounds},
                                 {"contributions merged", c.contributions},
                                 {"rollbacks", c.rollbacks},
                                 {"recoveries", c.recoveries},
                                 {"leases", c.leases},
                                 {"checkpoints", c.checkpoints},
                                 {"evaluations", c.evaluations},
                                 {"quarantines", c.quarantines},
                                 {"jobs ended", c.ended_jobs},
                                 {"looks of the laws", c.looks}}}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Reads the options after the four numbers. Returns false if one is unknown.
bool Read(int argc, char** argv, atl::SwarmOptions& all) {
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--tell") {
      all.tell = true;
    } else if (word == "--no-strangers") {
      all.strangers = false;
    } else if (word == "--drop-syncs" && i + 1 < argc) {
      all.drop_syncs = std::strtod(argv[++i], nullptr);
    } else if (word == "--samples" && i + 1 < argc) {
      all.samples = Number(argv[++i]);
    } else if (word == "--faults" && i + 1 < argc) {
      all.rows = absl::StrSplit(argv[++i], ',');
      const std::vector<std::string> known = atl::SimulatedRows();
      for (const std::string& row : all.rows) {
        if (std::find(known.begin(), known.end(), row) != known.end()) continue;
        std::fprintf(stderr, "atoll-simulate: no fault '%s' is simulated by itself; --faults takes some of %s\n",
                     row.c_str(), absl::StrJoin(known, ",").c_str());
        return false;
      }
    } else {
      std::fprintf(stderr,
                   "atoll-simulate: %s is not known; it takes --tell, --no-strangers, --drop-syncs P, --samples N and "
                   "--faults ROWS\n",
                   argv[i]);
      return false;
    }
  }
  return true;
}

}  // namespace

// atoll-simulate FIRST COUNT HOURS SECONDS [--tell] [--no-strangers] [--drop-syncs P] [--samples N]
// [--faults ROWS]: plays COUNT seeds from FIRST on, or as many as SECONDS of wall time allow.
int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(
        stderr,
        "atoll-simulate: say the first seed, how many, the simulated hours of each, and the limit in seconds\n");
    return 2;
  }
  atl::SwarmOptions all;
  if (!Read(argc, argv, all)) return 2;
  const uint64_t first = Number(argv[1]), count = Number(argv[2]);
  const double hours = std::strtod(argv[3], nullptr), limit = std::strtod(argv[4], nullptr);
  const atl::SystemClock clock;
  const atl::Instant began = clock.Now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    if (atl::ToSeconds(clock.Now() - began) > limit) break;
    atl::SwarmOptions options = atl::OptionsOf(seed, hours);
    options.tell = all.tell;
    options.strangers = all.strangers;
    options.drop_syncs = all.drop_syncs;
    options.samples = all.samples;
    options.rows = all.rows;
    const double before = CpuSeconds();
    atl::SwarmResult played = atl::PlaySwarm(seed, options);
    const double spent = CpuSeconds() - before;
    options.tell = false;
    if (played.broken.empty() && atl::PlaySwarm(seed, options).trace != played.trace)
      played.broken = "the second run of this seed was another one";
    PrintLine(seed, options, played, spent);
    if (!played.broken.empty()) return 1;
  }
  return 0;
}
