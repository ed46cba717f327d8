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

// Returns the unknown word of a command line with the nearest known one, as "; did you mean
// 'submit'?". Empty when every word is known. `at` is then the command that does not know the word,
// for example "atoll job".
std::string UnknownWord(const CLI::App& root, const std::vector<std::string>& arguments, std::string& at);

}  // namespace atl::cli

#endif  // ATOLL_CLI_COMPLETION_H_
