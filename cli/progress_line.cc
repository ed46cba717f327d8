// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <algorithm>
#include <cstdio>

namespace atl::cli {
namespace {

constexpr int kBarCells = 30;

}  // namespace

ProgressLine::ProgressLine(std::ostream& talk, std::string what, bool terminal, bool quiet)
    : talk_(talk), what_(std::move(what)), terminal_(terminal), quiet_(quiet) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && printed_percent_ >= 0) talk_ << "\r\033[K" << std::flush;
}

void ProgressLine::UpdateWithoutEnd(uint64_t done_bytes, const std::string& note) {
  if (quiet_ || done_bytes < next_bytes_) return;
  next_bytes_ = terminal_ ? done_bytes + (uint64_t{16} << 20) : 2 * done_bytes;
  printed_percent_ = 0;
  const std::string text = what_ + ": " + HumanBytes(done_bytes) + (note.empty() ? "" : ", ") + note;
  talk_ << (terminal_ ? "\r\033[K" : "") << text << (terminal_ ? "" : "\n") << std::flush;
}

void ProgressLine::Update(uint64_t done, uint64_t total, const std::string& note) {
  if (quiet_) return;
  const int percent =
      total == 0 ? 100
                 : static_cast<int>(100 * static_cast<double>(std::min(done, total)) / static_cast<double>(total));
  const int step = terminal_ ? 1 : 10;
  if (printed_percent_ >= 0 && percent / step == printed_percent_ / step) return;
  printed_percent_ = percent;
  if (!terminal_) {
    talk_ << what_ << ": " << percent << " %" << (note.empty() ? "" : ", ") << note << "\n" << std::flush;
    return;
  }
  const int full = percent * kBarCells / 100;
  std::string bar(static_cast<size_t>(full), '#');
  bar.resize(kBarCells, '.');
  talk_ << "\r\033[K" << what_ << " [" << bar << "] " << percent << " % " << note << std::flush;
}

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  char text[32];
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, kUnits[unit]);
  return text;
}

std::string HumanCount(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace atl::cli
