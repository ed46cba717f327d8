// SPDX-License-Identifier: Apache-2.0
// Standard output or error of a command that ends by itself: waits for a slow reader, and never
// loses results silently.
#ifndef ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_
#define ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_

#include <array>
#include <atomic>
#include <ostream>
#include <streambuf>

namespace atl {

// Single-threaded, except for stalled(). When the reader of standard output has gone (`| head`), the
// process ends quietly by SIGPIPE, as other tools do: this class restores the signal, which StartProcess
// ignores because of broken connections. Any other error fails the stream.
class OutputBuffer final : public std::streambuf {
 public:
  explicit OutputBuffer(int descriptor);
  // True while the stream's thread waits for a stalled reader. Thread-safe.
  bool stalled() const;

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int descriptor_;
  std::atomic<bool> writing_{false};
  std::array<char, 8192> buffer_{};
};

// Flushes standard output at the end of a command and returns `code`. If the results could not be
// written, it prints a line on `talk` and returns `code_if_lost` instead of success.
int FinishOutput(std::ostream& out, std::ostream& talk, const char* program, int code, int code_if_lost);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_OUTPUT_BUFFER_H_
