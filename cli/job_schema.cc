// SPDX-License-Identifier: Apache-2.0
// schema, init: the contents of a job file, for editors and for beginners.
#include <nlohmann/json.hpp>

#include "cli/job/yaml_message.h"
#include "cli/job_commands.h"
#include "cli/job_templates.h"
#include "common/config/nearest_word.h"

namespace atl::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

Json SchemaOf(const Descriptor& type);

// Text needs no quotes, and an editor may take unquoted text for a number or a truth value.
Json SchemaOfText() { return {{"type", {"string", "number", "boolean"}}}; }

Json SchemaOfScalar(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_UINT32: return {{"type", "integer"}, {"minimum", 0}, {"maximum", UINT32_MAX}};
    case FieldDescriptor::CPPTYPE_UINT64: return {{"type", "integer"}, {"minimum", 0}};
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64: return {{"type", "integer"}};
    case FieldDescriptor::CPPTYPE_DOUBLE: return {{"type", "number"}};
    case FieldDescriptor::CPPTYPE_ENUM: return {{"enum", ShortEnumNames(*field.enum_type())}};
    default: return SchemaOfText();
  }
}

Json SchemaOfOne(const FieldDescriptor& field) {
  if (field.type() != FieldDescriptor::TYPE_MESSAGE) return SchemaOfScalar(field);
  if (field.message_type()->full_name() == "google.protobuf.Duration")
    return {{"type", "string"}, {"pattern", "^[0-9.]+(ns|us|ms|s|m|h|d)$"}};
  return SchemaOf(*field.message_type());
}

Json SchemaOf(const FieldDescriptor& field) {
  Json one = SchemaOfOne(field);
  return field.is_repeated() ? Json{{"type", "array"}, {"items", one}} : one;
}

Json Object(Json properties, Json required = Json::array()) {
  Json out = {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

Json SchemaOf(const Descriptor& type) {
  Json properties = Json::object();
  for (int i = 0; i < type.field_count(); ++i) properties[type.field(i)->name()] = SchemaOf(*type.field(i));
  return Object(std::move(properties));
}

}  // namespace

int PrintJobSchema(Session& session) {
  const Json labels = {{"type", "object"}, {"additionalProperties", SchemaOfText()}};
  Json name = SchemaOfText();
  name["pattern"] = "^[a-z0-9][a-z0-9-]{0,62}$";
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "Atoll training job"}};
  schema.update(Object({{"apiVersion", {{"const", "atoll/v1"}}},
                        {"kind", {{"const", "TrainingJob"}}},
                        {"metadata", Object({{"name", name}, {"labels", labels}})},
                        {"spec", SchemaOf(*v1::JobSpec::descriptor())}},
                       {"apiVersion", "kind", "spec"}));
  session.out << schema.dump(2) << "\n";
  return kExitOk;
}

std::vector<std::string> JobTemplates() {
  std::vector<std::string> names;
  for (const JobTemplate& t : kJobTemplates) names.emplace_back(t.name);
  return names;
}

int PrintJobTemplate(Session& session, const std::string& name) {
  for (const JobTemplate& t : kJobTemplates) {
    if (name != t.name) continue;
    session.out << t.text;
    return kExitOk;
  }
  const std::vector<std::string> known = JobTemplates();
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  return FailUsage(session, "unknown template '" + name + "'" + DidYouMean(name, known) + " (known: " + list + ")");
}

}  // namespace atl::cli
