// SPDX-License-Identifier: Apache-2.0
// Shell completion generated from the command tree, so that it always covers every command.
#ifndef ATOLL_CLI_COMPLETION_H_
#define ATOLL_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace atl::cli {

// Returns the script for "bash", "zsh" or "fish"; empty for any other shell.
std::string CompletionScript(const CLI::App& root, const std::string& shell);

// Returns an error message about the first unknown command or option of a command line, with the nearest known one:
// "unknown command 'submt'; did you mean 'submit'?". Empty when all are known. `at` is set to the command before the
// unknown word, for example "atoll job".
std::string UnknownWord(const CLI::App& root, const std::vector<std::string>& arguments, std::string& at);

}  // namespace atl::cli

#endif  // ATOLL_CLI_COMPLETION_H_
