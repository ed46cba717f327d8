// SPDX-License-Identifier: Apache-2.0
#include "common/plan/ledger_fold.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {

void DropUndone(std::vector<EvaluationRecord>& evaluations, const VersionVector& versions) {
  std::erase_if(evaluations, [&](const EvaluationRecord& made) {
    for (size_t p = 0; p < std::min(made.versions.size(), versions.size()); ++p) {
      if (made.versions[p] > versions[p]) return true;
    }
    return false;
  });
}

void LedgerFold::Apply(const std::vector<LedgerRecord>& transaction) {
  for (const LedgerRecord& record : transaction) {
    if (const auto* job = std::get_if<JobRecord>(&record)) Fold(*job);
  }
  for (const LedgerRecord& record : transaction) {
    if (std::holds_alternative<JobRecord>(record)) continue;
    std::visit([this](const auto& r) { Fold(r); }, record);
  }
}

LedgerFold::Job& LedgerFold::At(const JobId& job) {
  const auto it = jobs_.find(job);
  ATOLL_CHECK(it != jobs_.end(), "a ledger record names a job that was never recorded");
  return it->second;
}

void LedgerFold::Fold(const JobRecord& r) {
  Job& job = jobs_[r.job];
  job.record = r;
  job.pool.job = r.job;
  job.heads.resize(r.fragments);
}

void LedgerFold::Fold(const RoundRecord& r) {
  Job& job = At(r.job);
  FragmentHead& head = job.heads.at(r.reached.fragment.value);
  ATOLL_CHECK(r.reached.version.value == head.version.value + 1, "I6: versions grow by exactly one");
  head.version = r.reached.version;
  head.hash = r.hash;
  job.clock_step = std::max(job.clock_step, r.clock_step);
  ++job.rounds_committed;
  job.round_wall_nanos = r.wall_nanos;
  if (r.reached.fragment.value == 0) job.tokens_committed += r.tokens;
  for (const CommittedContribution& c : r.contributions) {
    job.committed.insert_or_assign(std::pair(r.reached.fragment, c.header.worker), c.header);
    ClaimTotal& total = job.claims[{c.header.worker, r.reached.fragment}];
    if (total.incarnation < c.header.incarnation)
      total = {c.header.worker, c.header.incarnation, r.reached.fragment, 0};
    if (total.incarnation == c.header.incarnation) total.tokens += c.header.tokens;
  }
  std::erase_if(job.screened, [&](const auto& entry) { return entry.first.first == r.reached.fragment; });
}

void LedgerFold::Fold(const RollbackRecord& r) {
  Job& job = At(r.job);
  job.committed.clear();
  job.claims.clear();
  job.screened.clear();
  DropUndone(job.evaluations, r.versions);
  for (size_t p = 0; p < job.heads.size(); ++p) job.heads[p] = {r.versions.at(p), Digest{}};
  for (const auto& [step, checkpoint] : job.checkpoints) {
    if (!checkpoint.complete || checkpoint.versions != r.versions) continue;
    job.clock_step = step;
    for (size_t p = 0; p < job.heads.size() && p < checkpoint.hashes.size(); ++p)
      job.heads[p].hash = checkpoint.hashes[p];
    return;
  }
}

RecoveredState LedgerFold::State(BootNumber boot) const {
  RecoveredState state;
  state.boot = boot;
  state.counters = counters_;
  for (const auto& [id, job] : jobs_) {
    RecoveredJob out;
    out.job = job.record;
    out.pool = job.pool;
    out.heads = job.heads;
    out.clock_step = job.clock_step;
    out.rounds_committed = job.rounds_committed;
    out.tokens_committed = job.tokens_committed;
    out.round_wall_nanos = job.round_wall_nanos;
    for (const auto& [key, header] : job.committed) out.committed.push_back(header);
    for (const auto& [key, total] : job.claims) {
      const auto worker = workers_.find(total.worker);
      if (worker != workers_.end() && worker->second.incarnation == total.incarnation) out.claims.push_back(total);
    }
    for (const auto& [key, screened] : job.screened) out.screened.push_back(screened);
    out.evaluations = job.evaluations;
    for (const auto& [step, checkpoint] : job.checkpoints) out.checkpoints.push_back(checkpoint);
    state.jobs.push_back(std::move(out));
  }
  std::sort(state.jobs.begin(), state.jobs.end(),
            [](const RecoveredJob& a, const RecoveredJob& b) { return a.job.sequence < b.job.sequence; });
  for (const auto& [id, worker] : workers_) state.workers.push_back(worker);
  for (const auto& [id, lease] : leases_) state.leases.push_back(lease);
  return state;
}

}  // namespace atl
