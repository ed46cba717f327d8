// SPDX-License-Identifier: Apache-2.0
// `atoll job ...` as functions of parsed options. Each returns the exit code (exit_codes.h).
#ifndef ATOLL_CLI_JOB_COMMANDS_H_
#define ATOLL_CLI_JOB_COMMANDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/session.h"

namespace atl::cli {

// job_submit.cc
enum class DryRun { kNone, kClient, kServer };
enum class AfterSubmit { kDetach, kWait, kWatch };
struct SubmitOptions {
  std::string file;               // "-": standard input
  std::vector<std::string> sets;  // --set path=value
  std::string name;               // --name; empty: from the file
  std::string request_id;         // --request-id; empty: generated
  DryRun dry_run = DryRun::kNone;
  AfterSubmit after = AfterSubmit::kDetach;
};
int SubmitJob(Session& session, const SubmitOptions& options);
// Checks a file without a coordinator. Prints the file with all defaults with -o yaml, its spec with json or jsonl.
int ValidateJob(Session& session, const std::string& file, const std::vector<std::string>& sets);
// JSON Schema of the job file.
int PrintJobSchema(Session& session);
// Prints a commented job file to start from. `name` is one of JobTemplates().
int PrintJobTemplate(Session& session, const std::string& name);
std::vector<std::string> JobTemplates();

// job_show.cc
struct ListOptions {
  std::string state;                // empty: all
  std::vector<std::string> labels;  // k=v
  uint32_t limit = 0;               // 0: all
};
int ListJobs(Session& session, const ListOptions& options);
int GetJob(Session& session, const std::string& job);
int DescribeJob(Session& session, const std::string& job);
// Returns "at most 1.20 GB of memory and 3.40 GB of disk": the needs of the coordinator for the job.
std::string CoordinatorShareText(const v1::Job& job);
struct MetricsOptions {
  std::string job;
  std::vector<std::string> metrics;  // empty: all
  uint64_t since_step = 0;
  bool csv = false;
};
int JobMetrics(Session& session, const MetricsOptions& options);

// job_follow.cc
int WatchJob(Session& session, const std::string& job);
int WaitForJob(Session& session, const std::string& job);
struct LogsOptions {
  std::string job;
  std::string worker;  // empty: the coordinator
  uint32_t tail = 100;
  bool follow = false;
};
int JobLogs(Session& session, const LogsOptions& options);

// job_steer.cc
int CancelJob(Session& session, const std::string& job, bool drain);
int PurgeJob(Session& session, const std::string& job);
int PauseJob(Session& session, const std::string& job);
int ResumeJob(Session& session, const std::string& job);
struct UpdateOptions {
  std::string job;
  std::vector<std::string> sets;           // PATH=VALUE
  std::vector<std::string> set_labels;     // KEY=VALUE
  std::vector<std::string> remove_labels;  // KEY
  std::string etag;                        // empty: no check
  bool force = false;                      // also when the update would end the job at once
};
int UpdateJob(Session& session, const UpdateOptions& options);
int RollbackJob(Session& session, const std::string& job, const std::string& checkpoint);

}  // namespace atl::cli

#endif  // ATOLL_CLI_JOB_COMMANDS_H_
