// SPDX-License-Identifier: Apache-2.0
// Requests of users to the coordinator, with the checks and uses that follow: a job spec, an update
// of a job, and an identity file.
#include <google/protobuf/util/message_differencer.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atoll/v1/job.pb.h"
#include "common/base/check.h"
#include "common/base/descriptor.h"
#include "common/base/files.h"
#include "common/plan/job_validation.h"
#include "common/trust/secret_files.h"
#include "common/wire/job_spec_proto.h"
#include "coordinator/service/spec_update.h"
#include "tests/fuzz/targets.h"

namespace atl::fuzz {
namespace {

using google::protobuf::util::MessageDifferencer;

JobSpec RunningSpec() {
  JobSpec spec;
  spec.name = "tiny";
  spec.labels = {{"team", "a"}};
  spec.data.corpora.push_back({"tales", Sha256Of(AsBytes(std::string("m"))), 1});
  spec.stop.inner_steps = 1000;
  ResolveDefaults(spec, 256);
  return spec;
}

// An accepted spec is written and parsed again, and must be equal.
void CheckComesBack(const JobSpec& spec, bool before_submit) {
  const v1::JobSpec written = JobSpecToProto(spec);
  JobSpec back;
  ATOLL_CHECK(JobSpecFromProto(written, before_submit, back).empty(), "what was accepted is accepted again");
  std::string why;
  MessageDifferencer compare;
  compare.ReportDifferencesToString(&why);
  ATOLL_CHECK(compare.Compare(written, JobSpecToProto(back)), ("and is the same: " + why).c_str());
}

// The first byte: before submit, or as stored. For a broken message the part before the break is
// used.
void Spec(const std::string& input) {
  v1::JobSpec message;
  if (input.empty()) return;
  (void)message.ParseFromString(input.substr(1));
  const bool before_submit = (input[0] & 1) != 0;
  JobSpec spec;
  if (!JobSpecFromProto(message, before_submit, spec).empty()) return;
  if (ValidateJobSpec(spec, before_submit).empty()) CheckComesBack(spec, before_submit);
}

// An update of a running job is refused, or results in a valid job.
void Update(const std::string& input) {
  static const JobSpec running = RunningSpec();
  v1::UpdateJobRequest request;
  (void)request.ParseFromString(input);
  const auto updated = MergeSpecUpdate(running, request);
  if (!updated.ok()) {
    ATOLL_CHECK(absl::IsInvalidArgument(updated.status()), "an update is refused as what it is");
    return;
  }
  ATOLL_CHECK(ValidateJobSpec(*updated, /*before_submit=*/false).empty(), "an update breaks no rule");
  ATOLL_CHECK(updated->name == running.name, "a name stays");
  JobSpec kept = *updated;
  kept.labels.clear();  // not part of a spec's message
  CheckComesBack(kept, /*before_submit=*/false);
}

absl::StatusOr<IdentityFile> ReadAsIdentity(const std::string& text) {
  const Descriptor file(::memfd_create("identity", MFD_CLOEXEC));
  ATOLL_CHECK(file.open() && ::fchmod(file.get(), 0600) == 0, "a file in memory is made");
  ATOLL_CHECK(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()), "and takes it");
  return ReadIdentityFile("/proc/self/fd/" + std::to_string(file.get()));
}

// The text read from an identity file is itself a valid identity file.
void IdentityFileText(const std::string& input) {
  const auto identity = ReadAsIdentity(input);
  if (!identity.ok()) return;
  const auto back = ReadAsIdentity(identity->key_pem + identity->certificate_pem + identity->authority_pem);
  ATOLL_CHECK(back.ok() && back->key_pem == identity->key_pem && back->certificate_pem == identity->certificate_pem &&
                  back->authority_pem == identity->authority_pem,
              "an identity comes back the same");
}

std::string UpdateSeed() {
  v1::UpdateJobRequest request;
  *request.mutable_spec() = JobSpecToProto(RunningSpec());
  request.mutable_spec()->mutable_stop()->set_inner_steps(2000);
  for (const char* path :
       {"stop.inner_steps", "inner_optimizer.learning_rate", "workers.max", "checkpoint.every_rounds"})
    request.add_update_mask(path);
  (*request.mutable_set_labels())["team"] = "b";
  return request.SerializeAsString();
}

}  // namespace

std::vector<Target> RequestTargets() {
  const std::string spec = JobSpecToProto(RunningSpec()).SerializeAsString();
  v1::UpdateJobRequest labels;
  labels.add_remove_labels("team");
  return {
      {"job_spec", Spec, {"\x01" + spec, std::string(1, '\0') + spec}},
      {"job_update", Update, {UpdateSeed(), labels.SerializeAsString()}},
      {"identity_file", IdentityFileText, {}},  // its corpus: keys are never the same twice
  };
}

}  // namespace atl::fuzz
