// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/history.h"

#include <algorithm>
#include <utility>

#include "common/plan/limits.h"

namespace atl {

void Curve::Add(CurvePoint point) {
  if (++skipped_ < stride_) return;
  skipped_ = 0;
  points_.push_back(point);
  if (points_.size() >= limits::kCurvePoints) Thin();
}

void Curve::Thin() {
  if (points_.size() < 2) return;
  std::vector<CurvePoint> kept;
  kept.reserve(points_.size() / 2 + 1);
  for (size_t i = 1 - points_.size() % 2; i < points_.size(); i += 2) kept.push_back(points_[i]);
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
  ++events_;
  if (history.events.size() > kEventsKept) {
    history.events.pop_front();
    --events_;
  }
  const uint64_t revision = history.events.back().revision;
  BoundEvents();
  return revision;
}

void History::Bound() {
  BoundEvents();
  BoundPoints();
}

void History::BoundEvents() {
  if (events_ <= kEventsKeptInAll) return;
  std::vector<std::pair<size_t, JobHistory*>> most;  // by events, a heap
  most.reserve(jobs_.size());
  for (auto& [id, history] : jobs_) most.emplace_back(history.events.size(), &history);
  std::make_heap(most.begin(), most.end());
  while (events_ > kEventsKeptInAll) {
    std::pop_heap(most.begin(), most.end());
    std::deque<EventLine>& events = most.back().second->events;
    const size_t older = (events.size() + 1) / 2;
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(older));
    events.shrink_to_fit();
    events_ -= older;
    most.back().first = events.size();
    std::push_heap(most.begin(), most.end());
  }
}

void History::DropPointsAfter(const JobId& job, uint64_t step) {
  JobHistory& history = jobs_[job];
  for (auto& [name, curve] : history.curves) curve.DropAfter(step);
  const auto loss = history.curves.find("loss");
  history.last_loss =
      loss == history.curves.end() || loss->second.points().empty() ? 0 : loss->second.points().back().value;
}

void History::Adopt(const JobId& job, History read) {
  JobHistory& live = jobs_[job];
  JobHistory& past = read.jobs_[job];
  const uint64_t newest = past.events.empty() ? 0 : past.events.back().revision;
  for (EventLine& line : live.events) {
    if (line.revision > newest) past.events.push_back(std::move(line));
  }
  while (past.events.size() > kEventsKept) past.events.pop_front();
  events_ += past.events.size();
  events_ -= live.events.size();
  past.next_revision = std::max(past.next_revision, live.next_revision);
  past.uploaded_total = std::max(past.uploaded_total, live.uploaded_total);
  past.downloaded_total = std::max(past.downloaded_total, live.downloaded_total);
  live = std::move(past);
}

void History::AddPoint(const JobId& job, const std::string& curve, CurvePoint point) {
  jobs_[job].curves[curve].Add(point);
  if (++points_added_ < limits::kCurvePoints) return;  // counting visits every curve
  points_added_ = 0;
  BoundPoints();
}

void History::BoundPoints() {
  std::vector<std::pair<size_t, JobHistory*>> jobs;  // by points, largest last
  size_t all = 0;
  for (auto& [id, history] : jobs_) {
    size_t points = 0;
    for (const auto& [name, curve] : history.curves) points += curve.points().size();
    jobs.emplace_back(points, &history);
    all += points;
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (; all > kPointsKeptInAll && !jobs.empty(); jobs.pop_back()) {
    all -= jobs.back().first;
    for (auto& [name, curve] : jobs.back().second->curves) {
      curve.Thin();
      all += curve.points().size();
    }
  }
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

void History::Forget(const WorkerId& worker) {
  for (auto& [job, history] : jobs_) {
    history.uploaded_bytes.erase(worker);
    history.downloaded_bytes.erase(worker);
  }
}

}  // namespace atl
