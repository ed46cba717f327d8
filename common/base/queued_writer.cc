// SPDX-License-Identifier: Apache-2.0
#include "common/base/queued_writer.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <deque>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/process.h"

namespace atl {
namespace {

uint64_t LinesOf(const std::string& text) {
  return static_cast<uint64_t>(std::max<std::ptrdiff_t>(1, std::count(text.begin(), text.end(), '\n')));
}

std::string LossText(uint64_t lost_lines) {
  return absl::StrCat(lost_lines, " lines were lost here: standard error accepted no lines\n");
}

// The descriptor, and whether the last line on it is incomplete.
class Output {
 public:
  explicit Output(int descriptor) : descriptor_(descriptor) {}
  // Blocks until all of `text` is written. Returns false when the descriptor fails, perhaps after a part of `text`
  // was written.
  bool Write(const std::string& text) {
    if (torn_ && !WriteAll("\n")) return false;
    torn_ = false;
    return WriteAll(text);
  }

 private:
  bool WriteAll(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      // A pipe that polls as writable has room for PIPE_BUF bytes. poll() does the waiting, because
      // the descriptor may be non-blocking.
      pollfd wanted{descriptor_, POLLOUT, 0};
      (void)::poll(&wanted, 1, -1);
      const ssize_t n = ::write(descriptor_, text.data() + done, std::min<size_t>(text.size() - done, PIPE_BUF));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) {
        if (done > 0) torn_ = text[done - 1] != '\n';
        return false;
      }
      done += static_cast<size_t>(n);
    }
    return true;
  }

  const int descriptor_;
  bool torn_ = false;  // the next text starts on a new line
};

struct Text {
  std::string text;
  uint64_t lost_before = 0;  // lines lost because the queue was full
};

}  // namespace

struct QueuedWriter::Shared {
  Shared(int to, size_t most) : descriptor(to), most_bytes(most) {}
  const int descriptor;
  const size_t most_bytes;
  Mutex mutex;
  CondVar changed;
  std::deque<Text> queue ATOLL_GUARDED_BY(mutex);
  size_t bytes ATOLL_GUARDED_BY(mutex) = 0;          // in the queue and in write(2)
  uint64_t no_room_for ATOLL_GUARDED_BY(mutex) = 0;  // lines lost since the last accepted text or reported loss
  bool writing ATOLL_GUARDED_BY(mutex) = false;
  bool last_accepted ATOLL_GUARDED_BY(mutex) = false;
  bool over ATOLL_GUARDED_BY(mutex) = false;
  std::function<std::string(uint64_t)> report ATOLL_GUARDED_BY(mutex) = LossText;
  std::atomic<uint64_t> waiting{0};

  void Push(std::string text) ATOLL_REQUIRES(mutex) {
    bytes += text.size();
    ++waiting;
    queue.push_back({std::move(text), std::exchange(no_room_for, 0)});
    changed.NotifyAll();
  }
};

QueuedWriter::QueuedWriter(int descriptor, size_t most_bytes)
    : shared_(std::make_shared<Shared>(descriptor, most_bytes)) {
  // The writer's thread takes no stop signals, because another thread waits for them.
  const sigset_t stops = StopSignals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &stops, &before);
  std::thread([shared = shared_] { Run(shared); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

QueuedWriter::~QueuedWriter() {
  (void)Flush();
  const MutexLock lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.NotifyAll();
}

void QueuedWriter::Write(std::string text) {
  const MutexLock lock(shared_->mutex);
  if (shared_->last_accepted) return;
  // After a loss the queue accepts text only when it is half empty, so that few reports cover many
  // losses.
  const size_t room = shared_->no_room_for > 0 ? shared_->most_bytes / 2 : shared_->most_bytes;
  if (shared_->bytes + text.size() > room) {
    shared_->no_room_for += LinesOf(text);
    return;
  }
  shared_->Push(std::move(text));
}

bool QueuedWriter::WriteLast(std::string text, Duration limit) {
  {
    const MutexLock lock(shared_->mutex);
    if (!std::exchange(shared_->last_accepted, true) && !text.empty()) shared_->Push(std::move(text));
  }
  return Flush(limit);
}

bool QueuedWriter::Flush(Duration limit) {
  const SystemClock clock;
  const MutexLock lock(shared_->mutex);
  const Instant end = clock.Now() + limit;
  for (Instant now = clock.Now(); !shared_->queue.empty() || shared_->writing; now = clock.Now()) {
    if (now >= end) return false;
    shared_->changed.WaitFor(shared_->mutex, end - now);
  }
  return true;
}

void QueuedWriter::ReportLossWith(std::function<std::string(uint64_t)> report) {
  const MutexLock lock(shared_->mutex);
  shared_->report = std::move(report);
}

uint64_t QueuedWriter::waiting() const { return shared_->waiting; }

void QueuedWriter::Run(const std::shared_ptr<Shared>& shared) {
  Output out(shared->descriptor);
  uint64_t lost = 0;
  for (;;) {
    Text next;
    std::function<std::string(uint64_t)> report;
    {
      const MutexLock lock(shared->mutex);
      while (shared->queue.empty() && shared->no_room_for == 0 && !shared->over) shared->changed.Wait(shared->mutex);
      if (shared->queue.empty() && shared->no_room_for == 0) return;
      if (shared->queue.empty()) {
        next.lost_before = std::exchange(shared->no_room_for, 0);
      } else {
        next = std::move(shared->queue.front());
        shared->queue.pop_front();
      }
      shared->writing = true;
      report = shared->report;
    }
    lost += next.lost_before;
    if (lost > 0 && out.Write(report(lost))) lost = 0;
    if (!next.text.empty() && !out.Write(next.text)) lost += LinesOf(next.text);
    const MutexLock lock(shared->mutex);
    shared->bytes -= next.text.size();
    shared->writing = false;
    if (!next.text.empty()) --shared->waiting;
    shared->changed.NotifyAll();
  }
}

namespace {
std::atomic<QueuedWriter*> standard_error{nullptr};
}  // namespace

QueuedWriter& StandardError() {
  alignas(QueuedWriter) static std::byte place[sizeof(QueuedWriter)];
  static QueuedWriter& writer = *::new (static_cast<void*>(place)) QueuedWriter(STDERR_FILENO);
  standard_error = &writer;
  return writer;
}

const QueuedWriter* StandardErrorIfMade() { return standard_error; }

QueuedBuffer::int_type QueuedBuffer::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) writer_.Write(std::string(1, traits_type::to_char_type(c)));
  return traits_type::not_eof(c);
}

std::streamsize QueuedBuffer::xsputn(const char* text, std::streamsize size) {
  writer_.Write(std::string(text, static_cast<size_t>(size)));
  return size;
}

}  // namespace atl
