// SPDX-License-Identifier: Apache-2.0
// Shell completion made from the command tree itself, so that it can never lack a command.
#ifndef ATOLL_CLI_COMPLETION_H_
#define ATOLL_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace atl::cli {

// The script for "bash", "zsh" or "fish"; empty for another shell.
std::string CompletionScript(const CLI::App& root, const std::string& shell);

// The word of the command line that is unknown, and the nearest known one, as "; did you mean 'submit'?". Empty when
// every word is known. `at` is then the command that does not know it, as "atoll job".
std::string UnknownWord(const CLI::App& root, const std::vector<std::string>& arguments, std::string& at);

}  // namespace atl::cli

#endif  // ATOLL_CLI_COMPLETION_H_
