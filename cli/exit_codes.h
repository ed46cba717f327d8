// SPDX-License-Identifier: Apache-2.0
// Exit codes of `atoll`, for scripts (docs/formats/exit-codes.md). The meaning of a number never
// changes; messages may change.
#ifndef ATOLL_CLI_EXIT_CODES_H_
#define ATOLL_CLI_EXIT_CODES_H_

#include "common/base/status.h"

namespace atl::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,      // the job ended FAILED (wait, watch)
  kExitUsage = 2,          // wrong arguments, or an invalid job file
  kExitRefused = 3,        // not found, already exists, a precondition fails, damaged data, or lost results
  kExitAuth = 4,           // not allowed
  kExitUnreachable = 5,    // the coordinator cannot be reached, or did not answer in time
  kExitJobCancelled = 6,   // the job ended CANCELLED (wait, watch)
  kExitBug = 70,           // a bug in Atoll
  kExitTimeout = 124,      // --timeout has passed
  kExitInterrupted = 130,  // interrupted from the keyboard
};

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace atl::cli

#endif  // ATOLL_CLI_EXIT_CODES_H_
