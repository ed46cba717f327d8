// SPDX-License-Identifier: Apache-2.0
#include "cli/job/override.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/nearest_word.h"

namespace atl::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kFlag[] = "--set ";

struct Step {
  std::string name;
  int index = -1;  // index in "corpora[0]"
};

// Returns false unless `text` has the form "name" or "name[3]".
bool ParseStep(const std::string& text, Step& out) {
  const size_t bracket = text.find('[');
  out.name = text.substr(0, bracket);
  if (bracket == std::string::npos) return !out.name.empty();
  const std::string digits = text.substr(bracket + 1);
  const bool good = digits.size() >= 2 && digits.size() <= 6 && digits.back() == ']' &&
                    digits.find_first_not_of("0123456789") == digits.size() - 1;
  if (good) out.index = std::stoi(digits);
  return good && !out.name.empty();
}

// "; did you mean stop.inner_steps or sync.inner_steps?" for a key written without its section.
std::string SectionsWith(const std::string& key) {
  std::vector<std::string> found;
  const auto& spec = *v1::JobSpec::descriptor();
  for (int i = 0; i < spec.field_count(); ++i) {
    const FieldDescriptor& section = *spec.field(i);
    const bool has = section.type() == FieldDescriptor::TYPE_MESSAGE && !section.is_repeated() &&
                     section.message_type()->FindFieldByName(key) != nullptr;
    if (has) found.push_back(absl::StrCat(section.name(), ".", key));
  }
  return found.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(found, " or "), "?");
}

// Unquoted text for a string field is used literally: as YAML a path would end at " #", and become a map at ": ". Any
// other value is parsed as YAML.
YAML::Node ValueOf(const std::string& text, const FieldDescriptor& field) {
  const bool bare = !text.empty() && text[0] != '"' && text[0] != '\'';
  const bool is_text = field.type() == FieldDescriptor::TYPE_STRING && !field.is_repeated();
  return bare && is_text ? YAML::Node(text) : YAML::Load(text);
}

}  // namespace

std::string FindTarget(Message& root, const std::string& path, Target& out, std::string& of) {
  out.message = &root;
  of = path;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    Step step;
    if (!ParseStep(path.substr(begin, end - begin), step)) return "is not a path; a path looks like sync.inner_steps";
    const auto& type = *out.message->GetDescriptor();
    out.field = type.FindFieldByName(step.name);
    if (out.field == nullptr) {
      of = begin == 0 ? "spec" : path.substr(0, begin - 1);
      const bool alone = begin == 0 && end == path.size();
      const std::vector<std::string> known = FieldNames(type);
      std::string hint = alone && NearestWord(step.name, known).empty() ? SectionsWith(step.name) : "";
      if (hint.empty()) hint = OrWhatThereIs(step.name, begin == 0 ? "" : of, known);
      return absl::StrCat("has no key '", step.name, "'", hint);
    }
    const bool last = end == path.size();
    const auto* reflection = out.message->GetReflection();
    if (step.index >= 0) {
      if (!out.field->is_repeated() || out.field->type() != FieldDescriptor::TYPE_MESSAGE)
        return "has an index, but the field is not a list";
      if (last)
        return absl::StrCat("needs a key after it, such as ", path, ".", out.field->message_type()->field(0)->name());
      if (step.index >= reflection->FieldSize(*out.message, out.field))
        return absl::StrCat("names element ", step.index, ", but the list is shorter");
      out.message = reflection->MutableRepeatedMessage(out.message, out.field, step.index);
    } else if (!last) {
      if (out.field->type() != FieldDescriptor::TYPE_MESSAGE)
        return absl::StrCat("continues below '", step.name, "', which is a single value");
      if (out.field->is_repeated())
        return absl::StrCat("must name an element of '", step.name, "', such as ", step.name, "[0]");
      out.message = reflection->MutableMessage(out.message, out.field);
    }
    begin = end + 1;
  }
  return "";
}

bool SplitOverride(const std::string& text, Override& out, std::vector<Fault>& faults) {
  out.place = kFlag + text.substr(0, 200);
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    faults.push_back({out.place, "", "must be PATH=VALUE, such as sync.inner_steps=50"});
    return false;
  }
  out.path = text.substr(0, equals);
  out.value = text.substr(equals + 1);
  if (out.path.compare(0, 5, "spec.") == 0) out.path.erase(0, 5);
  return true;
}

bool IsOverride(const std::string& place) { return place.rfind(kFlag, 0) == 0; }

bool ApplyToSpec(const Override& o, v1::JobSpec& spec, Positions& positions, std::vector<Fault>& faults) {
  Target target;
  const size_t before = faults.size();
  std::string of;
  if (std::string problem = FindTarget(spec, o.path, target, of); !problem.empty()) {
    faults.push_back({o.place, of, std::move(problem)});
    return false;
  }
  // A list is replaced as a whole; in a section only the named fields change.
  if (target.field->is_repeated())
    std::erase_if(positions, [&](const auto& written) { return written.first.rfind(o.path + "[", 0) == 0; });
  Positions named;
  try {
    YamlReader reader(o.place, faults, named);
    reader.FixPlace(o.place);
    reader.ReadField(ValueOf(o.value, *target.field), o.path, *target.field, *target.message);
  } catch (const YAML::Exception& e) {
    faults.push_back({o.place, o.path, "has a value that is not YAML: " + e.msg});
  }
  for (const auto& [path, place] : named) positions[path] = place;
  positions[o.path] = o.place;
  return faults.size() == before;
}

}  // namespace atl::cli
