// SPDX-License-Identifier: Apache-2.0
// Which commands, options and aliases there are. Private to the command line.
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

// Adds everything to `root`. Parsing fills `global` and sets `command` to what is to be run; both outlive the parse.
void BuildCommandTree(CLI::App& root, GlobalOptions& global, const std::string& version,
                      std::function<int(Session&)>& command);

// One part of the tree each; `alias` true adds the short form at the root, outside the help's list of groups.
using Command = std::function<int(Session&)>;
// `run`, which prints text of one form: any -o but that form is refused in a sentence.
Command TextOnly(Command run, OutputFormat form = OutputFormat::kTable);
// `run`, which knows these forms: any other -o is refused in a sentence that names them.
Command Takes(std::span<const OutputFormat> forms, Command run);
// Of --protect, where an identity is written.
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
