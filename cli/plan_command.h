// SPDX-License-Identifier: Apache-2.0
// `atoll plan`: prints the planner's estimates for a job on a link (common/plan/planner.h). Needs
// no coordinator.
#ifndef ATOLL_CLI_PLAN_COMMAND_H_
#define ATOLL_CLI_PLAN_COMMAND_H_

#include <string>

#include "cli/session.h"
#include "common/plan/planner.h"

namespace atl::cli {

// Flags as written; empty: not given. Required ones are never empty.
struct PlanOptions {
  std::string method = "streaming";
  std::string params, embedding_params, layers, layers_per_fragment = "3", step_seconds, workers = "2";
  std::string inner_steps = "100", overlap_steps;  // default overlap: 1 for streaming, otherwise 0
  std::string codec, download_codec;  // default: bf16 for data-parallel, otherwise mxfp4; download: like upload
  std::string upload_error_memory = "off";
  std::string precision = "fp32", form_on = "host";
  std::string bandwidth, download_bandwidth;  // default for downloads: the same as `bandwidth`
  std::string latency = "0s";
  std::string round_time = "0s";
  std::string target_utilization = "0.95";
  std::string tokens, tokens_per_step;
};

// InvalidArgument with all faults: "--params is '-1'; ...".
absl::StatusOr<PlanRequest> ParsePlanOptions(const PlanOptions& options);

int PrintPlan(Session& session, const PlanOptions& options);

}  // namespace atl::cli

#endif  // ATOLL_CLI_PLAN_COMMAND_H_
