// SPDX-License-Identifier: Apache-2.0
#include "common/plan/ledger_fold.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"

namespace atl {
namespace {

auto KeyOf(const ContributionHeader& h) { return std::tie(h.target.fragment, h.worker); }
auto KeyOf(const ScreenedRecord& r) { return std::tie(r.target.fragment, r.worker); }
auto KeyOf(const ClaimTotal& t) { return std::tie(t.worker, t.fragment); }
auto KeyOf(const CheckpointRecord& c) { return std::tie(c.step); }

// Returns the element of `sorted` with the key of `made`. Inserts a copy of `made` if no element has that key.
template <typename T>
T& Entry(std::vector<T>& sorted, const T& made) {
  const auto before = [](const T& a, const T& b) { return KeyOf(a) < KeyOf(b); };
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), made, before);
  if (at != sorted.end() && !before(made, *at)) return *at;
  return *sorted.insert(at, made);
}

}  // namespace

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

RecoveredJob& LedgerFold::At(const JobId& job) {
  const auto it = jobs_.find(job);
  ATOLL_CHECK(it != jobs_.end(), "a ledger record names a job that was never recorded");
  return it->second;
}

void LedgerFold::Fold(const JobRecord& r) {
  RecoveredJob& job = jobs_[r.job];
  job.job = r;
  job.pool.job = r.job;
  job.heads.resize(r.fragments);
}

void LedgerFold::Fold(const CheckpointRecord& r) { Entry(At(r.job).checkpoints, r) = r; }

void LedgerFold::Fold(const CheckpointDropped& r) {
  std::erase_if(At(r.job).checkpoints, [&](const CheckpointRecord& c) { return c.step == r.step; });
}

void LedgerFold::Fold(const ScreenedRecord& r) { Entry(At(r.job).screened, r) = r; }

void LedgerFold::Fold(const RoundRecord& r) {
  RecoveredJob& job = At(r.job);
  FragmentHead& head = job.heads.at(r.reached.fragment.value);
  ATOLL_CHECK(r.reached.version.value == head.version.value + 1, "I6: versions grow by exactly one");
  head.version = r.reached.version;
  head.hash = r.hash;
  job.clock_step = std::max(job.clock_step, r.clock_step);
  ++job.rounds_committed;
  job.round_wall_nanos = r.wall_nanos;
  if (r.reached.fragment.value == 0) job.tokens_committed += r.tokens;
  for (const CommittedContribution& c : r.contributions) {
    Entry(job.committed, c.header) = c.header;
    const ClaimTotal nothing{c.header.worker, c.header.incarnation, r.reached.fragment, 0};
    ClaimTotal& total = Entry(job.claims, nothing);
    if (total.incarnation < c.header.incarnation) total = nothing;
    if (total.incarnation == c.header.incarnation) total.tokens += c.header.tokens;
  }
  std::erase_if(job.screened, [&](const ScreenedRecord& s) { return s.target.fragment == r.reached.fragment; });
}

void LedgerFold::Fold(const RollbackRecord& r) {
  RecoveredJob& job = At(r.job);
  job.committed.clear();
  job.claims.clear();
  job.screened.clear();
  DropUndone(job.evaluations, r.versions);
  for (size_t p = 0; p < job.heads.size(); ++p) job.heads[p] = {r.versions.at(p), Digest{}};
  for (const CheckpointRecord& checkpoint : job.checkpoints) {
    if (!checkpoint.complete || checkpoint.versions != r.versions) continue;
    job.clock_step = checkpoint.step;
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
    RecoveredJob& out = state.jobs.emplace_back(job);
    std::erase_if(out.claims, [&](const ClaimTotal& total) {
      const auto worker = workers_.find(total.worker);
      return worker == workers_.end() || worker->second.incarnation != total.incarnation;
    });
  }
  std::sort(state.jobs.begin(), state.jobs.end(),
            [](const RecoveredJob& a, const RecoveredJob& b) { return a.job.sequence < b.job.sequence; });
  for (const auto& [id, worker] : workers_) state.workers.push_back(worker);
  for (const auto& [id, lease] : leases_) state.leases.push_back(lease);
  return state;
}

}  // namespace atl
