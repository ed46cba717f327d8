// SPDX-License-Identifier: Apache-2.0
// YAML as a spelling of protobuf messages, strict: unknown keys, wrong types, duplicate keys and numbers out of range
// are faults with line and column, all found in one pass. Enum values are written short and lower-case
// (FRAGMENT_PATTERN_WHOLE is `whole`), durations as 90s or 250ms. JSON is YAML. Works on descriptors alone, so it knows
// every message.
#ifndef ATOLL_CLI_JOB_YAML_MESSAGE_H_
#define ATOLL_CLI_JOB_YAML_MESSAGE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <vector>

namespace atl::cli {

// Where something was written: "job.yaml:12:5" or "--set sync.mix=2".
struct Fault {
  std::string where;
  std::string path;              // dotted, from the message: "sync.inner_steps"; may be empty
  std::string problem;           // one clause; with the path before it, a sentence
  std::string ToString() const;  // "job.yaml:12:5: sync.inner_steps is 'x'; it must be ..."
};

// Dotted path -> where it was written, for faults found later.
using Positions = std::map<std::string, std::string>;

class YamlReader {
 public:
  // `source` names the text in faults. Faults and positions are appended.
  YamlReader(std::string source, std::vector<Fault>& faults, Positions& positions)
      : source_(std::move(source)), faults_(faults), positions_(positions) {}

  // Fills `message` from a map node. `path` is the message's own path, empty for the root.
  void ReadMessage(const YAML::Node& node, const std::string& path, google::protobuf::Message& message);
  // Fills one field; a repeated field is replaced.
  void ReadField(const YAML::Node& node, const std::string& path, const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message& message);
  // The pairs of a map without duplicates, keys as text; a fault and nothing when it is no map.
  std::vector<std::pair<std::string, YAML::Node>> Pairs(const YAML::Node& node, const std::string& path);
  // A scalar that is not null; a fault and "" when it is none.
  std::string Scalar(const YAML::Node& node, const std::string& path);

  void AddFault(const YAML::Node& node, const std::string& path, std::string problem);
  std::string Where(const YAML::Node& node) const;
  // Every later node is reported at this place instead of its line ("--set sync.mix=2").
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

// The message as YAML in the same spelling, block style, two spaces a level, without a final newline stripped. Absent
// fields are left out; present ones are written even when they hold a default. Fields without presence are written
// unless they are empty strings or lists, or an unspecified enum.
std::string MessageToYaml(const google::protobuf::Message& message, int indent = 0);

// "whole" for FRAGMENT_PATTERN_WHOLE; the number as text for values that have no name.
std::string ShortEnumName(const google::protobuf::EnumDescriptor& type, int number);
// All short names but UNSPECIFIED's.
std::vector<std::string> ShortEnumNames(const google::protobuf::EnumDescriptor& type);
// Plain where YAML reads it back as the same text, else double-quoted.
std::string YamlText(const std::string& text);
// The shortest text that reads back as the same number.
std::string NumberText(double value);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);

// Of a key that the section `path` (empty: the spec) does not have: the one that may have been meant, or all that it
// has where they are few. "; did you mean 'x'?", "; batch has a, b".
std::string OrWhatThereIs(const std::string& key, const std::string& path, const std::vector<std::string>& known);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_YAML_MESSAGE_H_
