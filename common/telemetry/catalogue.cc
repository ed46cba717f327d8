#include "common/telemetry/catalogue.h"

#include <cstring>

#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace atl {
namespace {

constexpr char kPrefix[] = "atoll_";

std::vector<double> Durations() {
  return {0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600};
}
std::vector<double> Flushes() { return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2}; }

std::vector<MetricInfo> MakeCatalogue() {
  constexpr auto kCounter = MetricType::kCounter;
  constexpr auto kGauge = MetricType::kGauge;
  constexpr auto kHistogram = MetricType::kHistogram;
  constexpr auto kWorkerHome = MetricHome::kWorker;
  return {
      {Metric::kBuildInfo,
       "atoll_build_info",
       kGauge,
       "",
       "Always 1; the label says which program runs.",
       {"version"},
       {},
       MetricHome::kCoordinator},
      {Metric::kBoot,
       "atoll_boot_number",
       kGauge,
       "",
       "Raised each time the coordinator starts.",
       {},
       {},
       MetricHome::kCoordinator},
      {Metric::kJobs, "atoll_jobs", kGauge, "", "Jobs by state.", {"state"}, {}, MetricHome::kCoordinator},
      {Metric::kWorkers,
       "atoll_workers",
       kGauge,
       "",
       "Workers of a job: alive (heartbeats come), training (inner steps are taken), participating (in the newest "
       "round).",
       {"job", "state"},
       {},
       MetricHome::kCoordinator},
      {Metric::kRound,
       "atoll_round",
       kGauge,
       "",
       "Committed version of a fragment.",
       {"job", "fragment"},
       {},
       MetricHome::kCoordinator},
      {Metric::kRoundsCompleted,
       "atoll_rounds_completed_total",
       kCounter,
       "",
       "Rounds ended, by outcome.",
       {"job", "outcome"},
       {},
       MetricHome::kCoordinator},
      {Metric::kRoundDuration,
       "atoll_round_duration_seconds",
       kHistogram,
       "seconds",
       "Time between two commits of one fragment.",
       {"job"},
       Durations(),
       MetricHome::kCoordinator},
      {Metric::kRoundPhaseDuration,
       "atoll_round_phase_duration_seconds",
       kHistogram,
       "seconds",
       "Time of one phase of a round.",
       {"phase"},
       Durations(),
       MetricHome::kCoordinator},
      {Metric::kRoundParticipants,
       "atoll_round_participants",
       kGauge,
       "",
       "Contributions in the newest committed round.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kRoundLastSuccess,
       "atoll_round_last_success_timestamp_seconds",
       kGauge,
       "seconds",
       "Unix time of the newest commit.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kJobClockStep,
       "atoll_job_clock_steps",
       kGauge,
       "",
       "Job clock in inner steps.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kJobTrainLoss,
       "atoll_job_train_loss_nats",
       kGauge,
       "nats",
       "Mean training loss of the newest committed round.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kJobEvaluationLoss,
       "atoll_job_evaluation_loss_nats",
       kGauge,
       "nats",
       "Newest held-out loss of the outer parameters.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kJobTokensCommitted,
       "atoll_job_committed_tokens",
       kGauge,
       "tokens",
       "Tokens in committed contributions.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kPseudoGradientNorm,
       "atoll_pseudo_gradient_norm",
       kGauge,
       "",
       "Euclidean norm of the newest merged pseudo-gradient.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kPseudoGradientCosine,
       "atoll_pseudo_gradient_cosine_ratio",
       kGauge,
       "",
       "Mean cosine of contributions to the merged pseudo-gradient of the newest round.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kUpdatesRejected,
       "atoll_contributions_rejected_total",
       kCounter,
       "",
       "Contributions refused, by status code.",
       {"job", "reason"},
       {},
       MetricHome::kCoordinator},
      {Metric::kTransferBytes,
       "atoll_transfer_bytes_total",
       kCounter,
       "bytes",
       "Payload bytes over the bulk connection.",
       {"job", "worker", "direction", "kind"},
       {},
       MetricHome::kCoordinator},
      {Metric::kTransferRawBytes,
       "atoll_transfer_raw_bytes_total",
       kCounter,
       "bytes",
       "The same payload in fp32, before the codec.",
       {"job", "direction"},
       {},
       MetricHome::kCoordinator},
      {Metric::kHeartbeatAge,
       "atoll_heartbeat_age_seconds",
       kGauge,
       "seconds",
       "Time since a connected worker was heard.",
       {"worker"},
       {},
       MetricHome::kCoordinator},
      {Metric::kLedgerCommitDuration,
       "atoll_ledger_commit_duration_seconds",
       kHistogram,
       "seconds",
       "Time of one ledger transaction, flush included.",
       {},
       Flushes(),
       MetricHome::kCoordinator},
      {Metric::kLogSyncDuration,
       "atoll_round_log_sync_duration_seconds",
       kHistogram,
       "seconds",
       "Time of one flush of the round log.",
       {},
       Flushes(),
       MetricHome::kCoordinator},
      {Metric::kCheckpointLastBytes,
       "atoll_checkpoint_last_bytes",
       kGauge,
       "bytes",
       "Parameter bytes of the newest checkpoint.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kCheckpointLastSuccess,
       "atoll_checkpoint_last_success_timestamp_seconds",
       kGauge,
       "seconds",
       "Unix time of the newest complete checkpoint.",
       {"job"},
       {},
       MetricHome::kCoordinator},
      {Metric::kDiskFreeRatio,
       "atoll_disk_free_ratio",
       kGauge,
       "",
       "Free part of the state directory's file system.",
       {},
       {},
       MetricHome::kCoordinator},
      {Metric::kEngineMailboxEvents,
       "atoll_engine_mailbox_events",
       kGauge,
       "",
       "Events waiting for the engine.",
       {},
       {},
       MetricHome::kCoordinator},
      {Metric::kHttpRequests,
       "atoll_http_requests_total",
       kCounter,
       "",
       "Requests to the admin endpoint.",
       {"path", "code"},
       {},
       MetricHome::kCoordinator},
      {Metric::kTrainLoss,
       "atoll_train_loss_nats",
       kGauge,
       "nats",
       "Training loss of the newest inner step.",
       {},
       {},
       kWorkerHome},
      {Metric::kLearningRate,
       "atoll_learning_rate",
       kGauge,
       "",
       "Inner learning rate of the newest step.",
       {},
       {},
       kWorkerHome},
      {Metric::kGradNorm,
       "atoll_gradient_norm",
       kGauge,
       "",
       "Global gradient norm before clipping, newest step.",
       {},
       {},
       kWorkerHome},
      {Metric::kInnerStep, "atoll_inner_step", kGauge, "", "Job clock of the worker.", {}, {}, kWorkerHome},
      {Metric::kTokens,
       "atoll_trained_tokens_total",
       kCounter,
       "tokens",
       "Tokens trained by this process.",
       {},
       {},
       kWorkerHome},
      {Metric::kTokensPerSecond, "atoll_tokens_per_second", kGauge, "", "Recent training rate.", {}, {}, kWorkerHome},
      {Metric::kStepDuration,
       "atoll_step_duration_seconds",
       kHistogram,
       "seconds",
       "Time of one inner step.",
       {},
       Durations(),
       kWorkerHome},
      {Metric::kDataWait,
       "atoll_data_wait_seconds_total",
       kCounter,
       "seconds",
       "Time the training thread waited for samples.",
       {},
       {},
       kWorkerHome},
      {Metric::kSyncWait,
       "atoll_sync_wait_seconds_total",
       kCounter,
       "seconds",
       "Time the training thread waited for updates.",
       {},
       {},
       kWorkerHome},
      {Metric::kNonFiniteSteps,
       "atoll_non_finite_steps_total",
       kCounter,
       "",
       "Inner steps undone because loss or gradient was not finite.",
       {},
       {},
       kWorkerHome},
  };
}

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kHistogram: return "histogram";
  }
  return "gauge";
}

}  // namespace

const std::vector<MetricInfo>& MetricCatalogue() {
  static const std::vector<MetricInfo> kCatalogue = [] {
    std::vector<MetricInfo> catalogue = MakeCatalogue();
    ATOLL_CHECK(catalogue.size() == static_cast<size_t>(Metric::kCount), "every metric has one entry");
    for (size_t i = 0; i < catalogue.size(); ++i)
      ATOLL_CHECK(static_cast<size_t>(catalogue[i].metric) == i, "entries are in the order of the enum");
    return catalogue;
  }();
  return kCatalogue;
}

const MetricInfo& InfoOf(Metric metric) { return MetricCatalogue()[static_cast<size_t>(metric)]; }

const MetricInfo* FindWorkerMetric(const std::string& name) {
  for (const MetricInfo& info : MetricCatalogue()) {
    if (info.home == MetricHome::kWorker && name == info.name + std::strlen(kPrefix)) return &info;
  }
  return nullptr;
}

std::string HeartbeatName(Metric metric) { return InfoOf(metric).name + std::strlen(kPrefix); }

std::string CatalogueAsMarkdown() {
  std::string out =
      "# Metrics\n\nMade from `common/telemetry/catalogue.cc`; a test compares the two. To renew this page:\n"
      "`ATOLL_WRITE_DOCS=1 build/dev/bin/telemetry_test --gtest_filter='MetricsPageTest.*'`.\n\n"
      "The coordinator serves them under `/metrics` of its admin port. Metrics of a worker are served by the worker "
      "itself and,\n"
      "from its heartbeats, by the coordinator too, with the labels `job` and `worker`, until the worker is gone.\n";
  for (const MetricHome home : {MetricHome::kCoordinator, MetricHome::kWorker}) {
    out += home == MetricHome::kCoordinator ? "\n## Coordinator\n\n" : "\n## Worker\n\n";
    out += "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
    for (const MetricInfo& info : MetricCatalogue()) {
      if (info.home != home) continue;
      out += absl::StrCat("| `", info.name, "` | ", TypeName(info.type), " | ", info.unit, " | ",
                          absl::StrJoin(info.labels, ", "), " | ", info.help, " |\n");
    }
  }
  return out;
}

}  // namespace atl
