// SPDX-License-Identifier: Apache-2.0
// Progress of a long command on standard error: one line redrawn in a terminal, otherwise a line every 10 %.
#ifndef ATOLL_CLI_PROGRESS_LINE_H_
#define ATOLL_CLI_PROGRESS_LINE_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace atl::cli {

class ProgressLine {
 public:
  // `what` names the work: "tokenizing". `quiet` prints nothing.
  ProgressLine(std::ostream& talk, std::string what, bool terminal, bool quiet);
  // Clears the terminal line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Prints at each new percent (terminal) or ten percent (otherwise). `note` follows the bar.
  void Update(uint64_t done, uint64_t total, const std::string& note = "");
  // For an unknown total: prints the bytes done whenever they have doubled (terminal: every 16
  // MiB).
  void UpdateWithoutEnd(uint64_t done_bytes, const std::string& note = "");

 private:
  std::ostream& talk_;
  std::string what_;
  bool terminal_;
  bool quiet_;
  int printed_percent_ = -1;
  uint64_t next_bytes_ = uint64_t{16} << 20;
};

// "12.0 MB": decimal units, three digits.
std::string HumanBytes(uint64_t bytes);
// "1,234,567".
std::string HumanCount(uint64_t count);

}  // namespace atl::cli

#endif  // ATOLL_CLI_PROGRESS_LINE_H_
