// SPDX-License-Identifier: Apache-2.0
// The command tree of `atoll`: parses arguments and runs one command.
#ifndef ATOLL_CLI_APP_H_
#define ATOLL_CLI_APP_H_

#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cli/coordinator_api.h"
#include "cli/session.h"
#include "common/config/options.h"

namespace atl::cli {

// Everything outside the program, so that tests can replace it.
struct AppEnvironment {
  std::istream& in;
  std::ostream& out;
  std::ostream& talk;
  bool out_is_terminal = false;
  bool talk_is_terminal = false;
  std::function<uint32_t()> width = [] { return 80u; };
  std::function<uint32_t()> height = [] { return 24u; };
  Environment variables;
  std::string version;
  const Clock& clock;
  Files& files;
  // `identity`: an identity file, or empty. `passphrases`: for that file; must outlive the result.
  std::function<std::shared_ptr<CoordinatorApi>(const std::string& endpoint, const std::string& identity,
                                                Passphrases& passphrases, std::optional<Instant> deadline)>
      connect;
  // Asks the person at the terminal.
  AskSecret ask_secret;
  // Called with the API that a stop signal must interrupt, before a command runs, and with nullptr after the command
  // has returned.
  std::function<void(CoordinatorApi*)> running = [](CoordinatorApi*) {};
  std::function<std::string()> new_request_id;
  std::function<void(Duration)> pause_before_retry;
};

// Runs one command line (without the program's name) and returns the exit code. Does not end the process. An
// exception from it is a bug or a refused resource.
int RunApp(const std::vector<std::string>& arguments, AppEnvironment& environment);

}  // namespace atl::cli

#endif  // ATOLL_CLI_APP_H_
