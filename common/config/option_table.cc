// SPDX-License-Identifier: Apache-2.0
#include "common/config/option_table.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/files.h"
#include "common/base/utf8.h"
#include "common/config/nearest_word.h"
#include "common/config/quantities.h"
#include "common/config/subcommand.h"

namespace atl {
namespace {

constexpr size_t kMaxConfigFileBytes = size_t{1} << 20;
constexpr int kUsageExit = 2;

std::string EnvironmentName(const std::string& prefix, const std::string& name) {
  std::string out = prefix + absl::AsciiStrToUpper(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// Kubernetes sets these "service links" in every pod for each Service of its namespace: for one
// named atoll-coordinator, ATOLL_COORDINATOR_SERVICE_HOST, _PORT=tcp://..., _PORT_7070_TCP_ADDR and
// others.
bool IsServiceLink(absl::string_view name, absl::string_view value) {
  if (absl::EndsWith(name, "_SERVICE_HOST") || absl::EndsWith(name, "_SERVICE_PORT")) return true;
  if (absl::StrContains(name, "_SERVICE_PORT_") && !absl::EndsWith(name, "_")) return true;
  if (absl::EndsWith(name, "_PORT") && (absl::StartsWith(value, "tcp://") || absl::StartsWith(value, "udp://")))
    return true;
  for (const char* part : {"_ADDR", "_PORT", "_PROTO"}) {
    if (absl::ConsumeSuffix(&name, part)) break;
  }
  if (!absl::ConsumeSuffix(&name, "_TCP") && !absl::ConsumeSuffix(&name, "_UDP")) return false;
  const size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  return digits > 0 && absl::EndsWith(name.substr(0, name.size() - digits), "_PORT_");
}

// Breaks a help text into lines that fit the second column; CLI11 indents the lines.
std::string Wrapped(const std::string& text) {
  constexpr size_t kWidth = 48;
  std::string out;
  size_t line = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool breaks = line + 1 + word.size() > kWidth;
    if (!out.empty()) out += breaks ? '\n' : ' ';
    absl::StrAppend(&out, word);
    line = breaks ? word.size() : line + 1 + word.size();
  }
  return out;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(*MakePosixFiles(), path, kMaxConfigFileBytes);
  if (text.ok()) return text;
  if (absl::IsResourceExhausted(text.status())) {
    return absl::InvalidArgumentError(absl::StrCat("the configuration file '", path, "' is larger than 1 MiB"));
  }
  return absl::NotFoundError(absl::StrCat("cannot read the configuration file '", path,
                                          "'; name an existing file that this user may read (", text.status().message(),
                                          ")"));
}

}  // namespace

OptionTable::OptionTable(const std::string& program, const std::string& description, std::string prefix)
    : flags_(std::make_unique<CLI::App>(description + "\n", program)), prefix_(std::move(prefix)) {
  flags_->allow_extras();
  flags_->set_help_flag("-h,--help", "print this and exit");
  if (prefix_.empty()) return;
  config_ = flags_->add_option("--config", CLI::callback_t(), "YAML file of 'option: value' lines");
  config_->type_name("FILE")->take_all();
  flags_->footer(
      absl::StrCat("Each option can also be set by an environment variable: ", EnvironmentName(prefix_, "config"),
                   " for --config.\nA flag takes precedence over the environment, the environment over the file."));
}

OptionTable::OptionTable(OptionTable&&) noexcept = default;
OptionTable::~OptionTable() = default;

// An option without a placeholder is a switch.
void OptionTable::Add(const std::string& name, const std::string& placeholder, const std::string& shown,
                      const std::string& help, Set set) {
  const bool is_switch = placeholder.empty();
  const std::string about = Wrapped(help + (is_switch || shown.empty() ? "" : " [" + shown + "]"));
  CLI::Option* option = is_switch ? flags_->add_flag("--" + name, about)
                                  : flags_->add_option("--" + name, CLI::callback_t(), about)->type_name(placeholder);
  entries_.push_back({.name = name, .shown = shown, .option = option->take_all(), .set = std::move(set)});
}

template <typename Value, typename Read>
void OptionTable::AddValue(const std::string& name, Value& value, const std::string& placeholder,
                           const std::string& shown, const std::string& help, Read read) {
  Add(name, placeholder, shown, help, [&value, read](const std::string& text) {
    ATOLL_ASSIGN_OR_RETURN(const auto parsed, read(text));
    value = static_cast<Value>(parsed);
    return absl::OkStatus();
  });
}

void OptionTable::Text(const std::string& name, std::string& value, const std::string& placeholder,
                       const std::string& help, const std::string& missing) {
  AddValue(name, value, placeholder, value, help, [](const std::string& text) -> absl::StatusOr<std::string> {
    if (text.size() > limits::kTextBytes) return absl::InvalidArgumentError("is longer than 4096 bytes");
    return text;
  });
  if (!missing.empty()) required_.emplace_back(&value, absl::StrCat("--", name, " is missing; ", missing));
}

void OptionTable::Number(const std::string& name, uint32_t& value, uint32_t high, const std::string& help) {
  AddValue(name, value, "N", absl::StrCat(value), help,
           [high](const std::string& text) { return ParseUnsigned(text, high); });
}

void OptionTable::Number64(const std::string& name, uint64_t& value, const std::string& help) {
  AddValue(name, value, "N", absl::StrCat(value), help,
           [](const std::string& text) { return ParseUnsigned(text, UINT64_MAX); });
}

void OptionTable::Real(const std::string& name, double& value, double low, double high, const std::string& help) {
  AddValue(name, value, "X", absl::StrCat(value), help, [low, high](const std::string& text) -> absl::StatusOr<double> {
    ATOLL_ASSIGN_OR_RETURN(const double x, ParseReal(text));
    if (x >= low && x <= high) return x;
    return absl::InvalidArgumentError(absl::StrCat("is ", x, "; it must be ", low, " to ", high));
  });
}

void OptionTable::Time(const std::string& name, Duration& value, const std::string& help) {
  AddValue(name, value, "TIME", FormatDuration(value), help, &ParseDuration);
}

void OptionTable::Size(const std::string& name, uint64_t& value, const std::string& help) {
  AddValue(name, value, "SIZE", absl::StrCat(value), help, &ParseBytes);
}

void OptionTable::Rate(const std::string& name, uint64_t& value, const std::string& help) {
  AddValue(name, value, "RATE", absl::StrCat(value), help, &ParseRate);
}

void OptionTable::Switch(const std::string& name, bool& value, bool meaning, const std::string& help) {
  Add(name, "", value == meaning ? "true" : "false", help, [&value, meaning](const std::string& text) {
    ATOLL_ASSIGN_OR_RETURN(const bool on, ParseBool(text));
    value = on == meaning;
    return absl::OkStatus();
  });
}

void OptionTable::AddChoice(const std::string& name, const std::vector<std::string>& choices, size_t chosen,
                            std::function<void(size_t)> set, const std::string& help) {
  Add(name, absl::StrJoin(choices, "|"), choices[chosen], help,
      [choices, set = std::move(set)](const std::string& text) {
        const auto found = std::find(choices.begin(), choices.end(), text);
        if (found == choices.end()) {
          return absl::InvalidArgumentError(absl::StrCat("is '", text.substr(0, 64), "'; it must be one of ",
                                                         absl::StrJoin(choices, ", "), DidYouMean(text, choices)));
        }
        set(static_cast<size_t>(found - choices.begin()));
        return absl::OkStatus();
      });
}

OptionTable::Entry* OptionTable::Find(const std::string& name) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionTable::Names() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_) names.push_back(e.name);
  return names;
}

void OptionTable::Apply(Entry& entry, const std::string& value, const std::string& source) {
  if (const absl::Status status = entry.set(value); !status.ok()) {
    faults_.push_back(absl::StrCat("--", entry.name, " (", source, ") ", status.message()));
    return;
  }
  entry.shown = value;
  entry.source = source;
}

// CLI11 stops at the first error, so it only splits the command line here: this function reports unknown options and
// arguments, and Parse applies the values.
void OptionTable::ReadFlags(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;  // in reverse order
  for (auto word = arguments.rbegin(); word != arguments.rend(); ++word) {
    const bool is_emptied = absl::StartsWith(*word, "--") && word->find('=') == word->size() - 1;
    if (is_emptied) words.emplace_back();  // otherwise "--name=" would consume the next word
    words.push_back(is_emptied ? word->substr(0, word->size() - 1) : *word);
  }
  try {
    flags_->parse(words);
  } catch (const CLI::ArgumentMismatch&) {  // the last flag has no value
    faults_.push_back(absl::StrCat(arguments.back(), " needs a value"));
  }
  std::vector<std::string> known = Names();
  known.insert(known.end(), {"help", "version"});
  bool may_be_value = false;
  for (const std::string& word : flags_->remaining()) {
    const bool is_option = absl::StartsWith(word, "--") && word.size() > 2;
    const std::string name = is_option ? word.substr(2, word.find('=') - 2) : "";
    if (is_option) {
      const std::string nearest = NearestWord(name, known);
      faults_.push_back(absl::StrCat("unknown option --", name.substr(0, 64),
                                     nearest.empty() ? "" : "; did you mean --" + nearest + "?"));
    } else if (!may_be_value) {
      faults_.push_back(absl::StrCat("unexpected argument '", word.substr(0, kShownBytes), "'"));
    }
    may_be_value = is_option && word.find('=') == std::string::npos;
  }
}

void OptionTable::ApplyEnvironment(const Environment& environment) {
  std::vector<std::string> known = {EnvironmentName(prefix_, "config")};
  for (Entry& entry : entries_) {
    const std::string name = EnvironmentName(prefix_, entry.name);
    known.push_back(name);
    const auto found = environment.find(name);
    if (found != environment.end()) Apply(entry, found->second, name);
  }
  for (const auto& [name, value] : environment) {
    if (name.compare(0, prefix_.size(), prefix_) != 0) continue;
    if (std::find(known.begin(), known.end(), name) == known.end() && !IsServiceLink(name, value)) {
      faults_.push_back(absl::StrCat("unknown environment variable ", name, DidYouMean(name, known)));
    }
  }
}

void OptionTable::ApplyFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path);
  if (!text.ok()) {
    faults_.emplace_back(text.status().message());
    return;
  }
  try {
    const YAML::Node root = YAML::Load(*text);
    if (!root.IsMap() && !root.IsNull()) faults_.push_back(path + ": must be a list of 'option: value' lines");
    if (!root.IsMap()) return;
    OptionTable& table = file_table_ != nullptr ? *file_table_ : *this;
    std::set<std::string> seen;
    for (const auto& pair : root) {
      const std::string where = absl::StrCat(path, ":", pair.first.Mark().line + 1);
      std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "";
      std::replace(name.begin(), name.end(), '_', '-');
      Entry* entry = table.Find(name);
      if (entry == nullptr) {
        faults_.push_back(
            absl::StrCat(where, ": unknown option '", name.substr(0, 64), "'", DidYouMean(name, table.Names())));
      } else if (!seen.insert(name).second) {
        faults_.push_back(absl::StrCat(where, ": '", name, "' is given twice"));
      } else if (!pair.second.IsScalar()) {
        faults_.push_back(absl::StrCat(where, ": '", name, "' must be a single value"));
      } else {
        Apply(*entry, pair.second.Scalar(), where);
      }
    }
  } catch (const YAML::Exception& e) {
    faults_.push_back(absl::StrCat(path, ":", e.mark.line + 1, ": ", e.msg));
  }
}

bool OptionTable::Parse(const std::vector<std::string>& arguments, const Environment& environment,
                        const std::string& version, CommandLine& out,
                        const std::function<std::vector<std::string>()>& check) {
  const std::string program = flags_->get_name();
  flags_->set_version_flag("--version", absl::StrCat(program, " ", version), "print the version and exit");
  try {
    ReadFlags(arguments);
  } catch (const CLI::CallForHelp&) {
    out.text = flags_->help();
    return false;
  } catch (const CLI::CallForVersion& version_line) {
    out.text = absl::StrCat(version_line.what(), "\n");
    return false;
  }
  if (config_ != nullptr) {
    const auto found = environment.find(EnvironmentName(prefix_, "config"));
    std::string file = found == environment.end() ? "" : found->second;
    if (!config_->empty()) file = config_->results().back();
    if (config_->count() > 1) faults_.emplace_back("--config is given twice");
    if (!file.empty()) ApplyFile(file);
    ApplyEnvironment(environment);
  }
  for (Entry& entry : entries_) {
    if (entry.option->count() > 1) faults_.push_back(absl::StrCat("--", entry.name, " is given twice"));
    if (!entry.option->empty()) Apply(entry, entry.option->results().front(), "flag");
  }
  if (faults_.empty()) {
    for (const auto& [text, fault] : required_) {
      if (text->empty()) faults_.push_back(fault);
    }
    for (std::string& fault : check ? check() : std::vector<std::string>()) faults_.push_back(std::move(fault));
  }
  for (const Entry& e : entries_) {
    out.resolved.push_back(absl::StrCat(e.name, " = ", e.shown.empty() ? "(none)" : e.shown, " (", e.source, ")"));
  }
  if (!faults_.empty()) Refuse(program, faults_, out);
  return faults_.empty();
}

void Refuse(const std::string& program, const std::vector<std::string>& faults, CommandLine& out) {
  for (const std::string& fault : faults) absl::StrAppend(&out.text, program, ": ", Printable(fault), "\n");
  absl::StrAppend(&out.text, "Run '", program, " --help' for the options.\n");
  out.exit_code = kUsageExit;
}

}  // namespace atl
