// SPDX-License-Identifier: Apache-2.0
// A secret that a person types at the terminal of the process, whatever standard input and output are.
#ifndef ATOLL_CLI_TERMINAL_SECRET_H_
#define ATOLL_CLI_TERMINAL_SECRET_H_

#include <string>

#include "common/base/status.h"

namespace atl::cli {

// Writes the prompt and reads a line, which is not shown. FailedPrecondition where the process has no terminal. One
// call at a time.
absl::StatusOr<std::string> AskAtTerminal(const std::string& prompt);
// Shows again what is typed, if AskAtTerminal has ended that. For who ends the process meanwhile; from any thread.
void ShowTyping();

}  // namespace atl::cli

#endif  // ATOLL_CLI_TERMINAL_SECRET_H_
