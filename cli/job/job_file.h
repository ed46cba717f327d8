// SPDX-License-Identifier: Apache-2.0
// The job file: one YAML (or JSON) document around one atoll.v1.JobSpec (docs/job-file.md). Read strictly; every fault
// is found in one pass, with its line. Pure functions of text; the paths inside are resolved by stage_files.h.
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
  std::string source;                         // for faults: "job.yaml", "<stdin>"
  std::string name;                           // metadata.name; may be empty
  std::map<std::string, std::string> labels;  // metadata.labels
  v1::JobSpec spec;
  Positions positions;  // of everything that was written
  v1::JobSpec alone;    // without the overrides
};

// Parses `text` and applies `overrides` ("path=value", in order; the path begins below `spec` or with metadata.). With
// an empty fault list the file is well formed: known keys, right types. Then CheckJobFile tells whether it makes sense.
JobFile ParseJobFile(const std::string& source, const std::string& text, const std::vector<std::string>& overrides,
                     std::vector<Fault>& faults);

// Appends what CheckJobFile finds beside `faults` of ParseJobFile: rules that name nothing which those leave unknown.
void CheckBeside(const JobFile& file, std::vector<Fault>& faults);

// The rules of ValidateJobSpec as faults with places: where the field, or the nearest message around it, was written.
std::vector<Fault> CheckJobFile(const JobFile& file);

// Where a field, or the nearest thing around it that was written, stands.
std::string PlaceOf(const JobFile& file, std::string path);
// Where a rule is broken that the whole breaks: at an override of what the rule is about, where the file alone does not
// break it; else at its field.
std::string PlaceOfViolation(const JobFile& file, const Violation& violation);

// The file again with every default written out.
std::string DefaultedYaml(const JobFile& file);
// The envelope around any spec, as `job get -o yaml` prints it.
std::string JobFileYaml(const std::string& name, const std::map<std::string, std::string>& labels,
                        const v1::JobSpec& spec);

// A new spec with only the given "path=value" fields set, and their paths: for `job update`.
struct SpecUpdate {
  v1::JobSpec spec;
  std::vector<std::string> paths;
};
SpecUpdate ParseUpdate(const std::vector<std::string>& overrides, std::vector<Fault>& faults);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_JOB_FILE_H_
