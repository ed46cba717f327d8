// SPDX-License-Identifier: Apache-2.0
// Every metric of both programs in one table: name, type, unit, help and labels. docs/metrics.md is generated from it,
// a test compares the two. Names follow Prometheus' rules (base units, `_total` last, one prefix).
#ifndef ATOLL_COMMON_TELEMETRY_CATALOGUE_H_
#define ATOLL_COMMON_TELEMETRY_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace atl {

enum class Metric : uint32_t {
  // Coordinator
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
  // Worker; shown by the coordinator too, from heartbeats, with the labels job and worker or, of no job, worker alone
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
  const char* name = "";  // with prefix and unit: "atoll_round_duration_seconds"
  MetricType type = MetricType::kGauge;
  const char* unit = "";            // "seconds", "bytes", "tokens", "" for a plain number
  const char* help = "";            // one sentence
  std::vector<std::string> labels;  // in the order that values are given
  std::vector<double> buckets;      // of a histogram, ascending
  MetricHome home = MetricHome::kCoordinator;
};

// Indexed by Metric. Immutable after its first use.
const std::vector<MetricInfo>& MetricCatalogue();
const MetricInfo& InfoOf(Metric metric);
// By the name that heartbeats carry: without prefix ("train_loss"). Null when there is none, or it is not a worker's.
const MetricInfo* FindWorkerMetric(const std::string& name);
// Of a worker's: whether it has nothing to do with the job that the worker is at.
bool IsOfNoJob(Metric metric);
// The name without the prefix.
std::string HeartbeatName(Metric metric);

// The whole of docs/metrics.md.
std::string CatalogueAsMarkdown();

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_CATALOGUE_H_
