// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/rounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr Duration kDay = Seconds(86'400);

}  // namespace

uint64_t NewestMultiple(uint64_t every, Version version) {
  return every == 0 ? 0 : version.value - version.value % every;
}

Duration GraceWindow(std::vector<Duration> spreads, Duration overlap_slack) {
  Duration grace = limits::kGraceMinimum;
  if (!spreads.empty()) {
    std::sort(spreads.begin(), spreads.end());
    grace = std::max(grace, spreads[spreads.size() / 2] / 10);
  }
  return std::max(grace, overlap_slack / 2);
}

Duration RoundDeadline(Duration wanted, Duration membership_timeout, Duration grace, Duration slowest_period) {
  const Duration least = membership_timeout + grace;
  return wanted.ns > 0 ? std::max(wanted, least) : least + slowest_period * 3 / 2;
}

Duration TimesAtMostADay(Duration value, uint64_t factor) {
  if (value.ns <= 0 || factor == 0) return {};
  const auto most = static_cast<uint64_t>(kDay.ns / value.ns);
  return factor >= most ? kDay : value * static_cast<int64_t>(factor);
}

std::string ListOf(const std::vector<WorkerId>& workers) {
  if (workers.empty()) return "nobody";
  std::string out;
  for (size_t i = 0; i < workers.size(); ++i) {
    const char* joint = i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ";
    absl::StrAppend(&out, joint, workers[i].value);
  }
  return out;
}

std::string SecondsOf(Duration d) {
  const int64_t whole = d.ns <= 0 ? 0 : (d.ns + 999'999'999) / 1'000'000'000;
  return absl::StrCat(whole, " s");
}

}  // namespace atl
