// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/answer_size.h"

#include <utility>

#include "coordinator/service/translate.h"

namespace atl {
namespace {

constexpr size_t kPointBytes = 32;   // upper bound of a curve point in a message
constexpr size_t kMostMessages = 4;  // for the events of one glance; twice their bytes fit AnswerLimits::of_one

v1::JobEvent Shortened(const EventLine& line) {
  EventLine brief{line.revision, line.wall_nanos, line.kind, Beginning(line.text, kShortBytes), {}};
  for (const auto& [key, value] : line.fields) {
    if (value.size() <= kShortBytes) brief.fields.emplace(key, value);
  }
  return ToProto(brief);
}

}  // namespace

bool Room::Take(size_t bytes) {
  if (bytes + kEntryBytes > left_) return false;
  left_ -= bytes + kEntryBytes;
  return true;
}

std::string Beginning(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::vector<v1::JobEvent> NewestThatFit(const std::vector<EventLine>& lines, size_t bytes) {
  Room room(bytes);
  std::vector<v1::JobEvent> events;  // newest first until reversed at the end
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    v1::JobEvent brief = Shortened(*line);
    if (!room.Take(brief.ByteSizeLong())) break;
    events.push_back(std::move(brief));
  }
  for (size_t i = 0; i < events.size(); ++i) {
    v1::JobEvent whole = ToProto(lines[lines.size() - 1 - i]);
    const size_t more = whole.ByteSizeLong() - std::min(whole.ByteSizeLong(), events[i].ByteSizeLong());
    if (more > room.left() || whole.ByteSizeLong() + kEntryBytes > kAnswerBytes) break;
    room.Spend(more);
    events[i] = std::move(whole);
  }
  std::reverse(events.begin(), events.end());
  return events;
}

std::vector<std::vector<v1::JobEvent>> InMessages(const std::vector<EventLine>& lines, size_t last) {
  std::vector<v1::JobEvent> events = NewestThatFit(lines, kMostMessages * kAnswerBytes);
  std::vector<std::vector<v1::JobEvent>> messages(1);  // newest first until reversed at the end
  Room room(last);
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const size_t bytes = event->ByteSizeLong();
    if (!room.Take(bytes)) {
      messages.emplace_back();
      room = Room(kAnswerBytes);
      (void)room.Take(bytes);
    }
    messages.back().push_back(std::move(*event));
  }
  for (std::vector<v1::JobEvent>& message : messages) std::reverse(message.begin(), message.end());
  std::reverse(messages.begin(), messages.end());
  return messages;
}

void BoundContributions(size_t bytes, v1::Job& job) {
  Room room(bytes);
  for (v1::FragmentStatus& fragment : *job.mutable_fragments()) {
    if (!fragment.has_newest() || fragment.newest().contributions_size() == 0) continue;
    if (!room.Take(fragment.newest().ByteSizeLong())) fragment.mutable_newest()->clear_contributions();
  }
}

void AddEvaluations(const std::vector<EvaluationRecord>& records, size_t bytes, v1::GetJobResponse& response) {
  Room room(bytes);
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    v1::EvaluationResult message = ToProto(*record);
    if (!room.Take(message.ByteSizeLong())) break;
    *response.add_evaluations() = std::move(message);
  }
  std::reverse(response.mutable_evaluations()->begin(), response.mutable_evaluations()->end());
}

size_t PointsThatFit(const std::vector<size_t>& points, size_t bytes) {
  for (size_t most = limits::kCurvePoints;; most /= 2) {
    size_t all = 0;
    for (const size_t n : points) all += std::min(n, most) * kPointBytes;
    if (all <= bytes || most == 1) return most;
  }
}

void AddCurve(const std::string& metric, const std::vector<CurvePoint>& points, size_t most,
              v1::GetJobMetricsResponse& response) {
  size_t stride = 1;
  while ((points.size() + stride - 1) / stride > most) stride *= 2;
  v1::MetricCurve* out = response.add_curves();
  out->set_metric(metric);
  for (size_t i = (points.size() + stride - 1) % stride; i < points.size(); i += stride) {
    v1::MetricPoint* to = out->add_points();
    to->set_step(points[i].step);
    to->set_value(points[i].value);
    to->mutable_time()->set_seconds(points[i].wall_nanos / 1'000'000'000);
    to->mutable_time()->set_nanos(static_cast<int32_t>(points[i].wall_nanos % 1'000'000'000));
  }
}

}  // namespace atl
