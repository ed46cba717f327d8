#include "worker/daemon/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/telemetry/routes.h"

namespace atl {

void StepMetrics::Record(const StepTaken& step) {
  const double seconds = ToSeconds(step.took);
  metrics_.Observe(Metric::kStepDuration, seconds);
  metrics_.Add(Metric::kDataWait, ToSeconds(step.data_wait));
  metrics_.Add(Metric::kSyncWait, ToSeconds(step.sync_wait));
  metrics_.Set(Metric::kInnerStep, static_cast<double>(step.clock_step));
  metrics_.Set(Metric::kLearningRate, step.learning_rate);
  if (!step.outcome.applied) {
    metrics_.Add(Metric::kNonFiniteSteps, 1);
    return;
  }
  metrics_.Set(Metric::kTrainLoss, step.outcome.loss);
  metrics_.Set(Metric::kGradNorm, step.outcome.grad_norm);
  metrics_.Add(Metric::kTokens, static_cast<double>(step.outcome.tokens));
  const double whole = seconds + ToSeconds(step.data_wait) + ToSeconds(step.sync_wait);
  if (whole <= 0) return;
  const double rate = static_cast<double>(step.outcome.tokens) / whole;
  tokens_per_second_ = tokens_per_second_ == 0 ? rate : 0.9 * tokens_per_second_ + 0.1 * rate;
  metrics_.Set(Metric::kTokensPerSecond, tokens_per_second_);
}

absl::StatusOr<std::unique_ptr<HttpServer>> ServeAdmin(const WorkerOptions& options, Metrics& metrics, Files& files,
                                                       std::function<absl::Status()> ready) {
  if (!options.admin) return std::unique_ptr<HttpServer>();
  HttpServerOptions http;
  http.address = options.admin_address;
  http.port = static_cast<int>(options.admin_port);
  const ProbeHandlers probes{[] { return absl::OkStatus(); }, std::move(ready)};
  ATOLL_ASSIGN_OR_RETURN(auto server, HttpServer::Start(http, StandardRoutes(metrics, probes, {})));
  if (!options.ports_file.empty()) {
    const std::string text = absl::StrCat("{\"admin\": ", server->port(), "}\n");
    ATOLL_RETURN_IF_ERROR(WriteFileAtomically(files, options.ports_file, AsBytes(text)));
  }
  return server;
}

}  // namespace atl
