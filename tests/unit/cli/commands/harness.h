// SPDX-License-Identifier: Apache-2.0
// Runs the command line as a program, against a coordinator played by the test.
#ifndef ATOLL_TESTS_UNIT_CLI_COMMANDS_HARNESS_H_
#define ATOLL_TESTS_UNIT_CLI_COMMANDS_HARNESS_H_

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/app.h"
#include "common/base/files.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/cli/commands/fake_coordinator.h"

namespace atl::cli {

struct RunResult {
  int code = 0;
  std::string out, talk;
};

// Runs `arguments` against `fake`.
class Harness {
 public:
  FakeCoordinator fake;
  ManualClock clock;
  std::unique_ptr<Files> files = MakePosixFiles();
  Environment variables = {{"TERM", "xterm"}, {"LANG", "C.UTF-8"}};
  bool terminal = false;
  uint32_t columns = 80;
  std::string input;
  std::string endpoint, identity;  // as passed to connect
  int pauses = 0;
  std::vector<std::string> typed, asked;  // the user's input, and the prompts

  RunResult Run(const std::vector<std::string>& arguments) {
    std::istringstream in(input);
    std::ostringstream out, talk;
    AppEnvironment environment{
        .in = in,
        .out = out,
        .talk = talk,
        .out_is_terminal = terminal,
        .talk_is_terminal = terminal,
        .width = [this] { return columns; },
        .height = [] { return 24u; },
        .variables = variables,
        .version = "1.2.3",
        .clock = clock,
        .files = *files,
        .connect =
            [this](const std::string& to, const std::string& as, Passphrases&, std::optional<Instant>) {
              endpoint = to;
              identity = as;
              return std::shared_ptr<CoordinatorApi>(std::shared_ptr<void>(), &fake);
            },
        .ask_secret = [this](const std::string& prompt) -> absl::StatusOr<std::string> {
          asked.push_back(prompt);
          if (typed.empty()) return absl::FailedPreconditionError("there is no terminal");
          std::string line = typed.front();
          typed.erase(typed.begin());
          return line;
        },
        .running = [](CoordinatorApi*) {},
        .new_request_id = [] { return std::string("11111111-1111-4111-8111-111111111111"); },
        .pause_before_retry =
            [this](Duration length) {
              ++pauses;
              clock.Advance(length);
            }};
    const int code = RunApp(arguments, environment);
    return {code, out.str(), talk.str()};
  }
};

}  // namespace atl::cli

#endif  // ATOLL_TESTS_UNIT_CLI_COMMANDS_HARNESS_H_
