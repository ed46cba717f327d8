// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/nearest_word.h"

namespace atl::cli {
namespace {

// An option with a fixed set of values.
struct Choice {
  std::string option, letter;  // "--output", "-o"; the letter may be empty
  std::vector<std::string> values;
};

struct CommandWords {
  std::string path;                                            // "atoll job submit"
  std::vector<std::string> words;                              // subcommands and options
  std::vector<std::pair<std::string, std::string>> described;  // word, first line of its help
  std::vector<Choice> choices;
};

bool IsHidden(const CLI::App& app) { return app.get_group().empty(); }

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Returns the values of an option or argument from "SHELL:{bash,zsh,fish}" or "table|json"; empty
// when any value is allowed. Capitalised words, as in "bytes|FILE", are placeholders.
std::vector<std::string> ValuesOf(const CLI::Option& option) {
  std::string text = option.get_type_name();
  const size_t open = text.find('{'), close = text.find('}');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    text = text.substr(open + 1, close - open - 1);
  } else if (text.find('|') == std::string::npos) {
    return {};
  }
  std::vector<std::string> out;
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(",|"))) {
    if (!part.empty() && !absl::ascii_isupper(static_cast<unsigned char>(part[0]))) out.emplace_back(part);
  }
  return out;
}

void AddOptions(const CLI::App& app, CommandWords& out) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> values = ValuesOf(*option);
    if (option->get_positional()) {
      for (const std::string& value : values) {
        out.words.push_back(value);
        out.described.emplace_back(value, option->get_description());
      }
    }
    for (const std::string& name : option->get_lnames()) {
      if (Has(out.words, "--" + name)) continue;  // --help, which a command and the root have
      const std::string letter = option->get_snames().empty() ? "" : "-" + option->get_snames()[0];
      out.words.push_back("--" + name);
      out.described.emplace_back("--" + name, option->get_description());
      if (!values.empty()) out.choices.push_back({"--" + name, letter, values});
    }
  }
}

void Walk(const CLI::App& app, const CLI::App& root, const std::string& path, std::vector<CommandWords>& out) {
  CommandWords command{.path = path, .words = {}, .described = {}, .choices = {}};
  std::vector<std::pair<const CLI::App*, std::string>> children;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (IsHidden(*child)) continue;
    command.words.push_back(child->get_name());
    command.described.emplace_back(child->get_name(), child->get_description());
    children.emplace_back(child, path + " " + child->get_name());
  }
  AddOptions(app, command);
  if (&app != &root) AddOptions(root, command);  // global options may follow a command
  out.push_back(std::move(command));
  for (const auto& [child, child_path] : children) Walk(*child, root, child_path, out);
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Quotes text as a single-quoted shell word.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Returns the cases of a shell's `case` that sets `variable` to the command so far. The longest
// known command path among the words before the cursor determines the completions.
std::string PathCases(const std::vector<CommandWords>& commands, const std::string& variable) {
  std::string out;
  for (const CommandWords& c : commands) {
    if (c.path != "atoll") out += "      " + Quoted(c.path) + ") " + variable + "=" + Quoted(c.path) + " ;;\n";
  }
  return out;
}

// Returns the cases of a shell's `case` over "PATH OPTION", each with the result of `entry` for the
// option's values.
template <typename Entry>
std::string ChoiceCases(const std::vector<CommandWords>& commands, const Entry& entry) {
  std::string out;
  for (const CommandWords& c : commands) {
    for (const Choice& choice : c.choices) {
      const std::string also = choice.letter.empty() ? "" : "|" + Quoted(c.path + " " + choice.letter);
      absl::StrAppend(&out, "    ", Quoted(c.path + " " + choice.option), also, ") ", entry(choice.values), " ;;\n");
    }
  }
  return out;
}

std::string Bash(const std::vector<CommandWords>& commands) {
  std::string out =
      "# bash completion for atoll: source <(atoll completion bash)\n"
      "_atoll() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" path=atoll words= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n";
  out += PathCases(commands, "path");
  out += "    esac\n  done\n  case \"$path\" in\n";
  for (const CommandWords& c : commands) out += "    " + Quoted(c.path) + ") words=" + Quoted(Join(c.words)) + " ;;\n";
  out += "  esac\n  case \"$path ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  out += ChoiceCases(commands, [](const auto& values) { return "words=" + Quoted(Join(values)); });
  return out +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _atoll atoll\n";
}

std::string Zsh(const std::vector<CommandWords>& commands) {
  std::string out =
      "#compdef atoll\n"
      "# zsh completion for atoll: atoll completion zsh > \"${fpath[1]}/_atoll\"\n"
      "_atoll() {\n"
      "  local command_path=atoll i\n"
      "  local -a entries\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$command_path ${words[i]}\" in\n";
  out += PathCases(commands, "command_path");
  out += "    esac\n  done\n  case \"$command_path\" in\n";
  for (const CommandWords& c : commands) {
    out += "    " + Quoted(c.path) + ") entries=(";
    for (const auto& [word, help] : c.described) absl::StrAppend(&out, " ", Quoted(absl::StrCat(word, ":", help)));
    out += " ) ;;\n";
  }
  out += "  esac\n  case \"$command_path ${words[CURRENT - 1]}\" in\n";
  out += ChoiceCases(commands, [](const auto& values) {
    std::vector<std::string> quoted;
    quoted.reserve(values.size());
    for (const std::string& value : values) quoted.push_back(Quoted(value));
    return "entries=(" + Join(quoted) + ")";
  });
  return out +
         "  esac\n"
         "  _describe 'atoll' entries || _files\n"
         "}\n"
         "if [ \"$funcstack[1]\" = \"_atoll\" ]; then _atoll \"$@\"; else compdef _atoll atoll; fi\n";
}

std::string Fish(const std::vector<CommandWords>& commands) {
  std::string out =
      "# fish completion for atoll: atoll completion fish | source\n"
      "function __atoll_path\n"
      "  set -l path atoll\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$path $word\"\n"
      "      case";
  for (const CommandWords& c : commands) {
    if (c.path != "atoll") out += " " + Quoted(c.path);
  }
  out +=
      "\n        set path \"$path $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$path\" = \"$argv[1]\"\n"
      "end\n";
  for (const CommandWords& c : commands) {
    for (const auto& [word, help] : c.described) {
      const std::string condition = "-n " + Quoted("__atoll_path '" + c.path + "'");
      const bool option = word.compare(0, 2, "--") == 0;
      absl::StrAppend(&out, "complete -c atoll ", condition, option ? " -l " + word.substr(2) : " -a " + word);
      for (const Choice& choice : c.choices) {
        if (choice.option != word) continue;
        const std::string letter = choice.letter.empty() ? "" : " -s " + choice.letter.substr(1);
        absl::StrAppend(&out, letter, " -x -a ", Quoted(Join(choice.values)));
      }
      absl::StrAppend(&out, " -d ", Quoted(help), "\n");
    }
  }
  return out;
}

}  // namespace

std::string CompletionScript(const CLI::App& root, const std::string& shell) {
  std::vector<CommandWords> commands;
  Walk(root, root, "atoll", commands);
  if (shell == "bash") return Bash(commands);
  if (shell == "zsh") return Zsh(commands);
  if (shell == "fish") return Fish(commands);
  return "";
}

namespace {

// Returns "; did you mean 'x'?" with the nearest of `names`, the commands of `at`. At the root it may also name a
// command of a group: 'job wait' for 'wait'. Empty if no command is near.
std::string Suggestion(const CLI::App& at, const CLI::App& root, const std::string& word,
                       const std::vector<std::string>& names) {
  std::string near = DidYouMean(word, names);
  if (&at != &root) return near;
  std::vector<std::string> members, full;
  for (const CLI::App* group : root.get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::App* child : group->get_subcommands([](const CLI::App*) { return true; })) {
      members.push_back(child->get_name());
      full.push_back(group->get_name() + " " + child->get_name());
    }
  }
  const bool exact = Has(members, word);
  if (!exact && !near.empty()) return near;
  const std::string member = exact ? word : NearestWord(word, members);
  const auto found = std::find(members.begin(), members.end(), member);
  if (member.empty() || found == members.end()) return "";
  return "; did you mean '" + full[static_cast<size_t>(found - members.begin())] + "'?";
}

}  // namespace

std::string UnknownWord(const CLI::App& root, const std::vector<std::string>& arguments, std::string& at) {
  const CLI::App* app = &root;
  at = root.get_name();
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    const auto children = app->get_subcommands([](const CLI::App*) { return true; });
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      const CLI::Option* option = app->get_option_no_throw(name);
      if (option == nullptr) option = root.get_option_no_throw(name);
      if (option == nullptr) {
        CommandWords known;
        AddOptions(*app, known);
        if (app != &root) AddOptions(root, known);
        return "unknown option " + name + DidYouMean(name, known.words);
      }
      if (name.size() == word.size() && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    if (children.empty()) return "";  // an argument of the command itself
    const CLI::App* next = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* child : children) {
      if (child->check_name(word)) next = child;
      if (!IsHidden(*child)) names.push_back(child->get_name());
    }
    if (next == nullptr) return "unknown command '" + word.substr(0, 32) + "'" + Suggestion(*app, root, word, names);
    app = next;
    absl::StrAppend(&at, " ", app->get_name());
  }
  return "";
}

}  // namespace atl::cli
