// SPDX-License-Identifier: Apache-2.0
// The job file: one YAML (or JSON) document that contains one atoll.v1.JobSpec (docs/job-file.md).
// Parsed strictly; one pass finds every fault, with its line. Pure functions of text; stage_files.h
// resolves the paths inside.
#ifndef ATOLL_CLI_JOB_JOB_FILE_H_
#define ATOLL_CLI_JOB_JOB_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "atoll/v1/job.pb.h"
#include "cli/job/yaml_message.h"
#include "common/plan/job_validation.h"

namespace atl::cli {

struct JobFile {
  std::string source;                         // name in faults: "job.yaml", "<stdin>"
  std::string name;                           // metadata.name; may be empty
  std::map<std::string, std::string> labels;  // metadata.labels
  v1::JobSpec spec;
  Positions positions;  // of every written key
  v1::JobSpec alone;    // without the overrides
};

// Parses `text` and applies `overrides` ("path=value", in order; paths start below `spec` or with
// metadata.). With an empty fault list the file has only known keys and correct types; CheckJobFile
// then checks the values.
JobFile ParseJobFile(const std::string& source, const std::string& text, const std::vector<std::string>& overrides,
                     std::vector<Fault>& faults);

// Appends the faults of CheckJobFile that do not depend on `faults` from ParseJobFile: violations of rules about
// values that were read correctly. Appends none if the file was not fully parsed.
void CheckBeside(const JobFile& file, std::vector<Fault>& faults);

// Returns the violations of the rules for a spec (JobSpecFromProto, ValidateJobSpec) as faults, each at its
// PlaceOfViolation.
std::vector<Fault> CheckJobFile(const JobFile& file);

// Position of a field, or of the nearest written key around it.
std::string PlaceOf(const JobFile& file, std::string path);
// Position for a violation: the override that causes it if the file alone is valid, otherwise the
// field.
std::string PlaceOfViolation(const JobFile& file, const Violation& violation);

// Returns the file with every default filled in.
std::string DefaultedYaml(const JobFile& file);
// Returns a job file with this spec, as `job get -o yaml` prints it.
std::string JobFileYaml(const std::string& name, const std::map<std::string, std::string>& labels,
                        const v1::JobSpec& spec);

// For `job update`: a new spec with only the given "path=value" fields set, and their paths.
struct SpecUpdate {
  v1::JobSpec spec;
  std::vector<std::string> paths;
};
SpecUpdate ParseUpdate(const std::vector<std::string>& overrides, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_JOB_FILE_H_
