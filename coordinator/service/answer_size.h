// SPDX-License-Identifier: Apache-2.0
// Fits answers into one gRPC message: keeps the newest entries that fit. Pure.
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

// The size available in an answer, after some room for the fields around a list.
constexpr size_t kAnswerBytes = limits::kMessageBytes - (size_t{64} << 10);
// Upper bound of the tag and length of a list entry.
constexpr size_t kEntryBytes = 8;
// The length of a value, and of the text, in a shortened event.
constexpr size_t kShortBytes = 1024;

// A remaining number of bytes.
class Room {
 public:
  explicit Room(size_t bytes) : left_(bytes) {}
  // Takes `bytes` and the overhead of a list entry. Returns false and takes nothing if they do not fit.
  bool Take(size_t bytes);
  // Takes bytes that are sent in any case.
  void Spend(size_t bytes) { left_ -= std::min(left_, bytes); }
  size_t left() const { return left_; }

 private:
  size_t left_;
};

// The first `bytes` bytes of the text, followed by "..." if it was cut. Never cuts inside a character.
std::string Beginning(const std::string& text, size_t bytes);

// The newest of `lines` that fit, oldest first. The newest ones are complete. Once complete lines
// no longer fit, older ones lose the values longer than kShortBytes, and the rest of their text.
std::vector<v1::JobEvent> NewestThatFit(const std::vector<EventLine>& lines, size_t bytes);

// The events in order, in messages of at most kAnswerBytes each. The last message has room for `last` bytes and
// may be empty. Beyond kMostMessages messages, older events are shortened as above.
std::vector<std::vector<v1::JobEvent>> InMessages(const std::vector<EventLine>& lines, size_t last);

// Drops the contributions of the newest rounds that do not fit, fragment by fragment.
void BoundContributions(size_t bytes, v1::Job& job);

// The newest evaluations that fit, oldest first.
void AddEvaluations(const std::vector<EvaluationRecord>& records, size_t bytes, v1::GetJobResponse& response);

// The number of points per curve such that all curves fit together: limits::kCurvePoints, or half
// of it, and so on.
size_t PointsThatFit(const std::vector<size_t>& points, size_t bytes);

// Adds every second point, every fourth, and so on, so that at most `most` remain. Always keeps the newest.
void AddCurve(const std::string& metric, const std::vector<CurvePoint>& points, size_t most,
              v1::GetJobMetricsResponse& response);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ANSWER_SIZE_H_
