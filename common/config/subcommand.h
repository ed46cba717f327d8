// SPDX-License-Identifier: Apache-2.0
// The commands of a daemon, such as `atoll-worker check`. Private to common/config.
#ifndef ATOLL_COMMON_CONFIG_SUBCOMMAND_H_
#define ATOLL_COMMON_CONFIG_SUBCOMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/nearest_word.h"
#include "common/config/option_table.h"

namespace atl {

// The longest part of an unexpected argument in a message: the word may be a join string, and its secret begins later.
constexpr size_t kShownBytes = 32;

// The input of a daemon's commands.
struct Given {
  const std::vector<std::string>& arguments;  // after the name of the command
  const Environment& environment;
  const std::string& version;
  const std::string& host_name;
};

void AddLogOptions(OptionTable& table, LogOptions& log);
// --admin-address, --admin-port and --admin-token.
void AddAdminOptions(OptionTable& table, std::string& address, uint32_t& port, std::string& token);
// Adds a fault if others than this machine could read the admin port without a token.
void CheckAdminAddress(const std::string& address, const std::string& token, std::vector<std::string>& faults);

// Parses the options of the command named by the first argument, and refuses an unknown command. Returns false, and
// parses nothing, if there is no argument or the first one is an option: the line then starts the daemon.
template <typename Line>
bool ParseSubcommand(const std::string& program, const Given& given,
                     const std::map<std::string, void (*)(const Given&, Line&)>& commands, Line& out) {
  if (given.arguments.empty() || absl::StartsWith(given.arguments[0], "-")) return false;
  const std::string& word = given.arguments[0];
  if (const auto found = commands.find(word); found != commands.end()) {
    const std::vector<std::string> rest(given.arguments.begin() + 1, given.arguments.end());
    found->second({rest, given.environment, given.version, given.host_name}, out);
    return true;
  }
  std::vector<std::string> known;
  for (const auto& [name, parse] : commands) known.push_back(name);
  Refuse(program, {absl::StrCat("unknown command '", word.substr(0, kShownBytes), "'", DidYouMean(word, known))}, out);
  return true;
}

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_SUBCOMMAND_H_
