// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/catalogue.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/check.h"

namespace atl {
namespace {

constexpr char kPrefix[] = "atoll_";

using enum MetricType;

// A row of the catalogue. `labels` are separated by spaces.
struct Row {
  Metric metric;
  const char* name;
  MetricType type;
  const char* unit;
  const char* labels;
  const char* help;
};

constexpr Row kCoordinatorRows[] = {
    {Metric::kBuildInfo, "atoll_build_info", kGauge, "", "version", "Always 1; the label has the program's version."},
    {Metric::kSeriesDropped, "atoll_metric_series_dropped_total", kCounter, "", "",
     "Values not kept because there were too many series (50,000). Served by both programs."},
    {Metric::kBoot, "atoll_boot_number", kGauge, "", "", "Incremented each time the coordinator starts."},
    {Metric::kJobs, "atoll_jobs", kGauge, "", "state", "Jobs by state."},
    {Metric::kWorkers, "atoll_workers", kGauge, "", "job state",
     "Workers of a job: alive (heard within the membership timeout), training (inner steps are taken), participating "
     "(in the newest round), not_waited_for (training over a link that is too slow for the job), missing (needed to "
     "continue; 0 while the job is paused or loads its parameters), pool (admitted by experiment.pool, if a job has "
     "it)."},
    {Metric::kRound, "atoll_round", kGauge, "", "job fragment", "Committed version of a fragment."},
    {Metric::kRoundsCompleted, "atoll_rounds_completed_total", kCounter, "", "job outcome",
     "Rounds ended, by outcome."},
    {Metric::kSyncsDropped, "atoll_syncs_dropped_total", kCounter, "", "job",
     "Syncs of workers that experiment.drop_sync_probability has lost on purpose, in committed rounds."},
    {Metric::kContributionsScreened, "atoll_contributions_screened_total", kCounter, "", "job outcome",
     "Contributions flagged by the screens: reported, clipped or refused."},
    {Metric::kWorkersQuarantined, "atoll_workers_quarantined", kGauge, "", "",
     "Workers excluded because of their contributions, until an operator readmits them. A worker that was evicted "
     "is "
     "not among them."},
    {Metric::kRoundDuration, "atoll_round_duration_seconds", kHistogram, "seconds", "job",
     "Time between two commits of one fragment."},
    {Metric::kRoundPhaseDuration, "atoll_round_phase_duration_seconds", kHistogram, "seconds", "phase",
     "Time of one phase of a round."},
    {Metric::kRoundParticipants, "atoll_round_participants", kGauge, "", "job",
     "Contributions in the newest committed round."},
    {Metric::kRoundLastSuccess, "atoll_round_last_success_timestamp_seconds", kGauge, "seconds", "job",
     "Unix time of the newest commit, also if it precedes this start of the coordinator; without a commit, when the "
     "job began."},
    {Metric::kJobStopped, "atoll_job_stopped", kGauge, "", "job",
     "1 while the job is paused until an operator fixes the cause, 0 otherwise."},
    {Metric::kJobClockStep, "atoll_job_clock_steps", kGauge, "", "job", "Job clock in inner steps."},
    {Metric::kJobTrainLoss, "atoll_job_train_loss_nats", kGauge, "nats", "job",
     "Mean training loss of the newest committed round."},
    {Metric::kJobEvaluationLoss, "atoll_job_evaluation_loss_nats", kGauge, "nats", "job",
     "Newest held-out loss of the outer parameters."},
    {Metric::kTaskAccuracy, "atoll_task_accuracy_ratio", kGauge, "", "job task",
     "Share of an evaluation task's examples for which the right choice is the most likely one to the outer "
     "parameters, newest evaluation."},
    {Metric::kTaskStandardError, "atoll_task_standard_error_ratio", kGauge, "", "job task",
     "Standard error of atoll_task_accuracy_ratio."},
    {Metric::kJobTokensCommitted, "atoll_job_committed_tokens", kGauge, "tokens", "job",
     "Tokens in committed contributions."},
    {Metric::kPseudoGradientNorm, "atoll_pseudo_gradient_norm", kGauge, "", "job",
     "Euclidean norm of the newest merged pseudo-gradient."},
    {Metric::kPseudoGradientCosine, "atoll_pseudo_gradient_cosine_ratio", kGauge, "", "job",
     "Mean cosine of contributions to the merged pseudo-gradient of the newest round."},
    {Metric::kContributionNorm, "atoll_contribution_norm", kGauge, "", "job worker fragment",
     "Euclidean norm of a worker's newest merged pseudo-gradient, as decoded."},
    {Metric::kContributionCosine, "atoll_contribution_cosine_ratio", kGauge, "", "job worker fragment",
     "Cosine of a worker's newest merged pseudo-gradient to the merge it was part of, itself included."},
    {Metric::kOthersCosine, "atoll_contribution_others_cosine_ratio", kGauge, "", "job worker fragment",
     "Mean cosine of a worker's contributions to the merge of the others, over its newest 8 rounds of three workers or "
     "more; absent before the 8th, and while none of the fragment's newest 8 rounds is one of them. "
     "Below -0.1 the worker is reported in the event log as \"worker against the others\"."},
    {Metric::kParticipation, "atoll_participation_ratio", kGauge, "", "job worker",
     "Share of the newest rounds that a connected worker was part of, since its first one: a moving mean "
     "in which the newest round has a weight of 1/32."},
    {Metric::kRoundStaleness, "atoll_round_staleness_steps", kGauge, "steps", "job fragment",
     "Inner steps of the job clock between the send of the oldest contribution of the newest round and its commit; up "
     "to the overlap no worker waited."},
    {Metric::kDownloadError, "atoll_download_error_ratio", kGauge, "", "job fragment",
     "Error of the download codec in the newest outer update (residual included), norm of the error over norm of the "
     "update; error memory sends it later."},
    {Metric::kOuterStepGain, "atoll_outer_step_gain_ratio", kGauge, "", "job fragment",
     "Effective outer step: norm of the newest outer step over norm of its merged pseudo-gradient. Steady "
     "pseudo-gradients of one direction drive it to learning_rate / (1 - momentum)."},
    {Metric::kOuterStepAlignment, "atoll_outer_step_alignment_ratio", kGauge, "", "job fragment",
     "Cosine of the newest outer step to the previous one, over at most the fragment's 64 evenly spread blocks of "
     "4096."},
    {Metric::kMomentumAlignment, "atoll_momentum_alignment_ratio", kGauge, "", "job fragment",
     "Cosine of the newest merged pseudo-gradient to the momentum before it. Below 0 the workers undo the steps of the "
     "momentum; a mean of the newest 10 rounds below -0.05 is written to the event log as \"momentum "
     "does not fit\"."},
    {Metric::kUpdatesRejected, "atoll_contributions_rejected_total", kCounter, "", "job reason",
     "Contributions refused: late (its round has closed, or its job collects none), otherwise the status code. "
     "UNAVAILABLE: "
     "the worker is to ask again."},
    {Metric::kTransferBytes, "atoll_transfer_bytes_total", kCounter, "bytes", "job worker direction kind",
     "Payload bytes over the bulk connection."},
    {Metric::kHeartbeatAge, "atoll_heartbeat_age_seconds", kGauge, "seconds", "worker",
     "Time since the last message of a worker that is connected, or was lost within the last hour."},
    {Metric::kHeartbeatGap, "atoll_heartbeat_gap_seconds", kHistogram, "seconds", "worker",
     "Time between two heartbeats of a connected worker, as they reach the coordinator's core."},
    {Metric::kLedgerCommitDuration, "atoll_ledger_commit_duration_seconds", kHistogram, "seconds", "",
     "Time of one ledger transaction, flush included."},
    {Metric::kCheckpointLastSuccess, "atoll_checkpoint_last_success_timestamp_seconds", kGauge, "seconds", "job",
     "Unix time of the newest complete checkpoint of a job with checkpoint.every_rounds, also if it precedes this "
     "start of the coordinator. Without a checkpoint, when the job began or got that setting, for a changed job not "
     "before the start of the coordinator."},
    {Metric::kDiskFreeRatio, "atoll_disk_free_ratio", kGauge, "", "",
     "Free part of the state directory's file system."},
    {Metric::kFlushUnderWay, "atoll_flush_under_way_seconds", kGauge, "seconds", "",
     "Age of the oldest unfinished flush of the coordinator's disk; 0: there is "
     "none."},
};

constexpr Row kWorkerRows[] = {
    {Metric::kTrainLoss, "atoll_train_loss_nats", kGauge, "nats", "", "Training loss of the newest inner step."},
    {Metric::kLearningRate, "atoll_learning_rate", kGauge, "", "", "Inner learning rate of the newest step."},
    {Metric::kGradNorm, "atoll_gradient_norm", kGauge, "", "", "Global gradient norm before clipping, newest step."},
    {Metric::kInnerStep, "atoll_inner_step", kGauge, "", "", "Job clock of the worker."},
    {Metric::kTokens, "atoll_trained_tokens_total", kCounter, "tokens", "", "Tokens trained by this process."},
    {Metric::kTokensPerSecond, "atoll_tokens_per_second", kGauge, "", "", "Recent training rate."},
    {Metric::kComputeUtilization, "atoll_compute_utilization_ratio", kGauge, "", "",
     "Share of wall time spent in inner steps, the rest being waits for samples and updates and the work of syncs, "
     "over "
     "about the newest 500 steps."},
    {Metric::kUploadRate, "atoll_upload_bytes_per_second", kGauge, "", "",
     "Recent rate of finished uploads of at least 256 KiB, from request to acceptance; absent before the first."},
    {Metric::kDownloadRate, "atoll_download_bytes_per_second", kGauge, "", "",
     "Recent rate of finished downloads of at least 256 KiB, from request to last byte; absent before the first."},
    {Metric::kUploadError, "atoll_upload_error_ratio", kGauge, "", "",
     "Error of the upload codec in the newest contribution (residual included), norm of the error over norm of the "
     "contribution; error memory sends it later. Without error memory it is estimated from at most 64 blocks of the "
     "fragment."},
    {Metric::kStepDuration, "atoll_step_duration_seconds", kHistogram, "seconds", "", "Time of one inner step."},
    {Metric::kDataWait, "atoll_data_wait_seconds_total", kCounter, "seconds", "",
     "Time the training thread waited for samples."},
    {Metric::kSyncWait, "atoll_sync_wait_seconds_total", kCounter, "seconds", "",
     "Time the training thread waited for updates."},
    {Metric::kSyncWork, "atoll_sync_work_seconds_total", kCounter, "seconds", "",
     "Time between steps in which the training thread worked: snapshots, applying, merging, evaluating."},
    {Metric::kNonFiniteSteps, "atoll_non_finite_steps_total", kCounter, "", "",
     "Inner steps undone because loss or gradient was not finite."},
    {Metric::kCertificateEnd, "atoll_certificate_end_timestamp_seconds", kGauge, "seconds", "",
     "Unix time at which the worker's certificate expires; it is renewed at half of its lifetime; absent without a "
     "certificate. The "
     "coordinator shows it with the label worker alone, also of workers without a job."},
};

// Returns the buckets of a histogram. Disk flushes are short, and heartbeats arrive within some
// seconds (one bound is a quarter of the default membership timeout). Everything else may take
// minutes.
std::vector<double> BucketsOf(const Row& row) {
  if (row.type != kHistogram) return {};
  if (row.metric == Metric::kLedgerCommitDuration) {
    return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2};
  }
  if (row.metric == Metric::kHeartbeatGap) return {0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 30, 60};
  return {0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600};
}

void AddRows(std::span<const Row> rows, MetricHome home, std::vector<MetricInfo>& catalogue) {
  for (const Row& row : rows) {
    std::vector<std::string> labels = absl::StrSplit(row.labels, ' ', absl::SkipEmpty());
    catalogue.push_back({row.metric, row.name, row.type, row.unit, row.help, std::move(labels), BucketsOf(row), home});
  }
}

std::vector<MetricInfo> MakeCatalogue() {
  std::vector<MetricInfo> catalogue;
  AddRows(kCoordinatorRows, MetricHome::kCoordinator, catalogue);
  AddRows(kWorkerRows, MetricHome::kWorker, catalogue);
  return catalogue;
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

bool IsOfNoJob(Metric metric) { return metric == Metric::kCertificateEnd; }

std::string HeartbeatName(Metric metric) { return InfoOf(metric).name + std::strlen(kPrefix); }

}  // namespace atl
