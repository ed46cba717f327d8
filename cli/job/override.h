// SPDX-License-Identifier: Apache-2.0
// --set PATH=VALUE: where the path leads in a spec, and how the value is read. Private to the job file.
#ifndef ATOLL_CLI_JOB_OVERRIDE_H_
#define ATOLL_CLI_JOB_OVERRIDE_H_

#include <string>
#include <vector>

#include "atoll/v1/job.pb.h"
#include "cli/job/yaml_message.h"

namespace atl::cli {

// Where a dotted path leads: a message and the field in it, or the element of a list.
struct Target {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
};
// Walks `path` through messages, making those that are absent. On failure returns the problem, which is of `of`.
std::string FindTarget(google::protobuf::Message& root, const std::string& path, Target& out, std::string& of);

struct Override {
  std::string place;  // for faults: "--set sync.inner_steps=50"
  std::string path;   // without "spec."
  std::string value;
};
// False after a fault.
bool SplitOverride(const std::string& text, Override& out, std::vector<Fault>& faults);
// Whether a fault's or a position's place is that of an override.
bool IsOverride(const std::string& place);

// Sets one field of a spec. False after a fault.
bool ApplyToSpec(const Override& o, v1::JobSpec& spec, Positions& positions, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_OVERRIDE_H_
