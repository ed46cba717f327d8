#include "coordinator/engine/history.h"

#include <algorithm>
#include <utility>

#include "common/plan/limits.h"

namespace atl {

void Curve::Add(CurvePoint point) {
  if (++skipped_ < stride_) return;
  skipped_ = 0;
  points_.push_back(point);
  if (points_.size() < limits::kCurvePoints) return;
  std::vector<CurvePoint> kept;
  for (size_t i = 1; i < points_.size(); i += 2) kept.push_back(points_[i]);  // the newest point stays
  points_ = std::move(kept);
  stride_ *= 2;
}

void Curve::DropAfter(uint64_t step) {
  std::erase_if(points_, [step](const CurvePoint& point) { return point.step > step; });
}

const JobHistory* History::Find(const JobId& job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second;
}

uint64_t History::AddEvent(const JobId& job, EventLine line) {
  JobHistory& history = jobs_[job];
  line.revision = history.next_revision++;
  history.events.push_back(std::move(line));
  while (history.events.size() > kEventsKept) history.events.pop_front();
  return history.events.back().revision;
}

std::vector<EventLine> History::EventsAfter(const JobId& job, uint64_t revision, size_t count) const {
  std::vector<EventLine> lines;
  const JobHistory* history = Find(job);
  if (history == nullptr) return lines;
  for (auto it = history->events.rbegin(); it != history->events.rend() && lines.size() < count; ++it) {
    if (it->revision <= revision) break;
    lines.push_back(*it);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

void History::CountUpload(const JobId& job, const WorkerId& worker, uint64_t bytes) {
  JobHistory& history = jobs_[job];
  history.uploaded_total += bytes;
  if (!worker.value.empty()) history.uploaded_bytes[worker] += bytes;
}

void History::CountDownload(const JobId& job, const WorkerId& worker, uint64_t bytes) {
  JobHistory& history = jobs_[job];
  history.downloaded_total += bytes;
  if (!worker.value.empty()) history.downloaded_bytes[worker] += bytes;
}

}  // namespace atl
