// SPDX-License-Identifier: Apache-2.0
// The commands, options and aliases. Private to the command line.
#ifndef ATOLL_CLI_COMMAND_TREE_H_
#define ATOLL_CLI_COMMAND_TREE_H_

#include <functional>
#include <span>
#include <string>

#include "cli/session.h"

namespace CLI {
class App;
}

namespace atl::cli {

struct GlobalOptions {
  std::string endpoint;
  std::string identity;
  std::string passphrase_file;
  std::string output = "table";
  std::string timeout;
  bool no_color = false;
  bool version = false;
};

// Adds everything to `root`. Parsing fills `global` and sets `command` to the command to run; both
// must outlive the parse.
void BuildCommandTree(CLI::App& root, GlobalOptions& global, const std::string& version,
                      std::function<int(Session&)>& command);

// Each Add function adds one part of the tree. Aliases are added at the root, outside the groups of the help.
using Command = std::function<int(Session&)>;
// Wraps `run`, which prints text in one form: any other -o is refused with an error message.
Command TextOnly(Command run, OutputFormat form = OutputFormat::kTable);
// Wraps `run`, which supports these forms: any other -o is refused with a message that lists them.
Command Takes(std::span<const OutputFormat> forms, Command run);
// Help of --protect, for commands that write an identity.
inline constexpr char kProtectHelp[] = "protect the key with a passphrase, from --passphrase-file or typed twice";
void AddJobCommands(CLI::App& root, Command& command);
void AddWorkerCommands(CLI::App& root, Command& command);
void AddCheckpointCommands(CLI::App& root, Command& command);
void AddDataCommands(CLI::App& root, Command& command);
void AddPlanCommand(CLI::App& root, Command& command);
void AddCaCommands(CLI::App& root, Command& command);
void AddTokenCommands(CLI::App& root, Command& command);
void AddDoctorCommand(CLI::App& root, const std::string& version, Command& command);
void AddOtherCommands(CLI::App& root, const std::string& version, Command& command);

}  // namespace atl::cli

#endif  // ATOLL_CLI_COMMAND_TREE_H_
