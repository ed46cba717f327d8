// SPDX-License-Identifier: Apache-2.0
// Of looks at a ring of log lines that follow each other: what to ask for, and which lines are new. Pure.
#ifndef ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_
#define ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace atl {

class NewLines {
 public:
  // Lines from this time on are wanted; 0: however old. Lines of this very time were told, more of them may come.
  int64_t since_wall_nanos() const { return since_wall_nanos_; }
  // Those of an answer, oldest first, that no answer before had.
  std::vector<std::string> Of(const std::vector<std::string>& lines);

 private:
  int64_t since_wall_nanos_ = 0;
  std::vector<std::string> told_;  // from then on
};

// When the line was written, by the milliseconds that it begins with; 0 where it begins with no time.
int64_t WallNanosOf(const std::string& line);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_NEW_LINES_H_
