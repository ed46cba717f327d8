// SPDX-License-Identifier: Apache-2.0
// The live view of `job watch` as a pure function, and how it is drawn over itself in a terminal.
#ifndef ATOLL_CLI_WATCH_VIEW_H_
#define ATOLL_CLI_WATCH_VIEW_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "atoll/v1/job.pb.h"

namespace atl::cli {

struct WatchSize {
  uint32_t columns = 80;
  uint32_t rows = 24;
  bool unicode = true;  // bars and sparklines of block elements; else plain ASCII
};

struct WatchLine {
  enum class Style { kPlain, kTitle, kDim, kGood, kWarning, kBad };
  std::string text;  // at most columns - 1 wide: it never wraps
  Style style = Style::kPlain;
};

// Title, progress, loss, rates, one line a worker, and one line that says why the run waits or is slow. At most rows -
// 1 lines: workers that do not fit are counted.
std::vector<WatchLine> RenderWatch(const v1::WatchJobResponse& state, const WatchSize& size);

// Values as eight heights, newest at the right, at most `width` columns; a flat line when all are equal.
std::string Sparkline(const std::vector<double>& values, size_t width, bool unicode);
// A bar of exactly `width` columns.
std::string ProgressBar(double share, size_t width, bool unicode);

// One line for one event, as printed where no terminal is: "12:31:07 round committed: round 4 of fragment 0 ...".
std::string EventLine(const v1::JobEvent& event);

// Draws views over each other with cursor-up; not a full-screen program, so the last view stays in the scrollback.
// Where the terminal's size has changed nobody knows where the last view's lines are now: it begins on a cleared
// screen.
class WatchPainter {
 public:
  WatchPainter(std::ostream& out, bool color) : out_(out), color_(color) {}
  void Draw(const std::vector<WatchLine>& lines, const WatchSize& size);

 private:
  std::ostream& out_;
  bool color_;
  size_t drawn_ = 0;
  uint32_t columns_ = 0, rows_ = 0;  // of the last view
};

}  // namespace atl::cli

#endif  // ATOLL_CLI_WATCH_VIEW_H_
