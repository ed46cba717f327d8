// SPDX-License-Identifier: Apache-2.0
// Lines of history. A restored state knows less than workers may have seen of the state that was lost, and takes
// another course from there on. So each restore begins a line of its own: a boot number is line * kBootsPerLine +
// starts in that line, and the first line is 0. What a worker holds counts in the line that it comes from and in no
// other; a higher line is the newer one. Pure.
#ifndef ATOLL_COMMON_PLAN_BOOT_LINES_H_
#define ATOLL_COMMON_PLAN_BOOT_LINES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"

namespace atl {

constexpr uint64_t kBootsPerLine = 1'000'000;

constexpr uint64_t LineOf(BootNumber boot) { return boot.value / kBootsPerLine; }

// The boot number that stands in a ledger restored at `wall_s` (Unix time) whose newest was `restored`. Two restores of
// one backup are two lines, the later the higher, unless the clock was set back between them.
constexpr BootNumber NextLine(BootNumber restored, int64_t wall_s) {
  const uint64_t clock = wall_s > 0 ? static_cast<uint64_t>(wall_s) : 0;
  return BootNumber{std::max(LineOf(restored) + 1, clock) * kBootsPerLine};
}

// The course that a job takes: a restore of its coordinator begins another one, and so does each of its rollbacks. What
// a worker has of another course is of no use.
struct JobCourse {
  uint64_t line = 0;   // of the coordinator
  uint64_t epoch = 0;  // of the job
  friend bool operator==(const JobCourse&, const JobCourse&) = default;
};

// Why a worker that has seen boot number `seen` does not follow a coordinator with a lower one, `its`.
inline std::string OlderStateLine(BootNumber its, BootNumber seen) {
  return absl::StrCat("the coordinator has boot number ", its.value, ", but ", seen.value,
                      " was seen before: its state directory is older than one that this worker has followed; ",
                      "start the coordinator on the newer state");
}
// Behind such a line: the other way out.
constexpr char kFollowOtherwise[] =
    ", or, to follow this one, end this worker and start it again, which forgets the other";

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_BOOT_LINES_H_
