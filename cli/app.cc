// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/checkpoint_commands.h"
#include "cli/command_tree.h"
#include "cli/completion.h"
#include "cli/output.h"
#include "common/base/host_port.h"
#include "common/config/nearest_word.h"
#include "common/config/quantities.h"

namespace atl::cli {
namespace {

constexpr char kDefaultEndpoint[] = "127.0.0.1:7070";

std::string Variable(const AppEnvironment& environment, const std::string& name) {
  const auto found = environment.variables.find(name);
  return found == environment.variables.end() ? std::string() : found->second;
}

// The first non-empty one of LC_ALL, LC_CTYPE and LANG decides, as in other programs.
bool IsUtf8(const AppEnvironment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = absl::AsciiStrToUpper(Variable(environment, name));
    if (!value.empty()) return value.find("UTF-8") != std::string::npos || value.find("UTF8") != std::string::npos;
  }
  return false;
}

Terminal TerminalOf(const AppEnvironment& environment, bool no_color) {
  const bool dumb = Variable(environment, "TERM") == "dumb" || Variable(environment, "TERM").empty();
  Terminal terminal;
  terminal.out = environment.out_is_terminal && !dumb;
  terminal.talk = environment.talk_is_terminal && !dumb;
  terminal.color = terminal.out && !no_color && Variable(environment, "NO_COLOR").empty();
  terminal.unicode = IsUtf8(environment);
  terminal.width = environment.width;
  terminal.height = environment.height;
  return terminal;
}

int Usage(AppEnvironment& environment, const std::string& sentence, const std::string& command = "atoll") {
  environment.talk << "atoll: " << sentence << "\nRun '" << command << " --help' for "
                   << (command == "atoll" ? "the commands.\n" : "its use.\n");
  return kExitUsage;
}

// Returns the innermost given command, for example "atoll job submit".
std::string CommandGiven(const CLI::App& root) {
  const CLI::App* app = &root;
  std::string words = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    absl::StrAppend(&words, " ", app->get_name());
  }
  return words;
}

// Turns CLI11's "--wait = x" into "--wait is 'x'; it must be true, false or omitted". Only flags cause this message,
// because CLI11 converts no other values here.
std::string WrongFlag(const std::string& text) {
  const size_t middle = text.find(" = ");
  if (middle == std::string::npos) return absl::StrCat(text, ": this option does not accept that value");
  return absl::StrCat(text.substr(0, middle), " is '", text.substr(middle + 3, 64),
                      "'; it must be true, false or omitted");
}

// Turns "--dtype: x not in {a,b}" into "--dtype is 'x'; it must be one of a, b"; empty for any
// other text.
std::string WrongWord(const std::string& text) {
  const size_t colon = text.find(": "), list = text.rfind(" not in {");
  if (colon == std::string::npos || list == std::string::npos || list < colon || text.back() != '}') return "";
  const std::string word = text.substr(colon + 2, list - colon - 2);
  std::vector<std::string> known(1);
  for (const char c : text.substr(list + 9, text.size() - list - 10)) {
    if (c == ',') {
      known.emplace_back();
    } else {
      known.back().push_back(c);
    }
  }
  return absl::StrCat(text.substr(0, colon), " is '", word.substr(0, 64), "'; it must be ",
                      known.size() > 1 ? "one of " : "", absl::StrJoin(known, ", "), DidYouMean(word, known));
}

// Rewrites a CLI11 error as an Atoll error message.
int ReportParseError(AppEnvironment& environment, const CLI::App& root, const std::vector<std::string>& arguments,
                     const CLI::ParseError& error) {
  std::string at;
  if (const std::string unknown = UnknownWord(root, arguments, at); !unknown.empty())
    return Usage(environment, unknown, at);
  std::string text = error.what();
  if (!text.empty() && text.back() == '.') text.pop_back();
  constexpr char kConversion[] = "Could not convert: ";
  if (text.rfind(kConversion, 0) == 0) {
    text = WrongFlag(text.substr(sizeof(kConversion) - 1));
  } else if (const size_t twice = text.find(": At Most 1 required"); twice != std::string::npos) {
    text = text.substr(0, twice) + " is given more than once";
  } else if (const size_t lacking = text.find(": 1 required "); lacking != std::string::npos) {
    text = text.substr(0, lacking) + " needs a value";
  } else if (const size_t checked = text.find(": is '"); checked != std::string::npos) {
    text.erase(checked, 1);  // the message of number_options.h, after the option's name
  } else if (std::string word = WrongWord(text); !word.empty()) {
    text = std::move(word);
  }
  return Usage(environment, text, CommandGiven(root));
}

int RunWithSession(AppEnvironment& environment, const GlobalOptions& global,
                   const std::function<int(Session&)>& command) {
  std::optional<Instant> deadline;
  if (!global.timeout.empty()) {
    const absl::StatusOr<Duration> timeout = ParseDuration(global.timeout);
    if (!timeout.ok()) return Usage(environment, absl::StrCat("--timeout ", timeout.status().message()));
    deadline = environment.clock.Now() + *timeout;
  }
  const std::optional<OutputFormat> format = FormatOf(global.output);
  if (!format.has_value()) {
    return Usage(environment, "-o is '" + global.output + "'; it must be table, wide, json, jsonl, yaml or name");
  }
  std::string endpoint = global.endpoint.empty() ? Variable(environment, "ATOLL_ENDPOINT") : global.endpoint;
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  if (const absl::Status status = CompleteEndpoint(endpoint, kControlPort); !status.ok())
    return Usage(environment, absl::StrCat("--endpoint ", status.message()));
  const std::string identity = global.identity.empty() ? Variable(environment, "ATOLL_IDENTITY") : global.identity;
  Passphrases passphrases(
      global.passphrase_file.empty() ? Variable(environment, "ATOLL_PASSPHRASE_FILE") : global.passphrase_file,
      environment.ask_secret);
  const std::shared_ptr<CoordinatorApi> api = environment.connect(endpoint, identity, passphrases, deadline);
  Session session{.in = environment.in,
                  .out = environment.out,
                  .talk = environment.talk,
                  .terminal = TerminalOf(environment, global.no_color),
                  .format = *format,
                  .deadline = deadline,
                  .clock = environment.clock,
                  .files = environment.files,
                  .endpoint = endpoint,
                  .identity = identity,
                  .passphrases = passphrases,
                  .api = *api,
                  .new_request_id = environment.new_request_id,
                  .pause_before_retry = environment.pause_before_retry};
  environment.running(api.get());
  const int code = command(session);
  environment.running(nullptr);
  return code;
}

// Flushes the results; lost ones are an error. (If their reader is gone, SIGPIPE ends the process: OutputBuffer.)
int FinishOutput(AppEnvironment& environment, int code) {
  environment.out.flush();
  if (environment.out) return code;
  environment.talk << "atoll: the results could not be written to standard output\n";
  return code == kExitOk ? kExitRefused : code;
}

int ParseAndRun(const std::vector<std::string>& arguments, AppEnvironment& environment) {
  CLI::App root("Trains one language model over many machines. Talks to atoll-coordinator.", "atoll");
  GlobalOptions global;
  std::function<int(Session&)> command;
  BuildCommandTree(root, global, environment.version, command);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    root.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* at = &root;
    std::string before;  // "atoll job", for the usage line of `atoll job submit`
    while (!at->get_subcommands().empty()) {
      absl::StrAppend(&before, before.empty() ? "" : " ", at->get_name());
      at = at->get_subcommands().front();
    }
    environment.out << at->help(before);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return ReportParseError(environment, root, arguments, error);
  }
  if (global.version) {
    environment.out << "atoll " << environment.version << "\n";
    return kExitOk;
  }
  if (!command) {
    environment.talk << root.help();
    return kExitUsage;
  }
  return RunWithSession(environment, global, command);
}

}  // namespace

int RunApp(const std::vector<std::string>& arguments, AppEnvironment& environment) {
  return FinishOutput(environment, ParseAndRun(arguments, environment));
}

}  // namespace atl::cli
