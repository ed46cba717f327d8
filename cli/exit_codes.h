// SPDX-License-Identifier: Apache-2.0
// How `atoll` ends, for scripts (docs/cli.md). The numbers never change their meaning; messages may.
#ifndef ATOLL_CLI_EXIT_CODES_H_
#define ATOLL_CLI_EXIT_CODES_H_

#include "common/base/status.h"

namespace atl::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,      // the job ended FAILED (wait, watch)
  kExitUsage = 2,          // wrong arguments, or an invalid job file
  kExitRefused = 3,        // not found, exists already, or a precondition does not hold; nothing was changed
  kExitAuth = 4,           // not allowed
  kExitUnreachable = 5,    // the coordinator cannot be reached, or did not answer in time
  kExitJobCancelled = 6,   // the job ended CANCELLED (wait, watch)
  kExitBug = 70,           // an error of ours
  kExitTimeout = 124,      // --timeout has passed
  kExitInterrupted = 130,  // interrupted from the keyboard
};

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace atl::cli

#endif  // ATOLL_CLI_EXIT_CODES_H_
