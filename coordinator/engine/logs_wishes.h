// SPDX-License-Identifier: Apache-2.0
// The pending requests for log lines of workers. Each answer costs uplink and training time of the
// worker. So a worker gets one request at a time and at most one a second, however many clients
// wait. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_LOGS_WISHES_H_
#define ATOLL_COORDINATOR_ENGINE_LOGS_WISHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl {

class LogsWishes {
 public:
  // A request without an answer is abandoned after this time.
  static constexpr Duration kDeadline = Seconds(10);
  // Between two requests to one worker.
  static constexpr Duration kPause = Seconds(1);
  // Limit of waiting calls for the newest lines of one worker.
  static constexpr size_t kWaiting = 16;

  using Answer = std::function<void(absl::StatusOr<std::vector<std::string>>)>;
  // False: the worker is not connected.
  using Send = std::function<bool(const WorkerId& worker, const LogsWanted& wanted)>;

  explicit LogsWishes(Send send) : send_(std::move(send)) {}

  // Asks at once, or as soon as the worker may be asked. Wishes for lines since the same time share
  // a request. `answer` gets no lines if the worker is not connected or does not answer.
  // ResourceExhausted for a call (`since_wall_nanos` is 0) while kWaiting calls wait. Followers
  // (`since_wall_nanos` above 0) may always wait; the limit of watchers bounds them.
  void Want(const WorkerId& worker, uint32_t lines, int64_t since_wall_nanos, Instant now, Answer answer);
  // The worker that got this open request; null if the request is not open.
  const WorkerId* Asked(uint64_t request) const;
  // An answer. Ignored if its request is not open.
  void Answered(const LogLines& lines);
  // Sends due requests and abandons unanswered ones.
  void Serve(Instant now);
  // When Serve must be called.
  Instant NextDue() const;

 private:
  struct Wish {
    uint32_t lines = 0;
    Answer answer;
  };
  struct Question {
    LogsWanted wanted;
    std::vector<Wish> wishes;
  };
  struct OfWorker {
    std::optional<Question> asked;
    std::deque<Question> waiting;
    Instant next{};  // earliest time of the next request
    Instant deadline{};
  };
  void AskNext(const WorkerId& worker, OfWorker& of, Instant now);
  // Answers all wishes for log lines of this worker with an empty list.
  static void GiveUp(OfWorker& of);

  const Send send_;
  uint64_t next_request_ = 1;
  std::map<WorkerId, OfWorker> workers_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LOGS_WISHES_H_
