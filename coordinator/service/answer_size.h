// SPDX-License-Identifier: Apache-2.0
// What of an answer one message of gRPC carries: the newest of it, as much as fits. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_ANSWER_SIZE_H_
#define ATOLL_COORDINATOR_SERVICE_ANSWER_SIZE_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "atoll/v1/job.pb.h"
#include "common/plan/limits.h"
#include "common/plan/records.h"
#include "coordinator/engine/history.h"

namespace atl {

// Of an answer: some room is left for what surrounds a list.
constexpr size_t kAnswerBytes = limits::kMessageBytes - (size_t{64} << 10);
// Tag and size of an entry of a list, at most.
constexpr size_t kEntryBytes = 8;
// Of a value and of the text of an event that is shortened.
constexpr size_t kShortBytes = 1024;

// What is left of so many bytes.
class Room {
 public:
  explicit Room(size_t bytes) : left_(bytes) {}
  // Whether there is room for so many bytes as one entry of a list, which then are taken.
  bool Take(size_t bytes);
  // Likewise, of something that is there in any case.
  void Spend(size_t bytes) { left_ -= std::min(left_, bytes); }
  size_t left() const { return left_; }

 private:
  size_t left_;
};

// The first `bytes` bytes of the text, with "..." where that is not all of it; no character is cut in two.
std::string Beginning(const std::string& text, size_t bytes);

// The newest of `lines` that fit, oldest first. The newest of those are whole; where whole ones have no room, the older
// ones are without the values that are longer than kShortBytes, and so is the end of their text.
std::vector<v1::JobEvent> NewestThatFit(const std::vector<EventLine>& lines, size_t bytes);

// The events in their order, in messages of at most kAnswerBytes each; the last one has room for `last` bytes and may
// be without any. Beyond several messages they are shortened as above.
std::vector<std::vector<v1::JobEvent>> InMessages(const std::vector<EventLine>& lines, size_t last);

// Leaves out the contributions of newest rounds that have no room, fragment by fragment.
void BoundContributions(size_t bytes, v1::Job& job);

// The newest evaluations that fit, oldest first.
void AddEvaluations(const std::vector<EvaluationRecord>& records, size_t bytes, v1::GetJobResponse& response);

// At most so many points of each of these curves have room beside each other: limits::kCurvePoints, or half of it, ...
size_t PointsThatFit(const std::vector<size_t>& points, size_t bytes);

// Every second point, every fourth, ... so that there are no more than `most`; the newest stays.
void AddCurve(const std::string& metric, const std::vector<CurvePoint>& points, size_t most,
              v1::GetJobMetricsResponse& response);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ANSWER_SIZE_H_
