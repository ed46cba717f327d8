// SPDX-License-Identifier: Apache-2.0
// Lines for a descriptor whose reader may stall: a bounded queue and a thread that writes.
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

// Thread-safe. Text that finds the queue full, or that the descriptor refuses, is lost. The number of lost lines is
// written before the next text, and for text without room as soon as the queue is empty. The destructor writes the rest
// for kFlushLimit at most.
class QueuedWriter {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr Duration kFlushLimit = Seconds(1);

  explicit QueuedWriter(int descriptor, size_t most_bytes = kMostBytes);
  ~QueuedWriter();
  QueuedWriter(const QueuedWriter&) = delete;
  QueuedWriter& operator=(const QueuedWriter&) = delete;

  // Whole lines, each with its end. Never waits for the reader.
  void Write(std::string text);
  // Waits until everything is written or lost; false when `limit` has passed first.
  bool Flush(Duration limit = kFlushLimit);
  // The line about lost lines, with its end. Without this: "N lines of the log were lost ...".
  void ReportLossWith(std::function<std::string(uint64_t lost_lines)> report);
  // Texts that are not written yet. For signal handlers: takes no lock.
  uint64_t waiting() const;

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;  // also of the thread, which may be in write(2) for ever
};

// The writer of standard error. One for the process, made by the first call and never destroyed.
QueuedWriter& StandardError();
// Null before the first call of StandardError. For signal handlers.
const QueuedWriter* StandardErrorIfMade();

// Hands what is written to a stream, std::cerr for one, to a QueuedWriter.
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
