// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/telemetry/routes.h"

namespace atl {
namespace {

constexpr double kFading = 499.0 / 500;  // per step: sums of about 500 steps, so that a period's wait averages out

}  // namespace

StepMetrics::StepMetrics(Metrics& metrics) : metrics_(metrics) { metrics_.Add(Metric::kNonFiniteSteps, 0); }

void StepMetrics::Record(const StepTaken& step) {
  const double seconds = ToSeconds(step.took);
  metrics_.Observe(Metric::kStepDuration, seconds);
  metrics_.Add(Metric::kDataWait, ToSeconds(step.data_wait));
  metrics_.Add(Metric::kSyncWait, ToSeconds(step.sync_wait));
  metrics_.Add(Metric::kSyncWork, ToSeconds(step.sync_work));
  metrics_.Set(Metric::kInnerStep, static_cast<double>(step.clock_step));
  metrics_.Set(Metric::kLearningRate, step.learning_rate);
  const double whole = seconds + ToSeconds(step.data_wait + step.sync_wait + step.sync_work);
  if (step.clock_step < clock_step_) computed_seconds_ = whole_seconds_ = 0;  // another job, or a rollback
  clock_step_ = step.clock_step;
  RecordUtilization(seconds, whole);
  if (!step.outcome.applied) {
    metrics_.Add(Metric::kNonFiniteSteps, 1);
    return;
  }
  metrics_.Set(Metric::kTrainLoss, step.outcome.loss);
  metrics_.Set(Metric::kGradNorm, step.outcome.grad_norm);
  metrics_.Add(Metric::kTokens, static_cast<double>(step.outcome.tokens));
  if (whole <= 0) return;
  const double rate = static_cast<double>(step.outcome.tokens) / whole;
  tokens_per_second_ = tokens_per_second_ == 0 ? rate : 0.9 * tokens_per_second_ + 0.1 * rate;
  metrics_.Set(Metric::kTokensPerSecond, tokens_per_second_);
}

// A ratio of sums: with the mean of per-step ratios, one long wait in a period would count as one step only.
void StepMetrics::RecordUtilization(double computed_seconds, double whole_seconds) {
  computed_seconds_ = kFading * computed_seconds_ + computed_seconds;
  whole_seconds_ = kFading * whole_seconds_ + whole_seconds;
  if (whole_seconds_ > 0) metrics_.Set(Metric::kComputeUtilization, computed_seconds_ / whole_seconds_);
}

void RecordLinkRates(const LinkTotals& totals, Metrics& metrics) {
  if (totals.upload_bytes_per_second > 0) metrics.Set(Metric::kUploadRate, totals.upload_bytes_per_second);
  if (totals.download_bytes_per_second > 0) metrics.Set(Metric::kDownloadRate, totals.download_bytes_per_second);
}

absl::StatusOr<std::unique_ptr<HttpServer>> ServeAdmin(const WorkerOptions& options, Metrics& metrics, Files& files,
                                                       std::function<absl::Status()> ready) {
  if (!options.admin) return std::unique_ptr<HttpServer>();
  ATOLL_ASSIGN_OR_RETURN(const HttpServerOptions http,
                         AdminServerOptions(files, options.admin_address, options.admin_port, options.admin_token));
  const ProbeHandlers probes{[] { return absl::OkStatus(); }, std::move(ready)};
  ATOLL_ASSIGN_OR_RETURN(auto server, HttpServer::Start(http, StandardRoutes(metrics, probes, {})));
  if (!options.ports_file.empty()) {
    const std::string text = absl::StrCat("{\"admin\": ", server->port(), "}\n");
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files, options.ports_file, AsBytes(text)));
  }
  return server;
}

}  // namespace atl
