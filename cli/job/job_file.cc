// SPDX-License-Identifier: Apache-2.0
#include "cli/job/job_file.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/job/override.h"
#include "common/base/utf8.h"
#include "common/config/nearest_word.h"
#include "common/plan/limits.h"
#include "common/wire/job_spec_proto.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/parser.h"

namespace atl::cli {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kApiVersion[] = "atoll/v1";
constexpr char kKind[] = "TrainingJob";
constexpr char kSpec[] = "spec";

void ReadLabels(YamlReader& reader, const YAML::Node& node, JobFile& file) {
  for (const auto& [key, value] : reader.Pairs(node, "metadata.labels")) {
    file.labels[key] = reader.Scalar(value, "metadata.labels." + key);
  }
}

void ReadMetadata(YamlReader& reader, const YAML::Node& node, JobFile& file) {
  for (const auto& [key, value] : reader.Pairs(node, "metadata")) {
    if (key == "name") {
      file.name = reader.Scalar(value, "metadata.name");
    } else if (key == "labels") {
      ReadLabels(reader, value, file);
    } else {
      reader.AddFault(value, "metadata." + key, "is not a known key" + DidYouMean(key, {"name", "labels"}));
    }
  }
}

// Requires one fixed text in the head.
void RequireText(YamlReader& reader, const YAML::Node& node, const std::string& key, const std::string& wanted) {
  const std::string text = reader.Scalar(node, key);
  if (node.IsScalar() && text != wanted) {
    reader.AddFault(node, key, absl::StrCat("is '", text.substr(0, 64), "'; it must be ", wanted));
  }
}

// Positions of spec keys omit "spec.", as everywhere else.
void ReadEnvelope(YamlReader& reader, const YAML::Node& root, JobFile& file, std::vector<Fault>& faults) {
  const std::vector<std::string> known = {"apiVersion", "kind", "metadata", "spec"};
  std::vector<std::string> seen;
  for (const auto& [key, value] : reader.Pairs(root, "")) {
    seen.push_back(key);
    if (key == "apiVersion") {
      RequireText(reader, value, key, kApiVersion);
    } else if (key == "kind") {
      RequireText(reader, value, key, kKind);
    } else if (key == "metadata") {
      ReadMetadata(reader, value, file);
    } else if (key == "spec") {
      reader.ReadMessage(value, "", file.spec);
    } else {
      faults.push_back({file.positions[key], key, "is not a known key" + DidYouMean(key, known)});
    }
  }
  const auto require = [&](const std::string& key, const std::string& hint) {
    if (std::find(seen.begin(), seen.end(), key) == seen.end())
      faults.push_back({file.source, key, "is missing; " + hint});
  };
  require("apiVersion", absl::StrCat("write apiVersion: ", kApiVersion));
  require("kind", absl::StrCat("write kind: ", kKind));
  require("spec", "it contains model, data and stop");
}

// Fault for a path in the metadata that is neither the name nor a label.
Fault WrongMetadata(const Override& o, const std::string& metadata) {
  const std::string rest = o.path.size() > metadata.size() ? o.path.substr(metadata.size()) : "";
  const std::string key = rest.substr(0, rest.find('.'));
  if (key.empty() || key == "name" || key == "labels")
    return {o.place, o.path, "cannot be set; write metadata.name=VALUE or metadata.labels.KEY=VALUE"};
  return {o.place, "metadata",
          absl::StrCat("has no key '", key, "'", OrWhatThereIs(key, "metadata", {"name", "labels"}))};
}

void ApplyOverride(const std::string& text, JobFile& file, std::vector<Fault>& faults) {
  const std::string metadata = "metadata.", label = "metadata.labels.";
  Override o;
  if (!SplitOverride(text, o, faults)) return;
  if (o.path == "metadata.name") {
    file.name = o.value;
    file.positions[o.path] = o.place;
  } else if (o.path.compare(0, label.size(), label) == 0 && o.path.size() > label.size()) {
    file.labels[o.path.substr(label.size())] = o.value;
    file.positions[o.path] = o.place;
  } else if (o.path == "metadata" || o.path.compare(0, metadata.size(), metadata) == 0) {
    faults.push_back(WrongMetadata(o, metadata));
  } else {
    ApplyToSpec(o, file.spec, file.positions, faults);
  }
}

// Reason why an update may not name a path: the path is invalid, or the field cannot change.
std::optional<Fault> RefusedUpdate(const Override& o) {
  const std::string problem = "cannot be changed in a submitted job; ";
  if (o.path.rfind("metadata.labels", 0) == 0 || o.path.rfind("labels", 0) == 0)
    return Fault{o.place, o.path, "is changed with --set-label KEY=VALUE and --remove-label KEY"};
  if (o.path.rfind("metadata", 0) == 0) return Fault{o.place, o.path, problem + "submit the job under another name"};
  v1::JobSpec unused;
  Target target;
  std::string of;
  std::string missing = FindTarget(unused, o.path, target, of);
  if (target.field == nullptr && !missing.empty()) return Fault{o.place, of, std::move(missing)};
  if (IsMutableField(o.path)) return std::nullopt;
  const std::vector<std::string>& can = MutableFields();
  return Fault{o.place, o.path,
               absl::StrCat(problem, absl::StrJoin(can.begin(), can.end() - 1, ", "), " and ", can.back(), " can")};
}

JobSpec Domain(const JobFile& file, std::vector<Violation>& violations) {
  JobSpec spec;
  spec.name = file.name;
  spec.labels = file.labels;
  violations = JobSpecFromProto(file.spec, true, spec);
  return spec;
}

// Returns all violations, one for each field.
std::vector<Violation> ViolationsOf(const JobFile& file) {
  std::vector<Violation> violations;
  const JobSpec spec = Domain(file, violations);
  for (Violation& v : ValidateJobSpec(spec, true)) {
    const bool known =
        std::any_of(violations.begin(), violations.end(), [&](const Violation& w) { return w.field == v.field; });
    if (!known) violations.push_back(std::move(v));
  }
  return violations;
}

// Returns the rule for the number at `path`, from ValidateJobSpec's message about a much too large
// value: "1 to 1000000" or "above 0 and at most 1"; empty without such a message.
std::string RuleOf(const std::string& path) {
  v1::JobSpec probe;
  Target target;
  std::string of;
  if (!FindTarget(probe, path, target, of).empty() || target.field->is_repeated()) return "";
  const auto* reflection = target.message->GetReflection();
  switch (target.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: reflection->SetUInt32(target.message, target.field, UINT32_MAX); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection->SetUInt64(target.message, target.field, UINT64_MAX); break;
    case FieldDescriptor::CPPTYPE_INT32: reflection->SetInt32(target.message, target.field, INT32_MAX); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: reflection->SetDouble(target.message, target.field, 1e300); break;
    default: return "";
  }
  JobSpec spec;
  std::vector<Violation> violations = JobSpecFromProto(probe, true, spec);
  if (violations.empty()) violations = ValidateJobSpec(spec, true);
  const std::string must = "; it must be ";
  for (const Violation& v : violations) {
    const size_t at = v.problem.find(must);
    if (v.field != path || at == std::string::npos) continue;
    const std::string rule = v.problem.substr(at + must.size());
    const bool range = rule.find_first_not_of("-+.e0123456789 to") == std::string::npos;
    if (range) return "from " + rule;
    if (rule.rfind("above ", 0) == 0 || rule.rfind("at least ", 0) == 0)
      return rule.find_first_not_of("-+.e0123456789 abdlmnostvw") == std::string::npos ? rule : "";
  }
  return "";
}

// YamlReader knows only the type of a number. Replaces its messages about wrong numbers by the rule for the field, if
// there is one.
void NameRules(std::vector<Fault>& faults) {
  for (Fault& fault : faults) {
    size_t at = fault.problem.find("it must be a whole number from ");
    size_t keep = sizeof("it must be a whole number ") - 1;
    if (at == std::string::npos) {
      const std::string number = "it must be a number";
      at = fault.problem.size() < number.size() ? 0 : fault.problem.size() - number.size();
      if (fault.problem.compare(at, std::string::npos, number) != 0) continue;
      fault.problem += " ";
      keep = number.size() + 1;
    }
    const std::string rule = RuleOf(fault.path);
    if (!rule.empty()) fault.problem.replace(at + keep, std::string::npos, rule);
    if (fault.problem.back() == ' ') fault.problem.pop_back();
  }
}

// "sync" covers "sync.mix" and "sync" itself; "data.corpora" covers "data.corpora[0].weight".
bool Covers(const std::string& outer, const std::string& inner) {
  return inner.rfind(outer, 0) == 0 &&
         (inner.size() == outer.size() || inner[outer.size()] == '.' || inner[outer.size()] == '[');
}

// Pairs of a field and a key on which a rule about the field depends without naming it.
constexpr const char* kSilent[][2] = {{"inner_optimizer.schedule", "stop"},
                                      {"inner_optimizer.schedule", "workers"},
                                      {"inner_optimizer.schedule", "batch"},
                                      {"inner_optimizer.schedule", "data.sequence_length"},
                                      {"outer_optimizer.learning_rate", "outer_optimizer"},
                                      {"outer_optimizer.learning_rate", "workers"},
                                      {"evaluation", "data.sequence_length"},
                                      {"sync.layers_per_fragment", "model.layers"},
                                      {"sync.layers_per_fragment", "sync.fragments"},
                                      {"model.heads", "model.hidden_size"},
                                      {"model.heads", "model.head_dim"},
                                      {"experiment.pool", "workers"}};

// Returns the keys that a violation is about: its field, those in its text, and those that its rule
// depends on without naming them.
std::vector<std::string> KeysOf(const Violation& v) {
  std::vector<std::string> keys = {v.field};
  const char* const letters = "abcdefghijklmnopqrstuvwxyz0123456789_.[]";
  for (size_t at = 0; (at = v.problem.find_first_of(letters, at)) != std::string::npos;) {
    const size_t end = std::min(v.problem.find_first_not_of(letters, at), v.problem.size());
    std::string word = v.problem.substr(at, end - at);
    if (word.find('.') != std::string::npos && !absl::ascii_isdigit(static_cast<unsigned char>(word[0])))
      keys.push_back(std::move(word));
    at = end;
  }
  for (const auto& [field, key] : kSilent) {
    if (Covers(field, v.field)) keys.emplace_back(key);
  }
  return keys;
}

// True when fixing `fault` may also fix a violation that is about `key`.
bool LeavesUnknown(const Fault& fault, const JobFile& file, const std::string& key) {
  if (Covers(fault.path, key) || Covers(key, fault.path)) return true;
  if (fault.problem.rfind("is not a known key", 0) != 0) return false;
  // The unknown key may be a misspelling of any missing key of its section.
  const size_t dot = fault.path.rfind('.');
  const bool same_section = dot == std::string::npos || Covers(fault.path.substr(0, dot), key);
  return same_section && file.positions.count(key) == 0;
}

// Counts the documents in a text, at most two. YAML::LoadAll does not terminate on a stray token
// (",").
class Documents final : private YAML::EventHandler {
 public:
  explicit Documents(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (count_ < 2 && parser.HandleNextDocument(*this)) {
    }
  }
  size_t count() const { return count_; }
  const YAML::Mark& second() const { return begin_; }

 private:
  void OnDocumentStart(const YAML::Mark& mark) override {
    ++count_;
    begin_ = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  size_t count_ = 0;
  YAML::Mark begin_;
};

// Returns the code unit of an escape \uXXXX at `at`; 0 if there is none. The caller skips escaped backslashes.
uint32_t EscapedUnit(const std::string& text, size_t at) {
  uint32_t unit = 0;
  const bool escape = text.size() >= at + 6 && text[at] == '\\' && text[at + 1] == 'u';
  return escape && absl::SimpleHexAtoi(text.substr(at + 2, 4), &unit) ? unit : 0;
}

// JSON writes a character beyond U+FFFF as two escapes, which YAML does not support: replaces them by the character
// in a text that begins with '{'.
std::string WithWholeCharacters(const std::string& text) {
  if (text[std::min(text.find_first_not_of(" \t\r\n"), text.size())] != '{') return text;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const uint32_t high = EscapedUnit(text, at), low = EscapedUnit(text, at + 6);
    if (high >> 10 == 0xD800 >> 10 && low >> 10 == 0xDC00 >> 10) {
      AppendUtf8(0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF)), out);
      at += 12;
    } else {
      const size_t taken = text[at] == '\\' ? 2 : 1;  // an escaped backslash does not start an escape
      out.append(text, at, taken);
      at += taken;
    }
  }
  return out;
}

}  // namespace

JobFile ParseJobFile(const std::string& source, const std::string& given, const std::vector<std::string>& overrides,
                     std::vector<Fault>& faults) {
  JobFile file;
  file.source = source;
  const std::string text = WithWholeCharacters(given);
  if (text.size() > limits::kJobFileBytes) {
    faults.push_back(
        {source, "", absl::StrCat("is ", text.size(), " bytes long; a job file has at most ", limits::kJobFileBytes)});
    return file;
  }
  try {
    const Documents documents(text);
    if (documents.count() == 0) {
      faults.push_back({source, "", "contains no document; 'atoll job init' prints one to start from"});
      return file;
    }
    if (documents.count() > 1) {
      const YAML::Mark& second = documents.second();
      faults.push_back({absl::StrCat(source, ":", second.line + 1, ":", second.column + 1), "",
                        "a second document starts here, or text that is not YAML; a job file is one document"});
      return file;
    }
    YamlReader reader(source, faults, file.positions);
    ReadEnvelope(reader, YAML::Load(text), file, faults);
  } catch (const YAML::Exception& e) {
    const std::string place =
        e.mark.is_null() ? source : absl::StrCat(source, ":", e.mark.line + 1, ":", e.mark.column + 1);
    const bool tabs = text.find("\n\t") != std::string::npos || text.compare(0, 1, "\t") == 0;
    faults.push_back({place, "", absl::StrCat("is not YAML: ", e.msg, tabs ? "; indent with spaces, not tabs" : "")});
    return file;
  }
  file.alone = file.spec;
  for (const std::string& o : overrides) ApplyOverride(o, file, faults);
  NameRules(faults);
  return file;
}

std::string PlaceOf(const JobFile& file, std::string path) {
  for (;;) {
    if (const auto found = file.positions.find(path); found != file.positions.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    if (cut == std::string::npos) break;
    path.resize(cut);
  }
  const auto spec = file.positions.find("spec");
  return spec != file.positions.end() ? spec->second : file.source;
}

std::string PlaceOfViolation(const JobFile& file, const Violation& violation) {
  const std::vector<std::string> keys = KeysOf(violation);
  std::string about;
  for (const auto& [path, place] : file.positions) {
    const bool is_about = about.empty() && IsOverride(place) &&
                          std::any_of(keys.begin(), keys.end(), [&path = path](const std::string& key) {
                            return Covers(path, key) || Covers(key, path);
                          });
    if (is_about) about = place;
  }
  if (about.empty()) return PlaceOf(file, violation.field);
  JobFile alone = file;
  alone.spec = file.alone;
  const std::vector<Violation> its_own = ViolationsOf(alone);
  const bool has_it =
      std::any_of(its_own.begin(), its_own.end(), [&](const Violation& own) { return own.field == violation.field; });
  return has_it ? PlaceOf(file, violation.field) : about;
}

std::vector<Fault> CheckJobFile(const JobFile& file) {
  std::vector<Violation> violations = ViolationsOf(file);
  std::vector<Fault> faults;
  faults.reserve(violations.size());
  for (Violation& v : violations) {
    std::string place = PlaceOfViolation(file, v);
    faults.push_back({std::move(place), v.field, std::move(v.problem)});
  }
  return faults;
}

void CheckBeside(const JobFile& file, std::vector<Fault>& faults) {
  if (file.positions.count(kSpec) == 0) return;
  std::vector<Fault> unknown;
  for (const Fault& fault : faults) {
    // Unless "is ...": the override set nothing, so that the values of the parsed spec are still known.
    if (IsOverride(fault.where) && fault.problem.rfind("is ", 0) != 0) continue;
    if (fault.path.empty() || fault.path == kSpec) return;  // the file was not fully parsed
    unknown.push_back(fault);
  }
  for (Fault& rule : CheckJobFile(file)) {
    const std::vector<std::string> keys = KeysOf({rule.path, rule.problem});
    const bool sure = std::none_of(unknown.begin(), unknown.end(), [&](const Fault& fault) {
      return std::any_of(keys.begin(), keys.end(),
                         [&](const std::string& key) { return LeavesUnknown(fault, file, key); });
    });
    if (sure) faults.push_back(std::move(rule));
  }
}

std::string JobFileYaml(const std::string& name, const std::map<std::string, std::string>& labels,
                        const v1::JobSpec& spec) {
  std::string out = absl::StrCat("apiVersion: ", kApiVersion, "\nkind: ", kKind, "\n");
  if (!name.empty() || !labels.empty()) absl::StrAppend(&out, "metadata:\n");
  if (!name.empty()) absl::StrAppend(&out, "  name: ", YamlText(name), "\n");
  if (!labels.empty()) absl::StrAppend(&out, "  labels:\n");
  for (const auto& [key, value] : labels) absl::StrAppend(&out, "    ", YamlText(key), ": ", YamlText(value), "\n");
  const std::string body = MessageToYaml(spec, 2);
  return absl::StrCat(out, body.empty() ? "spec: {}\n" : "spec:\n", body);
}

std::string DefaultedYaml(const JobFile& file) {
  std::vector<Violation> ignored;
  v1::JobSpec full = JobSpecToProto(Domain(file, ignored));
  full.mutable_model()->mutable_init()->set_directory(file.spec.model().init().directory());
  for (int i = 0; i < file.spec.data().corpora_size(); ++i) {
    full.mutable_data()->mutable_corpora(i)->set_manifest(file.spec.data().corpora(i).manifest());
  }
  for (int i = 0; i < file.spec.evaluation().tasks_size(); ++i) {
    full.mutable_evaluation()->mutable_tasks(i)->set_file(file.spec.evaluation().tasks(i).file());
  }
  return JobFileYaml(file.name, file.labels, full);
}

SpecUpdate ParseUpdate(const std::vector<std::string>& overrides, std::vector<Fault>& faults) {
  SpecUpdate update;
  Positions positions;
  for (const std::string& text : overrides) {
    Override o;
    if (!SplitOverride(text, o, faults)) continue;
    if (std::optional<Fault> fault = RefusedUpdate(o)) {
      faults.push_back(*std::move(fault));
      continue;
    }
    if (ApplyToSpec(o, update.spec, positions, faults)) update.paths.push_back(o.path);
  }
  NameRules(faults);
  return update;
}

}  // namespace atl::cli
