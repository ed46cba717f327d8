// SPDX-License-Identifier: Apache-2.0
// Writes lines to a descriptor with a reader that may stall: a bounded queue and a writer thread.
#ifndef ATOLL_COMMON_BASE_QUEUED_WRITER_H_
#define ATOLL_COMMON_BASE_QUEUED_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <streambuf>
#include <string>

#include "common/base/time.h"

namespace atl {

// Thread-safe. Text is lost when the queue is full or the descriptor refuses it. The number of lost lines
// is written before the next accepted text or, after losses to a full queue, when the queue is empty. The
// destructor waits at most kFlushLimit for the remaining text to be written.
class QueuedWriter {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr Duration kFlushLimit = Seconds(1);

  explicit QueuedWriter(int descriptor, size_t most_bytes = kMostBytes);
  ~QueuedWriter();
  QueuedWriter(const QueuedWriter&) = delete;
  QueuedWriter& operator=(const QueuedWriter&) = delete;

  // Queues whole lines with their line ends. Never blocks.
  void Write(std::string text);
  // Queues the reason why the process ends, even when the queue is full, then waits as Flush does. Text of
  // later calls is ignored, so that no other thread's line follows.
  bool WriteLast(std::string text, Duration limit = kFlushLimit);
  // Waits until everything is written or lost. Returns false after `limit`.
  bool Flush(Duration limit = kFlushLimit);
  // Sets the text of the line about lost lines, including its line end. Default: "N lines were lost
  // here: standard error accepted no lines".
  void ReportLossWith(std::function<std::string(uint64_t lost_lines)> report);
  // Number of accepted texts that are not written yet. For signal handlers: takes no lock.
  uint64_t waiting() const;

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may wait for the reader forever
};

// The process's writer of standard error, created by the first call and never destroyed.
QueuedWriter& StandardError();
// Null before the first call of StandardError. For signal handlers.
const QueuedWriter* StandardErrorIfMade();

// A stream buffer that writes to a QueuedWriter, for example for std::cerr.
class QueuedBuffer final : public std::streambuf {
 public:
  explicit QueuedBuffer(QueuedWriter& writer) : writer_(writer) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

 private:
  QueuedWriter& writer_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_QUEUED_WRITER_H_
