// SPDX-License-Identifier: Apache-2.0
#include "common/guard/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/guard/relay.h"

namespace atl::guard {
namespace {

constexpr uint64_t kWakeId = 0;  // connections have ids from 1
constexpr int kLongestWaitMs = 60'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Loop>> Loop::Start(Make make, Ended ended) {
  Descriptor poll(::epoll_create1(EPOLL_CLOEXEC)), wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (!poll.open() || !wake.open() || ::epoll_ctl(poll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return absl::UnavailableError(std::strerror(errno));
  std::unique_ptr<Loop> loop(new Loop(std::move(poll), std::move(wake), std::move(make), std::move(ended)));
  loop->thread_ = std::jthread([&loop = *loop] { loop.Run(); });
  return loop;
}

Loop::Loop(Descriptor poll, Descriptor wake, Make make, Ended ended)
    : poll_(std::move(poll)),
      wake_(std::move(wake)),
      make_(std::move(make)),
      ended_(std::move(ended)),
      scratch_(kChunkBytes) {}

Loop::~Loop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  Post([] {});
}

void Loop::Post(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void Loop::Add(Accepted accepted) {
  // std::function must be copyable, so it holds the socket by shared pointer.
  const auto held = std::make_shared<Accepted>(std::move(accepted));
  Post([this, held] {
    const uint64_t id = held->id;
    entries_[id].connection = make_(std::move(*held), clock_.Now());
    Drive(id);
  });
}

void Loop::For(uint64_t id, std::function<void(Connection&)> work) {
  Post([this, id, work = std::move(work)] {
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return;
    work(*entry->second.connection);
    Drive(id);
  });
}

void Loop::ForEach(std::function<void(Connection&)> work) {
  Post([this, work = std::move(work)] {
    std::vector<uint64_t> ids;
    for (const auto& [id, entry] : entries_) ids.push_back(id);
    for (const uint64_t id : ids) {
      work(*entries_.at(id).connection);
      Drive(id);
    }
  });
}

int Loop::WaitMs(Instant now) const {
  if (!again_.empty()) return 0;
  if (wakes_.empty()) return -1;
  const Duration left = wakes_.begin()->first - now;
  return static_cast<int>(std::clamp<int64_t>(left.ns / 1'000'000 + 1, 0, kLongestWaitMs));
}

void Loop::RunPosted() {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  std::vector<std::function<void()>> posted;
  {
    const MutexLock lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& work : posted) work();
}

void Loop::Run() {
  std::array<epoll_event, 64> ready{};
  for (;;) {
    const int count = ::epoll_wait(poll_.get(), ready.data(), static_cast<int>(ready.size()), WaitMs(clock_.Now()));
    due_.clear();
    due_.swap(again_);  // both keep their capacity
    for (int i = 0; i < count; ++i) {
      if (ready[static_cast<size_t>(i)].data.u64 != kWakeId) due_.push_back(ready[static_cast<size_t>(i)].data.u64);
    }
    RunPosted();
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
    }
    for (const Instant now = clock_.Now(); !wakes_.empty() && wakes_.begin()->first <= now;) {
      due_.push_back(wakes_.begin()->second);
      entries_.at(due_.back()).wake = kNever;
      wakes_.erase(wakes_.begin());
    }
    std::sort(due_.begin(), due_.end());
    due_.erase(std::unique(due_.begin(), due_.end()), due_.end());
    for (const uint64_t id : due_) Drive(id);
  }
}

void Loop::Drive(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const Connection::Next next = entry.connection->Pump(clock_.Now(), scratch_);
  if (next == Connection::Next::kEnd) return Drop(id);
  if (next == Connection::Next::kAgain) again_.push_back(id);
  if (!Watch(id, entry.outer, entry.connection->outer()) || !Watch(id, entry.inner, entry.connection->inner()))
    return Drop(id);
  if (entry.connection->wake() == entry.wake) return;
  if (entry.wake != kNever) wakes_.erase({entry.wake, id});
  entry.wake = entry.connection->wake();
  if (entry.wake != kNever) wakes_.insert({entry.wake, id});
}

// Registers the wanted events. A socket without any is removed from epoll, which would report its end repeatedly.
bool Loop::Watch(uint64_t id, Wait& known, const Wait& wanted) const {
  if (wanted.socket < 0 || (known.socket == wanted.socket && known.events == wanted.events)) return true;
  const bool is_watched = known.socket == wanted.socket && known.events != 0;
  known = wanted;
  if (wanted.events == 0 && !is_watched) return true;
  epoll_event event{};
  event.events = wanted.events;
  event.data.u64 = id;
  const int what = wanted.events == 0 ? EPOLL_CTL_DEL : is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  return ::epoll_ctl(poll_.get(), what, wanted.socket, &event) == 0;
}

void Loop::Drop(uint64_t id) {
  const auto found = entries_.find(id);
  const Ending how = found->second.connection->ending();
  if (found->second.wake != kNever) wakes_.erase({found->second.wake, id});
  ended_(id, how);  // counted before the peer notices
  entries_.erase(found);
}

}  // namespace atl::guard
