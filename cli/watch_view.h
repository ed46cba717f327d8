// SPDX-License-Identifier: Apache-2.0
// The live view of `job watch` as a pure function, and its redrawing in a terminal.
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
  bool unicode = true;  // bars and sparklines of block elements; otherwise plain ASCII
};

struct WatchLine {
  enum class Style { kPlain, kTitle, kDim, kGood, kWarning, kBad };
  std::string text;  // at most columns - 1 wide, so that it never wraps
  Style style = Style::kPlain;
};

// Returns title, progress, loss, rates, one to three lines per worker, and up to two lines with the reason why the
// run waits or is slow. At most rows - 1 lines, but always one worker: workers that do not fit are only counted.
std::vector<WatchLine> RenderWatch(const v1::WatchJobResponse& state, const WatchSize& size);

// Draws values as eight heights, newest at the right, at most `width` columns; a flat line when all
// are equal.
std::string Sparkline(const std::vector<double>& values, size_t width, bool unicode);
// Draws a bar of exactly `width` columns.
std::string ProgressBar(double share, size_t width, bool unicode);

// Returns the line for an event, with the time in UTC, as printed without a terminal: "12:31:07 round committed:
// round 4 of fragment 0 ...".
std::string EventLine(const v1::JobEvent& event);

// Draws each view over the previous one with cursor-up. It is not a full-screen program, so the
// last view stays in the scrollback. After a change of the terminal's size the position of the last
// view is unknown, so the screen is cleared.
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
