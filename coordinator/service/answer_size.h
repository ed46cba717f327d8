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
// The longest value, and the longest text, in a shortened event, in bytes.
constexpr size_t kShortBytes = 1024;

// The bytes still free in an answer.
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

// The newest of `lines` that fit into `bytes`, oldest first. The newest of these are complete. Where
// complete ones do not fit, older ones lose values longer than kShortBytes, and text beyond kShortBytes.
std::vector<v1::JobEvent> NewestThatFit(const std::vector<EventLine>& lines, size_t bytes);

// The events in order, in messages of at most kAnswerBytes each. The last message has room for `last` bytes and
// may be empty. Where four messages cannot hold all, NewestThatFit shortens or leaves out older events.
std::vector<std::vector<v1::JobEvent>> InMessages(const std::vector<EventLine>& lines, size_t last);

// Drops the contributions in FragmentStatus.newest of each fragment, in order, for which `bytes` has no more room.
void BoundContributions(size_t bytes, v1::Job& job);

// The newest evaluations that fit, oldest first.
void AddEvaluations(const std::vector<EvaluationRecord>& records, size_t bytes, v1::GetJobResponse& response);

// The most points per curve such that all curves, of `points` points each, fit into `bytes` together:
// limits::kCurvePoints, or half of it, and so on, but at least 1.
size_t PointsThatFit(const std::vector<size_t>& points, size_t bytes);

// Adds the points; if they are more than `most`, only every second, every fourth and so on. Keeps the newest.
void AddCurve(const std::string& metric, const std::vector<CurvePoint>& points, size_t most,
              v1::GetJobMetricsResponse& response);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ANSWER_SIZE_H_
