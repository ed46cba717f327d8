// SPDX-License-Identifier: Apache-2.0
// Every metric of both programs in one table: name, type, unit, help and labels. docs/metrics.md is
// generated from it, and a test compares the two. Names follow the Prometheus rules (base units,
// `_total` last, one prefix).
#ifndef ATOLL_COMMON_TELEMETRY_CATALOGUE_H_
#define ATOLL_COMMON_TELEMETRY_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace atl {

enum class Metric : uint32_t {
  // Metrics of the coordinator; after each one, its labels
  kBuildInfo,  // version
  kSeriesDropped,
  kBoot,
  kJobs,                   // state
  kWorkers,                // job, state: alive, training, participating, not_waited_for, missing, pool
  kRound,                  // job, fragment
  kRoundsCompleted,        // job, outcome: committed, extended
  kSyncsDropped,           // job
  kContributionsScreened,  // job, outcome
  kWorkersQuarantined,
  kRoundDuration,         // job
  kRoundPhaseDuration,    // phase: gather, aggregate, commit
  kRoundParticipants,     // job
  kRoundLastSuccess,      // job
  kJobStopped,            // job
  kJobClockStep,          // job
  kJobTrainLoss,          // job: mean of the newest committed round
  kJobEvaluationLoss,     // job
  kTaskAccuracy,          // job, task
  kTaskStandardError,     // job, task
  kJobTokensCommitted,    // job
  kPseudoGradientNorm,    // job
  kPseudoGradientCosine,  // job
  kContributionNorm,      // job, worker, fragment
  kContributionCosine,    // job, worker, fragment
  kOthersCosine,          // job, worker, fragment
  kParticipation,         // job, worker
  kRoundStaleness,        // job, fragment
  kDownloadError,         // job, fragment
  kOuterStepGain,         // job, fragment
  kOuterStepAlignment,    // job, fragment
  kMomentumAlignment,     // job, fragment
  kUpdatesRejected,       // job, reason: late, status codes
  kTransferBytes,         // job, worker, direction: upload, download; kind: contribution, update, fragment, block, blob
  kHeartbeatAge,          // worker
  kHeartbeatGap,          // worker
  kLedgerCommitDuration,
  kCheckpointLastSuccess,  // job
  kDiskFreeRatio,
  kFlushUnderWay,
  // Worker; also exported by the coordinator, from heartbeats, with the labels job and worker (only
  // worker if IsOfNoJob)
  kTrainLoss,
  kLearningRate,
  kGradNorm,
  kInnerStep,
  kTokens,
  kTokensPerSecond,
  kComputeUtilization,
  kUploadRate,
  kDownloadRate,
  kUploadError,
  kStepDuration,
  kDataWait,
  kSyncWait,
  kSyncWork,
  kNonFiniteSteps,
  kCertificateEnd,
  kCount
};

enum class MetricType { kCounter, kGauge, kHistogram };
enum class MetricHome { kCoordinator, kWorker };

struct MetricInfo {
  Metric metric = Metric::kCount;
  const char* name = "";  // including prefix and unit: "atoll_round_duration_seconds"
  MetricType type = MetricType::kGauge;
  const char* unit = "";            // "seconds", "bytes", "tokens", or "" for a plain number
  const char* help = "";            // one sentence
  std::vector<std::string> labels;  // in the order of the values
  std::vector<double> buckets;      // upper bounds of a histogram, ascending
  MetricHome home = MetricHome::kCoordinator;
};

// Indexed by Metric. Immutable after its first use.
const std::vector<MetricInfo>& MetricCatalogue();
const MetricInfo& InfoOf(Metric metric);
// Finds a worker's metric by its name in heartbeats, without prefix ("train_loss"). Null for other
// names.
const MetricInfo* FindWorkerMetric(const std::string& name);
// True for a worker's metric that is independent of the worker's job.
bool IsOfNoJob(Metric metric);
// Returns the name without the prefix.
std::string HeartbeatName(Metric metric);

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_CATALOGUE_H_
