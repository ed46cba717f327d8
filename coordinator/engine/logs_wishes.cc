// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/logs_wishes.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace atl {

void LogsWishes::Want(const WorkerId& worker, uint32_t lines, int64_t since_wall_nanos, Instant now, Answer answer) {
  OfWorker& of = workers_[worker];
  size_t calls = 0;
  for (const Question& question : of.waiting)
    calls += question.wanted.since_wall_nanos == 0 ? question.wishes.size() : 0;
  if (since_wall_nanos == 0 && calls >= kWaiting) {
    return answer(absl::ResourceExhaustedError(
        absl::StrCat(kWaiting, " calls wait for the log lines of worker ", worker.value,
                     ", the limit, because the worker is asked at most once a second; try again in a few seconds")));
  }
  auto shared = std::find_if(of.waiting.begin(), of.waiting.end(), [since_wall_nanos](const Question& question) {
    return question.wanted.since_wall_nanos == since_wall_nanos;
  });
  if (shared == of.waiting.end()) {
    const LogsWanted wanted{.request = next_request_++, .lines = lines, .since_wall_nanos = since_wall_nanos};
    shared = of.waiting.insert(of.waiting.end(), Question{wanted, {}});
  }
  shared->wanted.lines = std::max(shared->wanted.lines, lines);
  shared->wishes.push_back({lines, std::move(answer)});
  AskNext(worker, of, now);
}

const WorkerId* LogsWishes::Asked(uint64_t request) const {
  for (const auto& [worker, of] : workers_) {
    if (of.asked && of.asked->wanted.request == request) return &worker;
  }
  return nullptr;
}

void LogsWishes::Answered(const LogLines& lines) {
  const WorkerId* const worker = Asked(lines.request);
  if (worker == nullptr) return;
  const Question question = *std::exchange(workers_.at(*worker).asked, std::nullopt);
  for (const Wish& wish : question.wishes) {
    const size_t count = std::min<size_t>(wish.lines, lines.lines.size());
    wish.answer(std::vector<std::string>(lines.lines.end() - static_cast<ptrdiff_t>(count), lines.lines.end()));
  }
}

void LogsWishes::Serve(Instant now) {
  for (auto it = workers_.begin(); it != workers_.end();) {
    OfWorker& of = it->second;
    if (of.asked && now >= of.deadline) GiveUp(of);
    AskNext(it->first, of, now);
    it = of.asked || !of.waiting.empty() || now < of.next ? std::next(it) : workers_.erase(it);
  }
}

Instant LogsWishes::NextDue() const {
  Instant due = kNever;
  for (const auto& [worker, of] : workers_) {
    if (of.asked) {
      due = std::min(due, of.deadline);
    } else if (!of.waiting.empty()) {
      due = std::min(due, of.next);
    }
  }
  return due;
}

void LogsWishes::AskNext(const WorkerId& worker, OfWorker& of, Instant now) {
  if (of.asked || of.waiting.empty() || now < of.next) return;
  if (!send_(worker, of.waiting.front().wanted)) return GiveUp(of);
  of.asked = std::move(of.waiting.front());
  of.waiting.pop_front();
  of.next = now + kPause;
  of.deadline = now + kDeadline;
}

void LogsWishes::GiveUp(OfWorker& of) {
  const std::optional<Question> asked = std::exchange(of.asked, std::nullopt);
  const std::deque<Question> waiting = std::exchange(of.waiting, {});
  if (asked) {
    for (const Wish& wish : asked->wishes) wish.answer(std::vector<std::string>());
  }
  for (const Question& question : waiting) {
    for (const Wish& wish : question.wishes) wish.answer(std::vector<std::string>());
  }
}

}  // namespace atl
