// SPDX-License-Identifier: Apache-2.0
// Implements data.assignment: shards: each worker's leases are in its corpus.
#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/plan/shards.h"
#include "coordinator/core/machine.h"

namespace atl {

std::optional<SampleRange> Machine::PositionsFor(Run& run, const WorkerId& worker) {
  if (!run.spec->data.pin_shards) return SampleRange{0, UINT64_MAX};
  std::set<WorkerId> present;
  for (const auto& [id, member] : fleet_.Of(run.id())) {
    if (member.Trains(run.id()) && !member.lost) present.insert(id);
  }
  const std::optional<uint32_t> before = run.shards.Of(worker);
  const std::optional<uint32_t> corpus = run.shards.Take(worker, present);
  if (!corpus) return std::nullopt;
  if (before != corpus) {
    const std::string& name = run.spec->data.corpora[*corpus].name;
    Note(run.id(), "corpus pinned", absl::StrCat("worker ", worker.value, " reads corpus ", name),
         {{"worker", worker.value}, {"corpus", name}});
  }
  return ShardRange(*corpus);
}

void Machine::RecoverShards(Run& run) {
  if (!run.spec->data.pin_shards) return;
  std::vector<std::tuple<uint64_t, WorkerId, uint32_t>> seen;  // by version: the newest entry counts
  const auto look = [&](const ContributionHeader& header) {
    const auto corpus = ShardOf(header.cursors);
    if (corpus && fleet_.Find(header.worker) != nullptr) {
      seen.emplace_back(header.target.version.value, header.worker, *corpus);
    }
  };
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    for (const auto& [worker, header] : run.committed[p]) look(header);
    for (const auto& [worker, arrival] : run.rounds[p].accepted) look(arrival.header);
  }
  std::sort(seen.begin(), seen.end());
  for (const auto& [version, worker, corpus] : seen) run.shards.Saw(worker, corpus);
  for (const auto& [worker, member] : fleet_.members()) {
    for (const LeaseId id : run.pool.HeldBy(worker)) {
      run.shards.Saw(worker, static_cast<uint32_t>(run.pool.Find(id)->range.begin / kShardPositions));
    }
  }
}

}  // namespace atl
