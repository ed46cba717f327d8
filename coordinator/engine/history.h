// SPDX-License-Identifier: Apache-2.0
// The past of jobs, for people: newest events, curves, byte accounts, which can be rebuilt from the event
// log, and newest measures. Bounded in memory, never read by a decision. Lives on the engine thread.
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
  // Drops every second point, but keeps the newest. From then on Add keeps half as many new points.
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
  // The measures of each fragment's newest round that this process merged.
  std::map<FragmentIndex, RoundMeasures> measures;
  std::map<WorkerId, double> participation;  // share of the newest rounds, of connected workers
};

class History {
 public:
  static constexpr size_t kEventsKept = 1000;  // per job; older ones are in the event log file only
  // For all jobs together, ended ones included. Above the limit, the job with the most loses its
  // older half of events, or every second point of its curves. The event of a round takes about 2.5
  // kB: at most about 35 MB in all.
  static constexpr size_t kEventsKeptInAll = 10'000;
  static constexpr size_t kPointsKeptInAll = 400'000;

  JobHistory& Of(const JobId& job) { return jobs_[job]; }
  const JobHistory* Find(const JobId& job) const;
  // Adds a line with the job's next revision. Returns the revision.
  uint64_t AddEvent(const JobId& job, EventLine line);
  void AddPoint(const JobId& job, const std::string& curve, CurvePoint point);
  // Drops the points after `step`, which a rollback discarded; last_loss becomes that of the newest point left, or 0.
  void DropPointsAfter(const JobId& job, uint64_t step);
  // Replaces the history of the job with the one read from its log; `read` holds that job alone. Events
  // newer than the log's, and the larger totals, stay. The caller calls Bound after adopting a batch.
  void Adopt(const JobId& job, History read);
  // Enforces the limits over all jobs; visits each job.
  void Bound();
  // Events after `revision`, oldest first: the newest `count` of them.
  std::vector<EventLine> EventsAfter(const JobId& job, uint64_t revision, size_t count) const;
  // Counts payload bytes of a worker; with an empty worker, for the job alone.
  void CountUpload(const JobId& job, const WorkerId& worker, uint64_t bytes);
  void CountDownload(const JobId& job, const WorkerId& worker, uint64_t bytes);
  // Drops the worker's own byte accounts. Its bytes stay in the totals of the jobs.
  void Forget(const WorkerId& worker);

 private:
  void BoundEvents();
  void BoundPoints();

  std::map<JobId, JobHistory> jobs_;
  size_t events_ = 0;        // of all jobs
  size_t points_added_ = 0;  // since the last count
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_HISTORY_H_
