// SPDX-License-Identifier: Apache-2.0
// Standard output or error of a command that ends by itself: waits for its reader, and no result is lost in silence.
#ifndef ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_
#define ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_

#include <array>
#include <atomic>
#include <ostream>
#include <streambuf>

namespace atl {

// For one thread, but for stalled(). When the reader of standard output has gone (`| head`), the process ends quietly
// by SIGPIPE, as every tool does; StartProcess ignores the signal itself, because connections break too. Any other
// fault fails the stream.
class OutputBuffer final : public std::streambuf {
 public:
  explicit OutputBuffer(int descriptor);
  // Whether the stream's thread waits for a reader that takes nothing. Thread-safe.
  bool stalled() const;

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int descriptor_;
  std::atomic<bool> writing_{false};
  std::array<char, 8192> buffer_{};
};

// Flushes standard output at the end of a command. `code`, or for a success `code_if_lost`, and a line on `talk`, when
// the results could not be written.
int FinishOutput(std::ostream& out, std::ostream& talk, const char* program, int code, int code_if_lost);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_
