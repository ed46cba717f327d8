// SPDX-License-Identifier: Apache-2.0
// The state that a restarting coordinator finds.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/core/world.h"

namespace atl {

std::string Durable(const JobView& view) {
  std::string out =
      absl::StrCat(static_cast<uint32_t>(view.record.state), " rev ", view.record.spec_revision, " epoch ",
                   view.record.epoch, " stop ", view.record.stop_step, " rounds ", view.rounds_committed, " tokens ",
                   view.tokens_committed, " part ", view.participating, " ev ", view.evaluations.size());
  const BalanceView& b = view.balance;
  absl::StrAppend(&out, " balance ", b.dataset, " ", b.unleased, " ", b.leased, " ", b.consumed, " ", b.abandoned);
  for (const FragmentView& f : view.fragments) {
    absl::StrAppend(&out, " v", f.version.value, f.version.value > 0 ? f.hash.Hex() : "", " a", f.accepted);
  }
  for (const CheckpointRecord& c : view.checkpoints) absl::StrAppend(&out, " c", c.step, c.complete ? "+" : "-");
  return out;
}

RecoveredState World::Recovered(uint64_t boot, bool with_flushing) const {
  RecoveredState state = ledger_.State(BootNumber{boot});
  for (RecoveredJob& job : state.jobs) {
    for (const ContributionHeader& h : accepted_) {
      if (h.job == job.job.job) job.accepted.push_back(h);
    }
    for (const auto& [id, upload] : uploads_) {
      if (with_flushing && upload.flushing && upload.header.job == job.job.job) job.accepted.push_back(upload.header);
    }
  }
  return state;
}

void World::Restart(bool damage) {
  // A trailer may have reached the disk although no worker was notified.
  const bool flushed = Chance(2);
  RecoveredState state = Recovered(++boot_, flushed);
  for (const auto& [id, upload] : uploads_) {
    if (flushed && upload.flushing) Accept(upload.header);
  }
  uploads_.clear();
  tasks_.clear();
  for (auto& [name, worker] : workers_) worker.connection.reset();
  damaged_.clear();
  for (RecoveredJob& job : state.jobs) {
    if (!damage || HasEnded(job.job.state) || !Chance(2)) continue;
    job.accepted.clear();
    damaged_[job.job.job] = "a disk that failed for a moment";
  }
  core_ = std::make_unique<Core>(options_, std::move(state), now_);
  Take(core_->Start(now_, damaged_));
}

std::string World::RecoveryDifference() const {
  const Core other(options_, Recovered(boot_ + 1, false), now_);
  other.CheckInvariants();
  for (const JobId& job : core_->Jobs()) {
    if (damaged_.contains(job)) continue;  // the accepted contributions are unknown
    const std::string was = Durable(*core_->ViewJob(job, now_)), found = Durable(*other.ViewJob(job, now_));
    if (was != found) return absl::StrCat(job.value, ": was ", was, "\nfound ", found);
  }
  const auto a = core_->ViewWorkers(now_), b = other.ViewWorkers(now_);
  if (a.size() != b.size()) return "another number of workers";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].worker != b[i].worker || a[i].incarnation != b[i].incarnation || a[i].job != b[i].job)
      return a[i].worker.value;
  }
  return "";
}

}  // namespace atl
