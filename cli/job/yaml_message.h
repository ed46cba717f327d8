// SPDX-License-Identifier: Apache-2.0
// Strict YAML form of protobuf messages: unknown keys, wrong types, duplicate keys and numbers out of range are
// faults with line and column, all found in one pass. Enum values are short and lower-case (FRAGMENT_PATTERN_WHOLE is
// `whole`), durations are 90s or 250ms. JSON is valid YAML. Uses only descriptors, so that new fields need no code;
// float, bytes and map fields cannot be read.
#ifndef ATOLL_CLI_JOB_YAML_MESSAGE_H_
#define ATOLL_CLI_JOB_YAML_MESSAGE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <vector>

namespace atl::cli {

// A fault with its position: "job.yaml:12:5" or "--set sync.mix=2".
struct Fault {
  std::string where;
  std::string path;              // dotted, from the message: "sync.inner_steps"; may be empty
  std::string problem;           // one clause; a sentence together with the path before it
  std::string ToString() const;  // "job.yaml:12:5: sync.inner_steps is 'x'; it must be ..."
};

// Dotted path -> position, for faults found later.
using Positions = std::map<std::string, std::string>;

class YamlReader {
 public:
  // `source` names the text in faults. Appends faults and positions.
  YamlReader(std::string source, std::vector<Fault>& faults, Positions& positions)
      : source_(std::move(source)), faults_(faults), positions_(positions) {}

  // Fills `message` from a map node. `path` is the message's own path, empty for the root.
  void ReadMessage(const YAML::Node& node, const std::string& path, google::protobuf::Message& message);
  // Fills one field; a repeated field is replaced.
  void ReadField(const YAML::Node& node, const std::string& path, const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message& message);
  // Returns the pairs of a map without duplicates, keys as text. For any other node adds a fault
  // and returns nothing.
  std::vector<std::pair<std::string, YAML::Node>> Pairs(const YAML::Node& node, const std::string& path);
  // Returns a non-null scalar. For any other node adds a fault and returns "".
  std::string Scalar(const YAML::Node& node, const std::string& path);

  void AddFault(const YAML::Node& node, const std::string& path, std::string problem);
  std::string Where(const YAML::Node& node) const;
  // Reports every later node at this place instead of its line ("--set sync.mix=2").
  void FixPlace(std::string place) { fixed_place_ = std::move(place); }

 private:
  void ReadRepeated(const YAML::Node& node, const std::string& path, const google::protobuf::FieldDescriptor& field,
                    google::protobuf::Message& message);
  void ReadScalar(const YAML::Node& node, const std::string& path, const google::protobuf::FieldDescriptor& field,
                  google::protobuf::Message& message);
  void ReadDuration(const YAML::Node& node, const std::string& path, google::protobuf::Message& message);
  bool Admit(const YAML::Node& node, const std::string& path);

  std::string source_, fixed_place_;
  std::vector<Fault>& faults_;
  Positions& positions_;
  size_t nodes_ = 0;
  int depth_ = 0;
};

// Returns the message as YAML in the same form: block style, two spaces per level, with a final
// newline. Missing fields are omitted; present ones are written even with a default value. Fields
// without presence are written unless they are empty strings or lists, or an unspecified enum.
std::string MessageToYaml(const google::protobuf::Message& message, int indent = 0);

// "whole" for FRAGMENT_PATTERN_WHOLE; the number as text for unnamed values.
std::string ShortEnumName(const google::protobuf::EnumDescriptor& type, int number);
// All short names except UNSPECIFIED.
std::vector<std::string> ShortEnumNames(const google::protobuf::EnumDescriptor& type);
// Plain if it is certain that YAML parses that as the same text, otherwise double-quoted.
std::string YamlText(const std::string& text);
// The shortest text that parses as the same number.
std::string NumberText(double value);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);

// Suggestion for an unknown key in section `path` (empty: the spec): the likely intended key, all keys if there are
// few, or else the command that lists them. "; did you mean 'x'?", "; batch has a, b".
std::string OrWhatThereIs(const std::string& key, const std::string& path, const std::vector<std::string>& known);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_YAML_MESSAGE_H_
