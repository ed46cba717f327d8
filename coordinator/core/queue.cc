// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue.h"

#include <algorithm>
#include <utility>

namespace atl {
namespace {

class Planner {
 public:
  Planner(std::vector<QueuedJob> jobs, std::vector<FreeWorker> free, const std::map<WorkerId, std::set<JobId>>& barred)
      : jobs_(std::move(jobs)), free_(std::move(free)), barred_(barred) {
    std::sort(jobs_.begin(), jobs_.end(), [](const QueuedJob& a, const QueuedJob& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.sequence < b.sequence;
    });
  }

  std::vector<Move> Plan() {
    for (QueuedJob& job : jobs_) DropExcess(job);
    for (size_t i = 0; i < jobs_.size(); ++i) FillMinimum(i);
    for (const bool keeps : {true, false}) {
      for (size_t i = 0; i < jobs_.size(); ++i) {
        if ((jobs_[i].keep > 0) == keeps) FillFromStuck(i);
      }
    }
    for (size_t i = 0; i < jobs_.size(); ++i) {
      while (jobs_[i].started && jobs_[i].workers.size() < jobs_[i].max && TakeOne(i)) {
      }
    }
    return std::move(moves_);
  }

 private:
  void DropExcess(QueuedJob& job) {
    while (job.workers.size() > job.max) {
      const WorkerId worker = job.workers.back();
      job.workers.pop_back();
      moves_.push_back({worker, job.job, {}});
      const auto it = barred_.find(worker);
      free_.push_back({worker, it == barred_.end() ? std::set<JobId>{} : it->second});
    }
  }

  void FillMinimum(size_t index) {
    QueuedJob& job = jobs_[index];
    if (job.workers.size() >= job.min) {
      job.started = true;
      return;
    }
    if (!job.started && job.workers.size() + Available(index) < job.min) return;
    while (job.workers.size() < job.min && TakeOne(index)) {
    }
    job.started = job.started || job.workers.size() >= job.min;
  }

  // The number of workers available to the job at `index`: free ones, and those that lower-priority
  // jobs do not keep.
  size_t Available(size_t index) const {
    const JobId& job = jobs_[index].job;
    size_t count = 0;
    for (const FreeWorker& w : free_) count += w.barred.contains(job) ? 0 : 1;
    for (const QueuedJob& other : jobs_) {
      if (other.priority >= jobs_[index].priority || other.workers.size() <= KeptBy(other)) continue;
      size_t able = 0;
      for (const WorkerId& w : other.workers) able += MayHave(w, job) ? 1 : 0;
      count += std::min(able, other.workers.size() - KeptBy(other));
    }
    return count;
  }

  // Whether the job at `donor`, which cannot continue either, gives its workers to the job at
  // `taker`. Of two jobs, at most one gives to the other.
  bool Yields(size_t donor, size_t taker) const {
    const QueuedJob &gives = jobs_[donor], &takes = jobs_[taker];
    if (gives.workers.size() >= gives.min) return false;
    if ((gives.keep > 0) != (takes.keep > 0)) return takes.keep > 0;
    return donor > taker;
  }

  void FillFromStuck(size_t index) {
    QueuedJob& job = jobs_[index];
    if (job.workers.size() >= job.min) return;
    std::vector<std::pair<size_t, WorkerId>> able;  // last jobs first
    for (size_t j = jobs_.size(); j-- > 0;) {
      if (!Yields(j, index)) continue;
      for (const WorkerId& w : jobs_[j].workers) {
        if (MayHave(w, job.job)) able.emplace_back(j, w);
      }
    }
    if (job.workers.size() + able.size() < job.min) return;
    for (size_t n = 0; job.workers.size() < job.min; ++n) {
      QueuedJob& other = jobs_[able[n].first];
      moves_.push_back({able[n].second, other.job, job.job});
      job.workers.push_back(able[n].second);
      std::erase(other.workers, able[n].second);
    }
    job.started = true;
  }

  static size_t KeptBy(const QueuedJob& job) { return std::max(job.min, job.keep); }

  bool MayHave(const WorkerId& worker, const JobId& job) const {
    const auto it = barred_.find(worker);
    return it == barred_.end() || !it->second.contains(job);
  }

  bool TakeOne(size_t index) {
    QueuedJob& job = jobs_[index];
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].barred.contains(job.job)) continue;
      moves_.push_back({free_[i].worker, {}, job.job});
      job.workers.push_back(free_[i].worker);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    for (size_t j = jobs_.size(); j-- > 0;) {
      QueuedJob& other = jobs_[j];
      if (other.priority >= job.priority || other.workers.size() <= KeptBy(other)) continue;
      for (size_t k = other.workers.size(); k-- > 0;) {
        if (!MayHave(other.workers[k], job.job)) continue;
        moves_.push_back({other.workers[k], other.job, job.job});
        job.workers.push_back(other.workers[k]);
        other.workers.erase(other.workers.begin() + static_cast<std::ptrdiff_t>(k));
        return true;
      }
    }
    return false;
  }

  std::vector<QueuedJob> jobs_;
  std::vector<FreeWorker> free_;
  const std::map<WorkerId, std::set<JobId>>& barred_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> PlanMoves(std::vector<QueuedJob> jobs, std::vector<FreeWorker> free,
                            const std::map<WorkerId, std::set<JobId>>& barred) {
  return Planner(std::move(jobs), std::move(free), barred).Plan();
}

}  // namespace atl
