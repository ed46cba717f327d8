// SPDX-License-Identifier: Apache-2.0
#include "common/config/option_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/files.h"
#include "common/config/nearest_word.h"
#include "common/config/quantities.h"

namespace atl {
namespace {

constexpr size_t kMaxConfigFileBytes = size_t{1} << 20;
constexpr int kUsageExit = 2;

std::string EnvironmentName(const std::string& prefix, const std::string& name) {
  std::string out = prefix + absl::AsciiStrToUpper(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// Kubernetes sets these in every pod for each Service of its namespace ("service links", named as Docker named them):
// ATOLL_COORDINATOR_SERVICE_HOST, _PORT=tcp://..., _PORT_7070_TCP_ADDR and so on for one called atoll-coordinator.
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

// One column of help after another, wrapped at 78 characters.
void AppendHelpLine(const std::string& left, const std::string& help, std::string& out) {
  constexpr size_t kIndent = 30, kWidth = 78;
  std::string line = "  " + left;
  if (line.size() + 2 > kIndent) {
    out += line + "\n";
    line.clear();
  }
  line.resize(kIndent, ' ');
  std::istringstream words(help);
  bool first = true;
  for (std::string word; words >> word; first = false) {
    if (!first && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line.assign(kIndent, ' ');
      first = true;
    }
    line += (first ? "" : " ") + word;
  }
  out += line + "\n";
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(*MakePosixFiles(), path, kMaxConfigFileBytes);
  if (text.ok()) return text;
  if (absl::IsResourceExhausted(text.status())) {
    return absl::InvalidArgumentError(absl::StrCat("the configuration file '", path, "' is larger than 1 MiB"));
  }
  return absl::NotFoundError(absl::StrCat("cannot read the configuration file '", path,
                                          "'; name a file that is there and that this user may read (",
                                          text.status().message(), ")"));
}

}  // namespace

OptionTable::OptionTable(std::string program, std::string description, std::string prefix)
    : program_(std::move(program)), description_(std::move(description)), prefix_(std::move(prefix)) {}

void OptionTable::Add(Entry entry) { entries_.push_back(std::move(entry)); }

void OptionTable::Text(const std::string& name, std::string& value, const std::string& placeholder,
                       const std::string& help) {
  Add({.name = name,
       .placeholder = placeholder,
       .help = help,
       .shown = value,
       .set = [&value](const std::string& text) {
         if (text.size() > limits::kTextBytes) return absl::InvalidArgumentError("is longer than 4096 bytes");
         value = text;
         return absl::OkStatus();
       }});
}

void OptionTable::Number(const std::string& name, uint32_t& value, uint32_t high, const std::string& help) {
  Add({.name = name,
       .placeholder = "N",
       .help = help,
       .shown = absl::StrCat(value),
       .set = [&value, high](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(const uint64_t n, ParseUnsigned(text, high));
         value = static_cast<uint32_t>(n);
         return absl::OkStatus();
       }});
}

void OptionTable::Number64(const std::string& name, uint64_t& value, const std::string& help) {
  Add({.name = name,
       .placeholder = "N",
       .help = help,
       .shown = absl::StrCat(value),
       .set = [&value](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(value, ParseUnsigned(text, UINT64_MAX));
         return absl::OkStatus();
       }});
}

void OptionTable::Real(const std::string& name, double& value, double low, double high, const std::string& help) {
  Add({.name = name,
       .placeholder = "X",
       .help = help,
       .shown = absl::StrCat(value),
       .set = [&value, low, high](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(const double x, ParseReal(text));
         if (x < low || x > high) {
           return absl::InvalidArgumentError(absl::StrCat("is ", x, "; it must be ", low, " to ", high));
         }
         value = x;
         return absl::OkStatus();
       }});
}

void OptionTable::Time(const std::string& name, Duration& value, const std::string& help) {
  Add({.name = name,
       .placeholder = "TIME",
       .help = help,
       .shown = FormatDuration(value),
       .set = [&value](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(value, ParseDuration(text));
         return absl::OkStatus();
       }});
}

void OptionTable::Size(const std::string& name, uint64_t& value, const std::string& help) {
  Add({.name = name,
       .placeholder = "SIZE",
       .help = help,
       .shown = absl::StrCat(value),
       .set = [&value](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(value, ParseBytes(text));
         return absl::OkStatus();
       }});
}

void OptionTable::Rate(const std::string& name, uint64_t& value, const std::string& help) {
  Add({.name = name,
       .placeholder = "RATE",
       .help = help,
       .shown = absl::StrCat(value),
       .set = [&value](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(value, ParseRate(text));
         return absl::OkStatus();
       }});
}

void OptionTable::Switch(const std::string& name, bool& value, bool meaning, const std::string& help) {
  Add({.name = name,
       .placeholder = "",
       .help = help,
       .shown = value == meaning ? "true" : "false",
       .is_switch = true,
       .set = [&value, meaning](const std::string& text) {
         ATOLL_ASSIGN_OR_RETURN(const bool on, ParseBool(text));
         value = on ? meaning : !meaning;
         return absl::OkStatus();
       }});
}

void OptionTable::Choice(const std::string& name, const std::vector<std::string>& choices, size_t chosen,
                         std::function<void(size_t)> set, const std::string& help) {
  Add({.name = name,
       .placeholder = absl::StrJoin(choices, "|"),
       .help = help,
       .shown = choices[chosen],
       .set = [choices, set = std::move(set)](const std::string& text) {
         const auto found = std::find(choices.begin(), choices.end(), text);
         if (found == choices.end()) {
           return absl::InvalidArgumentError(absl::StrCat("is '", text.substr(0, 64), "'; it must be one of ",
                                                          absl::StrJoin(choices, ", "), DidYouMean(text, choices)));
         }
         set(static_cast<size_t>(found - choices.begin()));
         return absl::OkStatus();
       }});
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

void OptionTable::Apply(Entry& entry, const std::string& value, const std::string& source,
                        std::vector<std::string>& faults) {
  if (const absl::Status status = entry.set(value); !status.ok()) {
    faults.push_back(absl::StrCat("--", entry.name, " (", source, ") ", status.message()));
    return;
  }
  entry.shown = value;
  entry.source = source;
}

// Forms: --name value, --name=value, --switch, --switch=false.
void OptionTable::ReadFlags(const std::vector<std::string>& arguments, std::map<std::string, std::string>& flags,
                            std::vector<std::string>& faults) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() < 3 || argument.compare(0, 2, "--") != 0) {
      faults.push_back(absl::StrCat("unexpected argument '", argument.substr(0, 64), "'"));
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Entry* entry = Find(name);
    if (entry == nullptr && !(name == "config" && !prefix_.empty())) {
      std::vector<std::string> known = Names();
      known.insert(known.end(), {"help", "version"});
      const std::string nearest = NearestWord(name, known);
      faults.push_back(absl::StrCat("unknown option --", name.substr(0, 64),
                                    nearest.empty() ? "" : "; did you mean --" + nearest + "?"));
      if (equals == std::string::npos && i + 1 < arguments.size() && arguments[i + 1].compare(0, 2, "--") != 0) ++i;
      continue;
    }
    std::string value = "true";
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (entry == nullptr || !entry->is_switch) {
      if (i + 1 == arguments.size()) {
        faults.push_back(absl::StrCat("--", name, " needs a value"));
        continue;
      }
      value = arguments[++i];
    }
    if (!flags.emplace(name, value).second) faults.push_back(absl::StrCat("--", name, " is given twice"));
  }
}

void OptionTable::ApplyEnvironment(const Environment& environment, std::vector<std::string>& faults) {
  std::vector<std::string> known = {EnvironmentName(prefix_, "config")};
  for (Entry& entry : entries_) {
    const std::string name = EnvironmentName(prefix_, entry.name);
    known.push_back(name);
    const auto found = environment.find(name);
    if (found != environment.end()) Apply(entry, found->second, name, faults);
  }
  for (const auto& [name, value] : environment) {
    if (name.compare(0, prefix_.size(), prefix_) != 0) continue;
    if (std::find(known.begin(), known.end(), name) == known.end() && !IsServiceLink(name, value)) {
      faults.push_back(absl::StrCat("unknown environment variable ", name, DidYouMean(name, known)));
    }
  }
}

void OptionTable::ApplyFile(const std::string& path, std::vector<std::string>& faults) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path);
  if (!text.ok()) {
    faults.emplace_back(text.status().message());
    return;
  }
  try {
    const YAML::Node root = YAML::Load(*text);
    if (root.IsNull()) return;
    if (!root.IsMap()) {
      faults.push_back(path + ": must be a list of 'option: value' lines");
      return;
    }
    std::set<std::string> seen;
    for (const auto& pair : root) {
      const std::string where = absl::StrCat(path, ":", pair.first.Mark().line + 1);
      std::string name = pair.first.IsScalar() ? pair.first.Scalar() : "";
      std::replace(name.begin(), name.end(), '_', '-');
      Entry* entry = Find(name);
      if (entry == nullptr) {
        faults.push_back(absl::StrCat(where, ": unknown option '", name.substr(0, 64), "'", DidYouMean(name, Names())));
      } else if (!seen.insert(name).second) {
        faults.push_back(absl::StrCat(where, ": '", name, "' is given twice"));
      } else if (!pair.second.IsScalar()) {
        faults.push_back(absl::StrCat(where, ": '", name, "' must be a single value"));
      } else {
        Apply(*entry, pair.second.Scalar(), where, faults);
      }
    }
  } catch (const YAML::Exception& e) {
    faults.push_back(absl::StrCat(path, ":", e.mark.line + 1, ": ", e.msg));
  }
}

OptionTable::Outcome OptionTable::Parse(const std::vector<std::string>& arguments, const Environment& environment,
                                        const std::string& version) {
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h")
      return {.proceed = false, .text = Help(), .exit_code = 0, .resolved = {}};
    if (argument == "--version") {
      return {.proceed = false, .text = absl::StrCat(program_, " ", version, "\n"), .exit_code = 0, .resolved = {}};
    }
  }
  std::vector<std::string> faults;
  std::map<std::string, std::string> flags;
  ReadFlags(arguments, flags, faults);
  if (!prefix_.empty()) {
    std::string file;
    if (const auto found = environment.find(EnvironmentName(prefix_, "config")); found != environment.end()) {
      file = found->second;
    }
    if (const auto found = flags.find("config"); found != flags.end()) file = found->second;
    flags.erase("config");
    if (!file.empty()) (file_table_ != nullptr ? *file_table_ : *this).ApplyFile(file, faults);
    ApplyEnvironment(environment, faults);
  }
  for (const auto& [name, value] : flags) Apply(*Find(name), value, "flag", faults);
  Outcome outcome;
  for (const std::string& fault : faults) absl::StrAppend(&outcome.text, program_, ": ", fault, "\n");
  if (!faults.empty()) {
    absl::StrAppend(&outcome.text, "Run '", program_, " --help' for the options.\n");
    outcome.exit_code = kUsageExit;
    return outcome;
  }
  outcome.proceed = true;
  for (const Entry& e : entries_) {
    outcome.resolved.push_back(absl::StrCat(e.name, " = ", e.shown.empty() ? "(none)" : e.shown, " (", e.source, ")"));
  }
  return outcome;
}

std::string OptionTable::Help() const {
  std::string out = absl::StrCat(description_, "\n\nUsage: ", program_, " [OPTIONS]\n\nOptions:\n");
  for (const Entry& e : entries_) {
    const std::string left = "--" + e.name + (e.is_switch ? "" : " " + e.placeholder);
    AppendHelpLine(left, e.help + (e.is_switch || e.shown.empty() ? "" : " [" + e.shown + "]"), out);
  }
  if (!prefix_.empty()) AppendHelpLine("--config FILE", "YAML file of 'option: value' lines", out);
  AppendHelpLine("--version", "print the version and exit", out);
  AppendHelpLine("--help", "print this and exit", out);
  if (!prefix_.empty() && !entries_.empty()) {
    const std::string& name = entries_.front().name;
    absl::StrAppend(&out, "\nEach option can also be set in the environment, --", name, " as ",
                    EnvironmentName(prefix_, name),
                    "\nand so on. A flag wins over the environment, the environment over the file.\n");
  }
  return out;
}

}  // namespace atl
