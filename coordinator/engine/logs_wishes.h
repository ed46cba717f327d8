// SPDX-License-Identifier: Apache-2.0
// Who waits for log lines of workers. Each answer takes of a worker's uplink, and of the time of its training, so a
// worker is asked one question at a time and one a second, however many wish. Lives on the engine thread.
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
  // A worker is called silent after that.
  static constexpr Duration kDeadline = Seconds(10);
  // Between two questions to one worker.
  static constexpr Duration kPause = Seconds(1);
  // Of calls that want the newest lines of one worker.
  static constexpr size_t kWaiting = 16;

  using Answer = std::function<void(absl::StatusOr<std::vector<std::string>>)>;
  // False: the worker is not connected.
  using Send = std::function<bool(const WorkerId& worker, const LogsWanted& wanted)>;

  explicit LogsWishes(Send send) : send_(std::move(send)) {}

  // Asks at once or when the worker may be asked; wishes that wait for lines since the same time share a question. No
  // lines where the worker is not connected, or silent. ResourceExhausted for a call (`since_wall_nanos` is 0) while
  // kWaiting wait; those who follow are as few as may watch, and always wait.
  void Want(const WorkerId& worker, uint32_t lines, int64_t since_wall_nanos, Instant now, Answer answer);
  // Whom the question that waits for its answer went to; null: there is none such.
  const WorkerId* Asked(uint64_t request) const;
  // Its answer. No effect where there is none such.
  void Answered(const LogLines& lines);
  // Asks what is due, and gives up what is not answered.
  void Serve(Instant now);
  // When Serve has to be called.
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
    Instant next{};  // not asked again before
    Instant deadline{};
  };
  void AskNext(const WorkerId& worker, OfWorker& of, Instant now);
  // No lines for anybody who waits for this worker.
  static void GiveUp(OfWorker& of);

  const Send send_;
  uint64_t next_request_ = 1;
  std::map<WorkerId, OfWorker> workers_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LOGS_WISHES_H_
