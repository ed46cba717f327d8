// SPDX-License-Identifier: Apache-2.0
// Lines of history. A coordinator restored from a backup may know less than its workers, and its
// state diverges from then on. Each restore therefore starts a new line: a boot number is line *
// kBootsPerLine + number of starts in that line, and the first line is 0. State that a worker holds
// is valid only in the line that it comes from. A higher line is newer. Pure.
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

// Returns the boot number to store in a ledger that is restored at `wall_s` (Unix time) with newest boot number
// `restored`: that of the first line after the ledger's that is not below `wall_s`. Two restores of one backup get
// two lines, the later one higher, unless they are in the same second or the clock was set back in between.
constexpr BootNumber NextLine(BootNumber restored, int64_t wall_s) {
  const uint64_t clock = wall_s > 0 ? static_cast<uint64_t>(wall_s) : 0;
  return BootNumber{std::max(LineOf(restored) + 1, clock) * kBootsPerLine};
}

// The course of a job. A restore of the coordinator from a backup starts a new course of each job, and each rollback
// of the job a new course of that job. A worker's state from another course is useless.
struct JobCourse {
  uint64_t line = 0;   // of the coordinator
  uint64_t epoch = 0;  // of the job
  friend bool operator==(const JobCourse&, const JobCourse&) = default;
};

// Returns the error message for a worker that has seen boot number `seen` and meets a coordinator with the lower
// number `its`. Both sides use the message: the coordinator in its Refused, the worker when it closes the stream.
inline std::string OlderStateLine(BootNumber its, BootNumber seen) {
  return absl::StrCat("the coordinator has boot number ", its.value, ", but ", seen.value,
                      " was seen before: its state directory is older than one that this worker has followed; ",
                      "start the coordinator on the newer state");
}
// Advice that both sides append to OlderStateLine: how a worker can follow the older coordinator nevertheless.
constexpr char kFollowOtherwise[] =
    ", or, to follow this one, end this worker and start it again, which forgets the other";

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_BOOT_LINES_H_
