// SPDX-License-Identifier: Apache-2.0
// Finds the new lines in repeated reads of a ring of log lines, and the time to read from. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_
#define ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace atl {

class NewLines {
 public:
  // The caller reads lines from this time on; 0: of any age. More lines of exactly this time may follow.
  int64_t since_wall_nanos() const { return since_wall_nanos_; }
  // The lines of an answer, oldest first, that no earlier answer had.
  std::vector<std::string> Of(const std::vector<std::string>& lines);

 private:
  int64_t since_wall_nanos_ = 0;
  std::vector<std::string> told_;  // returned lines of since_wall_nanos_ or later
};

// When the line was written, from the time in milliseconds at its start; 0 if it has none.
int64_t WallNanosOf(const std::string& line);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_
