// SPDX-License-Identifier: Apache-2.0
// Reads a secret that a person types at the process's terminal, independent of standard input and
// output.
#ifndef ATOLL_CLI_TERMINAL_SECRET_H_
#define ATOLL_CLI_TERMINAL_SECRET_H_

#include <string>

#include "common/base/status.h"

namespace atl::cli {

// Prints the prompt and reads a line without echo. FailedPrecondition when the process has no
// terminal. One call at a time.
absl::StatusOr<std::string> AskAtTerminal(const std::string& prompt);
// Restores the echo if AskAtTerminal turned it off. For code that ends the process meanwhile;
// thread-safe.
void ShowTyping();

}  // namespace atl::cli

#endif  // ATOLL_CLI_TERMINAL_SECRET_H_
