// SPDX-License-Identifier: Apache-2.0
// What a person wants to see of a job's past: its newest events, its curves, its byte accounts. Rebuildable from the
// event log, bounded in memory, never read by a decision. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_HISTORY_H_
#define ATOLL_COORDINATOR_ENGINE_HISTORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/engine/round_measures.h"

namespace atl {

// One line of a job's event log.
struct EventLine {
  uint64_t revision = 0;  // grows by one in each job
  int64_t wall_nanos = 0;
  std::string kind;  // "round committed"
  std::string text;  // one sentence
  std::map<std::string, std::string> fields;
};

struct CurvePoint {
  uint64_t step = 0;  // job clock
  int64_t wall_nanos = 0;
  double value = 0;
};

// A curve that never holds more than limits::kCurvePoints: when full, every second point is dropped.
class Curve {
 public:
  void Add(CurvePoint point);
  void DropAfter(uint64_t step);
  // Drops every second point; the newest stays.
  void Thin();
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  std::vector<CurvePoint> points_;
  uint64_t stride_ = 1;  // keep one point in this many
  uint64_t skipped_ = 0;
};

struct JobHistory {
  std::deque<EventLine> events;  // newest kEventsKept
  uint64_t next_revision = 1;
  std::map<std::string, Curve> curves;                            // by metric: "loss", "evaluation_loss", ...
  std::map<WorkerId, uint64_t> uploaded_bytes, downloaded_bytes;  // payload, by worker
  uint64_t uploaded_total = 0, downloaded_total = 0;
  double last_loss = 0;  // mean of the newest committed round, nats
  // Of the newest round that this process merged.
  std::map<FragmentIndex, RoundMeasures> measures;
  std::map<WorkerId, double> participation;  // share of the newest rounds, of connected workers
};

class History {
 public:
  static constexpr size_t kEventsKept = 1000;  // per job; older ones are in the event log file only
  // Of all jobs, ended ones included: beyond it the job that has the most gives up its older half, of its curves every
  // second point. An event of a round takes some 2.5 kB, so that all are some 35 MB at most.
  static constexpr size_t kEventsKeptInAll = 10'000;
  static constexpr size_t kPointsKeptInAll = 400'000;

  JobHistory& Of(const JobId& job) { return jobs_[job]; }
  const JobHistory* Find(const JobId& job) const;
  // Adds a line, giving it the job's next revision, which is returned.
  uint64_t AddEvent(const JobId& job, EventLine line);
  void AddPoint(const JobId& job, const std::string& curve, CurvePoint point);
  // Points beyond the step were of versions that a rollback gave up.
  void DropPointsAfter(const JobId& job, uint64_t step);
  // In the place of what is known of the job, all that was read of its past, with `read` the history of it alone; its
  // newer events and its totals stay. Whoever has adopted enough calls Bound.
  void Adopt(const JobId& job, History read);
  // Holds all jobs together to what is kept; it looks at each of them.
  void Bound();
  // Events after `revision`, oldest first, at most `count` of the newest.
  std::vector<EventLine> EventsAfter(const JobId& job, uint64_t revision, size_t count) const;
  // A transfer of payload bytes of a worker; an empty worker counts for the job alone.
  void CountUpload(const JobId& job, const WorkerId& worker, uint64_t bytes);
  void CountDownload(const JobId& job, const WorkerId& worker, uint64_t bytes);
  // Its bytes stay in the totals of the jobs.
  void Forget(const WorkerId& worker);

 private:
  void BoundEvents();
  void BoundPoints();

  std::map<JobId, JobHistory> jobs_;
  size_t events_ = 0;        // of all jobs
  size_t points_added_ = 0;  // since they were counted
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_HISTORY_H_
