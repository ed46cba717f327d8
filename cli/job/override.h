// SPDX-License-Identifier: Apache-2.0
// --set PATH=VALUE: resolves the path in a spec and parses the value. Private to the job file.
#ifndef ATOLL_CLI_JOB_OVERRIDE_H_
#define ATOLL_CLI_JOB_OVERRIDE_H_

#include <string>
#include <vector>

#include "atoll/v1/job.pb.h"
#include "cli/job/yaml_message.h"

namespace atl::cli {

// Target of a dotted path: a field, and the message that contains it, which may be an element of a list.
struct Target {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
};
// Walks `path` through messages, creating missing ones. Returns "" after success, otherwise the problem, and in `of`
// the part of the path that has the problem.
std::string FindTarget(google::protobuf::Message& root, const std::string& path, Target& out, std::string& of);

struct Override {
  std::string place;  // for faults: "--set sync.inner_steps=50"
  std::string path;   // without "spec."
  std::string value;
};
// Returns false after a fault.
bool SplitOverride(const std::string& text, Override& out, std::vector<Fault>& faults);
// True when the place of a fault or a position is an override.
bool IsOverride(const std::string& place);

// Sets one field of a spec. Returns false after a fault.
bool ApplyToSpec(const Override& o, v1::JobSpec& spec, Positions& positions, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_OVERRIDE_H_
