// SPDX-License-Identifier: Apache-2.0
// Estimates for a training job over a link, before anything is started: utilization, bytes, rates,
// hours, load and memory, and the settings needed for a target. Used by `atoll plan`;
// docs/planner.md describes the accuracy. Pure arithmetic.
#ifndef ATOLL_COMMON_PLAN_PLANNER_H_
#define ATOLL_COMMON_PLAN_PLANNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/plan/coordinator_needs.h"
#include "common/plan/job_spec.h"
#include "common/plan/job_validation.h"
#include "common/plan/link_model.h"
#include "common/plan/worker_memory.h"

namespace atl {

// kDataParallel: every gradient, every step. kDiloco: one fragment. kStreaming: fragments of whole blocks.
enum class PlanMethod { kDataParallel, kDiloco, kStreaming };
const char* PlanMethodName(PlanMethod method);  // "data-parallel", "diloco", "streaming"

struct PlanRequest {
  PlanMethod method = PlanMethod::kStreaming;
  uint64_t parameters = 0;
  uint64_t embedding_parameters = 0;  // part of `parameters`; a separate fragment with kStreaming; 0: not separate
  uint32_t layers = 0;
  uint32_t layers_per_fragment = 3;
  double step_seconds = 0;  // duration of one inner step without waiting
  uint32_t workers = 2;
  uint32_t inner_steps = 100;  // H; ignored with kDataParallel, like the overlap
  uint32_t overlap_steps = 0;  // tau
  CodecKind upload_codec = CodecKind::kFp32, download_codec = CodecKind::kFp32;
  ErrorMemory upload_error_memory = ErrorMemory::kOff;
  bool bf16 = false;                    // model.precision; this and the next affect only a worker's memory
  bool forms_on_gpu = false;            // a worker with a GPU forms its contributions there
  LinkCapacity link;                    // of each worker
  double target_utilization = 0.95;     // for the recommendation
  uint64_t tokens = 0;                  // of all workers; 0: no budget
  uint64_t tokens_per_worker_step = 0;  // 0: no budget
};

constexpr double kMostPlanBytesPerSecond = 1e15, kMostPlanLatencySeconds = 3600;  // of a link

// Returns all violations; `field` is the flag of `atoll plan` without its dashes. The functions
// below require a valid request.
std::vector<Violation> ValidatePlanRequest(const PlanRequest& request);

// The link job of a request. kStreaming splits blocks of equal size like MakeModelLayout (strided); else 1 fragment.
LinkJob MakeLinkJob(const PlanRequest& request, WireSize wire_size);

// The link job of a running job, from the sizes of its fragments in elements and one worker's step time
// (above 0). `spec` is resolved.
LinkJob MakeRunLinkJob(const JobSpec& spec, const std::vector<uint64_t>& fragment_elements, double step_seconds,
                       WireSize wire_size);
// CoordinatorUtilization of the job from MakeRunLinkJob on a worker's measured link, `link`. The measured rates
// already include latency.
double RunUtilization(const JobSpec& spec, const std::vector<uint64_t>& fragment_elements, double step_seconds,
                      const LinkCapacity& link, WireSize wire_size);

// A choice of codec (both directions), H and overlap, with its estimates.
struct PlanPoint {
  CodecKind codec = CodecKind::kFp32;
  uint32_t inner_steps = 1, overlap_steps = 0;
  double compute_utilization_ratio = 0;      // AllReduceUtilization: the papers' figure, an upper bound
  double coordinator_utilization_ratio = 0;  // CoordinatorUtilization: the expected value
  uint64_t bytes_per_round = 0;              // upload of one worker: the largest fragment
};

// Settings that reach the target utilization with a coordinator: the given ones if they suffice. Otherwise changes
// are tried and kept in this order: DiLoCo with H = 30 in place of data parallelism, 4 bits (mxfp4), overlap up to
// 10 steps, fragments of whole blocks, then a longer period.
struct Recommendation {
  bool reached = false;  // false: no choice up to kRecommendedInnerSteps suffices, and this is the last one tried
  PlanMethod method = PlanMethod::kStreaming;
  PlanPoint point;
  double bandwidth_bits_per_second = 0;  // needed by the given settings for the target; 0: no rate suffices (latency)
};

// The longest period that is recommended, in inner steps, unless the request has a longer one.
constexpr uint32_t kRecommendedInnerSteps = 1000;

// The smallest period with which a codec and overlap reach the target; 0: none up to
// kRecommendedInnerSteps.
struct LeastPeriod {
  CodecKind codec = CodecKind::kFp32;
  uint32_t overlap_steps = 0;
  uint32_t inner_steps = 0;
};

struct TokenBudget {
  double steps = 0;                      // of every worker
  double hours_without_link = 0;         // on an infinite link
  double hours = 0;                      // at compute_utilization_ratio
  double hours_through_coordinator = 0;  // at coordinator_utilization_ratio
  double upload_bytes = 0;               // of one worker over the whole run
  double download_bytes = 0;
};

// A period is `inner_steps` steps, with one round of every fragment.
struct CoordinatorLoad {
  double ingress_bytes_per_period = 0, egress_bytes_per_period = 0;          // of all workers
  double mean_ingress_bits_per_second = 0, mean_egress_bits_per_second = 0;  // at coordinator_utilization_ratio
  double peak_ingress_bits_per_second = 0,
         peak_egress_bits_per_second = 0;  // all workers at once, each at its link's rate
  CoordinatorNeeds needs;                  // published bounds, with `workers` as workers.max
};

// Memory of a worker with every fragment in flight, in fp32 with AdamW, without activations
// (worker_memory.h).
struct WorkerLoad {
  uint64_t memory_bytes = 0;                          // of a worker that trains on its CPU
  uint64_t gpu_memory_bytes = 0, gpu_host_bytes = 0;  // of a worker that trains on a GPU: on the GPU, and on its host
};

struct Plan {
  uint32_t fragments = 1;
  PlanPoint given;
  uint64_t download_bytes_per_round = 0;  // of one worker: the largest fragment; `given` has the upload
  uint64_t bytes_per_period = 0, download_bytes_per_period = 0;  // of one worker: all fragments
  // Upload of one worker: the rate for the largest fragment within its overlap (or within one step
  // without overlap), and the mean over a period without waiting.
  double peak_bits_per_second = 0, mean_bits_per_second = 0;
  CoordinatorLoad coordinator;
  WorkerLoad worker;
  std::optional<TokenBudget> budget;
  std::vector<PlanPoint> points;  // codecs x overlaps x periods
  std::vector<LeastPeriod> least_periods;
  Recommendation recommended;
};

Plan MakePlan(const PlanRequest& request, WireSize wire_size);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_PLANNER_H_
