// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_view.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "common/base/utf8.h"

namespace atl::cli {
namespace {

constexpr size_t kSmallestWidth = 20;
constexpr size_t kReasonIndent = 6;
constexpr size_t kReasonLines = 2;  // below a worker's line

std::string Pad(const std::string& text, size_t width) {
  const std::string cut = Clip(text, width);
  return cut + std::string(width - DisplayWidth(cut), ' ');
}

// Joins pieces in order of importance, separated by three spaces; skips those that do not fit.
std::string FitPieces(const std::vector<std::string>& pieces, size_t width) {
  std::string line;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    const std::string next = line.empty() ? piece : absl::StrCat(line, "   ", piece);
    if (!line.empty() && DisplayWidth(next) > width) continue;
    line = next;
  }
  return Clip(line, width);
}

WatchLine::Style StyleOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_CLOSING:
    case v1::JOB_STATE_SUCCEEDED: return WatchLine::Style::kGood;
    case v1::JOB_STATE_FAILED: return WatchLine::Style::kBad;
    default: return WatchLine::Style::kWarning;
  }
}

double ShareDone(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_SUCCEEDED) return 1;
  if (job.stop_step() == 0) return 0;
  return std::min(1.0, static_cast<double>(job.step()) / static_cast<double>(job.stop_step()));
}

std::string Remaining(const v1::Job& job) {
  if (IsTerminal(job.state()) || !job.has_remaining()) return "";
  return "ETA " + HumanTime(static_cast<double>(job.remaining().seconds()));
}

std::string TitleLine(const v1::Job& job, size_t width) {
  return FitPieces(
      {ShortName(job.name()), StateText(job.state()),
       job.stop_step() == 0 ? absl::StrCat("step ", HumanCount(job.step()))
                            : absl::StrCat("step ", HumanCount(job.step()), " of ", HumanCount(job.stop_step())),
       absl::StrCat("round ", HumanCount(job.round())),
       job.parameters() == 0 ? "" : HumanNumber(static_cast<double>(job.parameters())) + " parameters"},
      width);
}

std::string ProgressLineText(const v1::Job& job, const WatchSize& size, size_t width) {
  const double share = ShareDone(job);
  const std::string after = absl::StrFormat(" %3.0f %%  %s", std::floor(share * 100), Remaining(job));
  const size_t bar = std::min<size_t>(100, width > DisplayWidth(after) + 10 ? width - DisplayWidth(after) : 10);
  return Clip(ProgressBar(share, bar, size.unicode) + after, width);
}

std::string EvaluationText(const v1::Job& job) {
  if (!job.has_last_evaluation()) return "";
  const v1::EvaluationResult& e = job.last_evaluation();
  std::string out = absl::StrFormat("held-out %.4f, perplexity %.2f", e.loss(), e.perplexity());
  if (e.bits_per_byte() > 0) absl::StrAppend(&out, absl::StrFormat(", %.3f bits/byte", e.bits_per_byte()));
  return out;
}

std::string LossLine(const v1::WatchJobResponse& state, const WatchSize& size, size_t width) {
  const std::vector<double> losses(state.recent_losses().begin(), state.recent_losses().end());
  const std::string text = "loss " + LossText(state.job().loss());
  const std::string evaluation = EvaluationText(state.job());
  const size_t taken = DisplayWidth(text) + 3 + (evaluation.empty() ? 0 : DisplayWidth(evaluation) + 3);
  const size_t room = width > taken + 8 ? std::min<size_t>(60, width - taken) : 16;
  return FitPieces({text, Sparkline(losses, room, size.unicode), evaluation}, width);
}

std::string RateLine(const v1::Job& job, size_t width) {
  const std::string long_workers =
      absl::StrCat("workers: ", job.workers_alive(), " alive, ", job.workers_training(), " training, ",
                   job.workers_participating(), " participating", PoolText(job));
  return FitPieces(
      {HumanNumber(job.tokens_per_second()) + " tokens/s", HumanNumber(static_cast<double>(job.tokens())) + " tokens",
       long_workers, "up " + HumanSize(static_cast<double>(job.uploaded_bytes())),
       "down " + HumanSize(static_cast<double>(job.downloaded_bytes()))},
      width);
}

// Returns what the worker waits for, or its problem; empty if there is none.
std::string ReasonOf(const v1::WorkerStatus& w) {
  if (!w.waiting_for().empty()) return Printable(w.waiting_for());
  if (!w.link_too_slow().empty())
    return w.not_waited_for() ? "slow link: not waited for" : "slow link: all wait for it";
  return Printable(w.screened());
}

// Breaks text into at most `count` lines of whole words, at most `width` wide; cuts the last one.
std::vector<std::string> Wrap(std::string text, size_t width, size_t count) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() + 1 < count && DisplayWidth(text) > width) {
    size_t cut = 0;
    for (size_t at = text.find(' '); at != std::string::npos && DisplayWidth(text.substr(0, at)) <= width;
         at = text.find(' ', at + 1)) {
      cut = at;
    }
    if (cut == 0) break;
    lines.push_back(text.substr(0, cut));
    text.erase(0, cut + 1);
  }
  if (!text.empty()) lines.push_back(Clip(text, width));
  return lines;
}

// Returns one line and, if the reason does not fit into it, up to `more` lines with the reason.
std::vector<std::string> WorkerLines(const v1::WorkerStatus& w, size_t name_width, size_t width, size_t more) {
  std::string line = "  " + Pad(ShortName(w.name()), name_width) + "  " +
                     Pad(Printable(w.activity().empty() ? w.state() : w.activity()), 10) + "  " +
                     Pad("step " + HumanCount(w.step()), 13) + "  " +
                     Pad(HumanNumber(w.tokens_per_second()) + " tok/s", 11) + "  " +
                     Pad("loss " + LossText(w.loss()), 11);
  const std::string reason = ReasonOf(w);
  const std::string whole = reason.empty() ? line : line + "  " + reason;
  const bool below = more > 0 && !reason.empty() && DisplayWidth(whole) > width;
  if (!below) line = whole;
  line.erase(line.find_last_not_of(' ') + 1);
  std::vector<std::string> lines = {Clip(line, width)};
  if (!below) return lines;
  const std::string indent(kReasonIndent, ' ');
  for (const std::string& part : Wrap(reason, width - kReasonIndent, more)) lines.push_back(indent + part);
  return lines;
}

WatchLine::Style StyleOf(const v1::WorkerStatus& w) {
  if (w.state() == "lost" || w.state() == "quarantined") return WatchLine::Style::kBad;
  const bool fine = w.waiting_for().empty() && w.link_too_slow().empty() && w.screened().empty();
  return fine ? WatchLine::Style::kPlain : WatchLine::Style::kWarning;
}

// Returns at most two lines of whole words, the second one indented.
std::vector<std::string> TwoLines(const std::string& text, size_t width) {
  std::vector<std::string> lines = Wrap(text, width, 2);
  if (lines.size() == 2) lines[1] = Clip("  " + text.substr(lines[0].size() + 1), width);
  return lines;
}

// For terminals without UTF-8.
void ReplaceEllipsis(std::string& text) {
  const std::string ellipsis = "…";
  for (size_t at = text.find(ellipsis); at != std::string::npos; at = text.find(ellipsis)) {
    text.replace(at, ellipsis.size(), "~");
  }
}

const char* Escape(WatchLine::Style style) {
  switch (style) {
    case WatchLine::Style::kTitle: return "\x1b[1m";
    case WatchLine::Style::kDim: return "\x1b[2m";
    case WatchLine::Style::kGood: return "\x1b[32m";
    case WatchLine::Style::kWarning: return "\x1b[33m";
    case WatchLine::Style::kBad: return "\x1b[31m";
    default: return "";
  }
}

}  // namespace

std::string ProgressBar(double share, size_t width, bool unicode) {
  if (width < 3) return std::string(width, ' ');
  const size_t inner = width - 2;
  const size_t full = static_cast<size_t>(std::floor(std::clamp(share, 0.0, 1.0) * static_cast<double>(inner)));
  std::string out = "[";
  for (size_t i = 0; i < inner; ++i) out += i < full ? (unicode ? "█" : "#") : (unicode ? "░" : ".");
  return out + "]";
}

std::string Sparkline(const std::vector<double>& values, size_t width, bool unicode) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {"_", ".", "-", "=", "+", "*", "%", "#"};
  const size_t count = std::min(width, values.size());
  if (count == 0) return "";
  const char* const* glyphs =
      unicode ? kBlocks : kAscii;  // GCC 12 miscompiles indexing the conditional expression itself
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(count);
  const auto [low, high] = std::minmax_element(begin, values.end());
  std::string out;
  for (auto v = begin; v != values.end(); ++v) {
    const double height = *high > *low ? (*v - *low) / (*high - *low) * 7.0 : 0.0;
    const size_t level = std::isfinite(height) ? static_cast<size_t>(std::lround(height)) : 7;
    out += glyphs[std::min<size_t>(7, level)];
  }
  return out;
}

std::vector<WatchLine> RenderWatch(const v1::WatchJobResponse& state, const WatchSize& size) {
  const size_t width = std::max<size_t>(kSmallestWidth, size.columns) - 1;
  const v1::Job& job = state.job();
  std::vector<WatchLine> lines = {{TitleLine(job, width), WatchLine::Style::kTitle},
                                  {ProgressLineText(job, size, width), StyleOf(job.state())},
                                  {LossLine(state, size, width), WatchLine::Style::kPlain},
                                  {RateLine(job, width), WatchLine::Style::kPlain}};
  const std::vector<std::string> why =
      TwoLines(Printable(state.waiting_line().empty() ? job.reason() : state.waiting_line()), width);
  const size_t fixed = lines.size() + why.size() + 1;  // one more for the number of workers not shown
  const size_t room = size.rows > fixed + 2 ? size.rows - 1 - fixed : 1;
  const size_t total = static_cast<size_t>(state.workers_size()), shown = std::min(room, total);
  size_t name_width = 6;
  for (const auto& w : state.workers()) name_width = std::max(name_width, DisplayWidth(ShortName(w.name())));
  name_width = std::min<size_t>(name_width, std::max<size_t>(12, width / 4));
  size_t spare = room - shown;  // rows for reasons
  for (size_t i = 0; i < shown; ++i) {
    const v1::WorkerStatus& w = state.workers(static_cast<int>(i));
    const std::vector<std::string> told = WorkerLines(w, name_width, width, std::min(spare, kReasonLines));
    for (const std::string& line : told) lines.push_back({line, StyleOf(w)});
    spare -= told.size() - 1;
  }
  if (shown < total)
    lines.push_back({Clip(absl::StrCat("  and ", total - shown, " more workers"), width), WatchLine::Style::kDim});
  for (const std::string& line : why) lines.push_back({line, WatchLine::Style::kWarning});
  if (!size.unicode) {
    for (WatchLine& line : lines) ReplaceEllipsis(line.text);
  }
  return lines;
}

std::string EventLine(const v1::JobEvent& event) {
  const std::time_t when = event.time().seconds();
  std::tm utc{};
  gmtime_r(&when, &utc);
  const std::string time = absl::StrFormat("%02d:%02d:%02d", utc.tm_hour, utc.tm_min, utc.tm_sec);
  const std::string text = event.text().empty() ? event.kind() : absl::StrCat(event.kind(), ": ", event.text());
  return time + " " + Printable(text);
}

void WatchPainter::Draw(const std::vector<WatchLine>& lines, const WatchSize& size) {
  std::string frame;
  const bool moved = size.columns != columns_ || size.rows != rows_;
  if (drawn_ > 0) frame = moved ? "\x1b[H\x1b[2J" : absl::StrCat("\x1b[", drawn_, "A");
  columns_ = size.columns;
  rows_ = size.rows;
  for (const WatchLine& line : lines) {
    const std::string escape = color_ ? Escape(line.style) : "";
    absl::StrAppend(&frame, "\r\x1b[2K", escape, line.text, escape.empty() ? "" : "\x1b[0m", "\n");
  }
  if (drawn_ > lines.size()) frame += "\x1b[J";
  drawn_ = lines.size();
  out_ << frame << std::flush;
}

}  // namespace atl::cli
