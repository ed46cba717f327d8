// SPDX-License-Identifier: Apache-2.0
// cancel, purge, pause, resume, update, rollback.
#include "cli/job/job_file.h"
#include "cli/job_commands.h"
#include "cli/output.h"
#include "common/base/utf8.h"

namespace atl::cli {
namespace {

// Prints the job in a call's answer.
template <typename Response>
int Finish(Session& session, const absl::StatusOr<Response>& response, const char* done) {
  if (!response.ok()) return Fail(session, response.status());
  if (session.format == OutputFormat::kTable || session.format == OutputFormat::kWide ||
      session.format == OutputFormat::kName) {
    session.out << response->job().name() << "\n";
    session.talk << done << ": the job is now " << StateText(response->job().state()) << "\n";
  } else {
    PrintMessage(session, response->job());
  }
  return kExitOk;
}

// Refuses a stop rule that the job has already met: the job would end at once, which is the purpose
// of cancel.
absl::Status CheckGoesOn(Session& session, const std::string& name, const v1::StopSpec& stop) {
  if (stop.inner_steps() == 0 && stop.tokens() == 0) return absl::OkStatus();
  v1::GetJobRequest request;
  request.set_name(name);
  ATOLL_ASSIGN_OR_RETURN(const v1::GetJobResponse response, session.api.GetJob(request));
  const v1::Job& job = response.job();
  const std::string id = name.substr(5);
  // Counts tokens of the present parameters: job.tokens includes rounds discarded by a rollback.
  const uint64_t tokens = job.ledger().consumed() * job.spec().data().sequence_length();
  std::string why;
  if (IsTerminal(job.state())) return absl::OkStatus();  // the coordinator refuses the update of an ended job
  if (stop.inner_steps() != 0 && stop.inner_steps() <= job.step()) {
    why = absl::StrCat("is at step ", job.step(), ", so that stop.inner_steps ", stop.inner_steps());
  } else if (stop.tokens() != 0 && stop.tokens() <= tokens) {
    why = absl::StrCat("has trained ", tokens, " tokens, so that stop.tokens ", stop.tokens());
  }
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", id, " ", why, " would end it at once; end it with 'atoll job cancel ", id,
                   " --drain', pause it with 'atoll job pause ", id, "', or repeat the update with --force"));
}

}  // namespace

int CancelJob(Session& session, const std::string& job, bool drain) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::CancelJobRequest request;
  request.set_name(*name);
  request.set_drain(drain);
  return Finish(session, session.api.CancelJob(request), drain ? "cancellation requested" : "cancelled");
}

int PurgeJob(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::PurgeJobRequest request;
  request.set_name(*name);
  return Finish(session, session.api.PurgeJob(request), "purged; its disk space is freed when its files are removed");
}

int PauseJob(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::PauseJobRequest request;
  request.set_name(*name);
  return Finish(session, session.api.PauseJob(request), "pause requested");
}

int ResumeJob(Session& session, const std::string& job) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  v1::ResumeJobRequest request;
  request.set_name(*name);
  return Finish(session, session.api.ResumeJob(request), "resumed");
}

int UpdateJob(Session& session, const UpdateOptions& options) {
  const absl::StatusOr<std::string> name = JobResource(options.job);
  if (!name.ok()) return Fail(session, name.status());
  if (options.sets.empty() && options.set_labels.empty() && options.remove_labels.empty())
    return FailUsage(
        session, "nothing to change: give at least one --set PATH=VALUE, --set-label KEY=VALUE or --remove-label KEY");
  std::vector<Fault> faults;
  const SpecUpdate update = ParseUpdate(options.sets, faults);
  for (const Fault& fault : faults) session.talk << fault.ToString() << "\n";
  if (!faults.empty()) return kExitUsage;
  if (!options.force) {
    const absl::Status goes_on = CheckGoesOn(session, *name, update.spec.stop());
    if (!goes_on.ok()) return Fail(session, goes_on);
  }
  v1::UpdateJobRequest request;
  request.set_name(*name);
  for (const std::string& label : options.set_labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      return FailUsage(session, absl::StrCat("--set-label is '", label, "'; it must be KEY=VALUE"));
    (*request.mutable_set_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  for (const std::string& key : options.remove_labels) request.add_remove_labels(key);
  for (const std::string& path : update.paths) request.add_update_mask(path);
  *request.mutable_spec() = update.spec;
  request.set_etag(options.etag);
  const auto response = session.api.UpdateJob(request);
  if (response.ok()) {
    for (const std::string& note : response->notes()) session.talk << Printable(note) << "\n";
  }
  return Finish(session, response, "updated from the next round on");
}

int RollbackJob(Session& session, const std::string& job, const std::string& checkpoint) {
  const absl::StatusOr<std::string> name = JobResource(job);
  if (!name.ok()) return Fail(session, name.status());
  const bool step_only = !checkpoint.empty() && checkpoint.find('/') == std::string::npos;
  const absl::StatusOr<std::string> target =
      CheckpointResource(step_only ? name->substr(5) + "/" + checkpoint : checkpoint);
  if (!target.ok()) return Fail(session, target.status());
  v1::RollbackJobRequest request;
  request.set_name(*name);
  request.set_checkpoint(*target);
  return Finish(session, session.api.RollbackJob(request), "rolled back");
}

}  // namespace atl::cli
