// SPDX-License-Identifier: Apache-2.0
// list, get, describe, metrics.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/job/yaml_message.h"
#include "cli/job_commands.h"
#include "cli/output.h"
#include "cli/watch_view.h"
#include "common/base/utf8.h"
#include "common/config/nearest_word.h"

namespace atl::cli {
namespace {

constexpr uint32_t kPage = 500;
constexpr int kMaxJobPages = 10'000;  // limit of a listing with at least one job per page; a coordinator has no more

// Fills the request's filters. Returns an error message for an invalid one.
std::string Filter(const ListOptions& options, v1::ListJobsRequest& request) {
  for (const std::string& label : options.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      return absl::StrCat("--label is '", label, "'; it must be KEY=VALUE");
    (*request.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  if (options.state.empty()) return "";
  const auto& type = *v1::JobState_descriptor();
  const std::string wanted = absl::AsciiStrToLower(options.state);  // also accepts SUCCEEDED, the form in messages
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() == 0 || ShortEnumName(type, type.value(i)->number()) != wanted) continue;
    request.set_state(static_cast<v1::JobState>(type.value(i)->number()));
    return "";
  }
  const std::vector<std::string> known = ShortEnumNames(type);
  return absl::StrCat("--state is '", options.state, "'; it must be one of ", absl::StrJoin(known, ", "),
                      DidYouMean(wanted, known));
}

absl::StatusOr<v1::GetJobResponse> Fetch(Session& session, const std::string& job) {
  ATOLL_ASSIGN_OR_RETURN(const std::string name, JobResource(job));
  v1::GetJobRequest request;
  request.set_name(name);
  return session.api.GetJob(request);
}

void PrintEvaluations(Session& session, const v1::GetJobResponse& response) {
  if (response.evaluations_size() == 0) return;
  Table table({"STEP", "LOSS", "PERPLEXITY", "BITS/BYTE", "TOKENS"});
  for (const v1::EvaluationResult& e : response.evaluations()) {
    table.Add({absl::StrCat(e.step()), LossText(e.loss()), absl::StrFormat("%.2f", e.perplexity()),
               e.bits_per_byte() > 0 ? absl::StrFormat("%.3f", e.bits_per_byte()) : "-", absl::StrCat(e.tokens())});
  }
  session.out << "\nHeld-out evaluations\n" << table.ToString();
}

// Prints the newest scores of the tasks next to the first ones.
void PrintTasks(Session& session, const v1::GetJobResponse& response) {
  const v1::EvaluationResult *first = nullptr, *last = nullptr;
  for (const v1::EvaluationResult& e : response.evaluations()) {
    if (e.tasks_size() == 0) continue;
    if (first == nullptr) first = &e;
    last = &e;
  }
  if (last == nullptr) return;
  Table table({"TASK", "EXAMPLES", absl::StrCat("AT STEP ", first->step()), absl::StrCat("AT STEP ", last->step()),
               "STANDARD ERROR", "PER BYTE"});
  double before = 0, after = 0;
  for (int i = 0; i < last->tasks_size(); ++i) {
    const v1::TaskResult& task = last->tasks(i);
    const double start = i < first->tasks_size() ? first->tasks(i).accuracy() : 0;
    before += start / last->tasks_size();
    after += task.accuracy() / last->tasks_size();
    table.Add({Printable(task.name()), absl::StrCat(task.examples()), PercentText(start), PercentText(task.accuracy()),
               PercentText(task.standard_error()),
               task.has_accuracy_per_byte() ? PercentText(task.accuracy_per_byte()) : "-"});
  }
  if (last->tasks_size() > 1) table.Add({"mean", "-", PercentText(before), PercentText(after), "-", "-"});
  session.out << "\nEvaluation tasks\n" << table.ToString();
}

void PrintFragments(Session& session, const v1::Job& job) {
  if (job.fragments_size() == 0) return;
  Table table({"FRAGMENT", "PARAMETERS", "VERSION", "CONTRIBUTIONS", "HASH"});
  for (const v1::FragmentStatus& f : job.fragments()) {
    table.Add({absl::StrCat(f.fragment()), absl::StrCat(f.elements()), absl::StrCat(f.version()),
               absl::StrCat(f.accepted(), " of ", f.expected(),
                            f.dropped() == 0 ? "" : absl::StrCat(", ", f.dropped(), " dropped")),
               Printable(f.content_hash())});
  }
  session.out << "\nFragments\n" << table.ToString();
}

std::string RatioText(bool known, double ratio) { return known ? absl::StrFormat("%.3f", ratio) : "-"; }

void PrintDiagnostics(Session& session, const v1::Job& job) {
  Table rounds({"FRAGMENT", "NORM", "COSINE", "STEP/NORM", "ALIGNMENT", "MOMENTUM", "DOWNLOAD ERROR", "STALENESS"});
  Table members({"FRAGMENT", "WORKER", "WEIGHT", "NORM", "COSINE", "UPLOAD ERROR", "STALENESS"});
  bool any = false;
  for (const v1::FragmentStatus& f : job.fragments()) {
    if (!f.has_newest()) continue;
    any = true;
    const v1::RoundDiagnostics& d = f.newest();
    rounds.Add({absl::StrCat(f.fragment()), absl::StrFormat("%.4g", d.pseudo_gradient_norm()),
                RatioText(true, d.mean_cosine_ratio()), RatioText(true, d.outer_step_gain_ratio()),
                RatioText(d.has_outer_step_alignment_ratio(), d.outer_step_alignment_ratio()),
                RatioText(d.has_momentum_alignment_ratio(), d.momentum_alignment_ratio()),
                PercentText(d.download_error_ratio()), absl::StrCat(d.staleness_steps(), " steps")});
    for (const v1::ContributionDiagnostics& c : d.contributions()) {
      members.Add({absl::StrCat(f.fragment()), Printable(c.worker().substr(c.worker().rfind('/') + 1)),
                   RatioText(true, c.weight()), absl::StrFormat("%.4g", c.norm()), RatioText(true, c.cosine_ratio()),
                   c.has_upload_error_ratio() ? PercentText(c.upload_error_ratio()) : "-",
                   absl::StrCat(c.staleness_steps(), " steps")});
    }
  }
  if (!any) return;
  session.out << "\nNewest rounds\n" << rounds.ToString() << "\nNewest contributions\n" << members.ToString();
}

std::string RateText(bool known, double bytes_per_second) { return known ? HumanSize(bytes_per_second) + "/s" : "-"; }

// Prints each worker's measurements next to the planner's estimate for its step time and rates.
void PrintUtilization(Session& session, const v1::GetJobResponse& response) {
  Table table({"WORKER", "COMPUTING", "PLAN", "UPLOAD", "DOWNLOAD", "UPLOAD ERROR", "IN ROUNDS", "STEPS"});
  bool any = false;
  for (const v1::WorkerStatus& w : response.workers()) {
    if (!w.has_compute_utilization_ratio()) continue;
    any = true;
    table.Add({Printable(w.name().substr(w.name().rfind('/') + 1)), PercentText(w.compute_utilization_ratio()),
               w.has_planned_utilization_ratio() ? PercentText(w.planned_utilization_ratio()) : "-",
               RateText(w.has_upload_bytes_per_second(), w.upload_bytes_per_second()),
               RateText(w.has_download_bytes_per_second(), w.download_bytes_per_second()),
               w.has_upload_error_ratio() ? PercentText(w.upload_error_ratio()) : "-",
               w.has_participation_ratio() ? PercentText(w.participation_ratio()) : "-",
               w.has_period_steps() ? absl::StrCat(w.period_steps()) : "-"});
  }
  if (any) session.out << "\nUtilization\n" << table.ToString();
}

void PrintSlowLinks(Session& session, const v1::GetJobResponse& response) {
  bool any = false;
  for (const v1::WorkerStatus& w : response.workers()) {
    if (w.link_too_slow().empty()) continue;
    session.out << (any ? "" : "\nSlow links\n") << "  " << Printable(w.link_too_slow())
                << (w.not_waited_for() ? "; no round waits for it" : "; it is needed, so the run waits for it") << "\n";
    any = true;
  }
}

void PrintSummary(Session& session, const v1::Job& job) {
  Table table({"Job:", Printable(job.name())});
  table.Add({"State:", StateText(job.state()) + (job.reason().empty() ? "" : ": " + Printable(job.reason()))});
  table.Add({"Progress:", absl::StrCat("step ", job.step(), " of ", job.stop_step(), ", round ", job.round())});
  table.Add({"Loss:", LossText(job.loss())});
  table.Add({"Rate:", HumanNumber(job.tokens_per_second()) + " tokens/s"});
  table.Add({"Workers:", absl::StrCat(job.workers_alive(), " alive, ", job.workers_training(), " training, ",
                                      job.workers_participating(), " participating", PoolText(job))});
  table.Add({"Tokens:", absl::StrCat(job.tokens())});
  table.Add({"Samples:", absl::StrCat(job.ledger().consumed(), " consumed, ", job.ledger().leased(), " leased, ",
                                      job.ledger().abandoned(), " abandoned")});
  table.Add({"Uploaded:", HumanSize(static_cast<double>(job.uploaded_bytes()))});
  table.Add({"Downloaded:", HumanSize(static_cast<double>(job.downloaded_bytes()))});
  table.Add({"Parameters:", absl::StrCat(job.parameters())});
  table.Add({"Coordinator:", CoordinatorShareText(job)});
  if (job.labels_size() > 0) table.Add({"Labels:", LabelsText(job)});
  table.Add({"Revision:", absl::StrCat(job.spec_revision())});
  session.out << table.ToString();
}

// Prints one line per point, each value as a number: programs that read the lines cannot parse "-".
void PrintCurve(Session& session, const v1::MetricCurve& curve, bool csv) {
  for (const v1::MetricPoint& p : curve.points()) {
    session.out << (csv ? absl::StrCat(curve.metric(), ",", p.step(), ",", p.time().seconds(), ",",
                                       NumberText(p.value()))
                        : absl::StrFormat("%-24s %10d  %.6g", curve.metric(), p.step(), p.value()))
                << "\n";
  }
}

}  // namespace

std::string CoordinatorShareText(const v1::Job& job) {
  return absl::StrCat("at most ", HumanSize(static_cast<double>(job.coordinator_memory_bytes())), " of memory and ",
                      HumanSize(static_cast<double>(job.coordinator_disk_bytes())), " of disk");
}

int ListJobs(Session& session, const ListOptions& options) {
  v1::ListJobsRequest request;
  if (const std::string problem = Filter(options, request); !problem.empty()) return FailUsage(session, problem);
  v1::ListJobsResponse all;
  for (int page = 0; page < kMaxJobPages; ++page) {
    const uint32_t have = static_cast<uint32_t>(all.jobs_size());
    request.set_page_size(options.limit == 0 ? kPage : std::min(kPage, options.limit - have));
    const absl::StatusOr<v1::ListJobsResponse> response = session.api.ListJobs(request);
    if (!response.ok()) return Fail(session, response.status());
    for (const v1::Job& job : response->jobs()) *all.add_jobs() = job;
    request.set_page_token(response->next_page_token());
    if (request.page_token().empty()) break;
    if (options.limit != 0 && static_cast<uint32_t>(all.jobs_size()) >= options.limit) break;
  }
  PrintJobs(session, all);
  return kExitOk;
}

int GetJob(Session& session, const std::string& job) {
  const absl::StatusOr<v1::GetJobResponse> response = Fetch(session, job);
  if (!response.ok()) return Fail(session, response.status());
  PrintJob(session, response->job());
  return kExitOk;
}

int DescribeJob(Session& session, const std::string& job) {
  const absl::StatusOr<v1::GetJobResponse> response = Fetch(session, job);
  if (!response.ok()) return Fail(session, response.status());
  if (PrintMessage(session, *response)) return kExitOk;
  PrintSummary(session, response->job());
  PrintFragments(session, response->job());
  PrintDiagnostics(session, response->job());
  PrintEvaluations(session, *response);
  PrintTasks(session, *response);
  if (response->workers_size() > 0) {
    v1::ListWorkersResponse workers;
    *workers.mutable_workers() = response->workers();
    session.out << "\nWorkers\n";
    PrintWorkers(session, workers);
  }
  PrintUtilization(session, *response);
  PrintSlowLinks(session, *response);
  if (response->events_size() > 0) session.out << "\nEvents\n";
  for (const v1::JobEvent& event : response->events()) session.out << EventLine(event) << "\n";
  return kExitOk;
}

int JobMetrics(Session& session, const MetricsOptions& options) {
  const absl::StatusOr<std::string> name = JobResource(options.job);
  if (!name.ok()) return Fail(session, name.status());
  if (options.csv && session.format != OutputFormat::kTable)
    return FailUsage(session, "--csv and -o cannot be combined");
  v1::GetJobMetricsRequest request;
  request.set_name(*name);
  for (const std::string& metric : options.metrics) request.add_metrics(metric);
  request.set_after_step(options.since_step);
  const absl::StatusOr<v1::GetJobMetricsResponse> response = session.api.GetJobMetrics(request);
  if (!response.ok()) return Fail(session, response.status());
  if (options.csv) session.out << "metric,step,unix_seconds,value\n";
  if (!options.csv && session.format == OutputFormat::kJsonl) {
    for (const v1::MetricCurve& curve : response->curves()) session.out << ToJson(curve, true);
    return kExitOk;
  }
  if (!options.csv && PrintMessage(session, *response)) return kExitOk;
  if (!options.csv && response->curves_size() > 0)
    session.out << absl::StrFormat("%-24s %10s  %s\n", "METRIC", "STEP", "VALUE");
  for (const v1::MetricCurve& curve : response->curves()) PrintCurve(session, curve, options.csv);
  if (response->curves_size() == 0) session.talk << "no points yet\n";
  return kExitOk;
}

}  // namespace atl::cli
