// SPDX-License-Identifier: Apache-2.0
#include "common/plan/planner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/limits.h"
#include "common/plan/plan_search.h"

namespace atl {
namespace {

constexpr double kMostStepSeconds = 1e6, kLeastStepSeconds = 1e-6;
constexpr uint32_t kMostInnerSteps = 1'000'000;  // same bound as sync.inner_steps
constexpr double kBits = 8;

class Report {
 public:
  void Require(bool holds, const char* field, std::string problem) {
    if (!holds) violations_.push_back({field, std::move(problem)});
  }
  void Range(const char* field, uint64_t value, uint64_t low, uint64_t high) {
    Require(value >= low && value <= high, field, absl::StrCat("is ", value, "; it must be from ", low, " to ", high));
  }
  // Also refuses NaN, for which every comparison is false.
  void Real(const char* field, double value, double low, double high) {
    Require(value >= low && value <= high, field, absl::StrCat("is ", value, "; it must be from ", low, " to ", high));
  }
  std::vector<Violation> Take() { return std::move(violations_); }

 private:
  std::vector<Violation> violations_;
};

bool IsDataParallel(const PlanRequest& request) { return request.method == PlanMethod::kDataParallel; }

uint32_t FragmentsOf(const PlanRequest& request) {
  if (request.method != PlanMethod::kStreaming) return 1;
  const uint32_t groups = (request.layers + request.layers_per_fragment - 1) / request.layers_per_fragment;
  return groups + (request.embedding_parameters > 0 ? 1 : 0);
}

// Number of elements of each part of the model in order of use: embeddings first if they are
// separate, then the blocks.
std::vector<uint64_t> UnitElements(const PlanRequest& request) {
  std::vector<uint64_t> elements;
  if (request.embedding_parameters > 0) elements.push_back(request.embedding_parameters);
  const uint64_t blocks = request.parameters - request.embedding_parameters;
  for (uint64_t layer = 0; layer < request.layers; ++layer)
    elements.push_back(blocks / request.layers + (layer < blocks % request.layers ? 1 : 0));
  return elements;
}

// Fragment of each part: blocks strided, embeddings last.
std::vector<uint32_t> UnitFragments(const PlanRequest& request) {
  const uint32_t fragments = FragmentsOf(request);
  const bool apart = request.embedding_parameters > 0;
  const uint32_t groups = apart && fragments > 1 ? fragments - 1 : fragments;
  std::vector<uint32_t> out;
  if (apart) out.push_back(fragments - 1);
  for (uint32_t layer = 0; layer < request.layers; ++layer) out.push_back(layer % groups);
  return out;
}

std::vector<uint64_t> FragmentElements(const PlanRequest& request) {
  const std::vector<uint64_t> elements = UnitElements(request);
  const std::vector<uint32_t> fragment_of = UnitFragments(request);
  std::vector<uint64_t> out(FragmentsOf(request), 0);
  for (size_t u = 0; u < elements.size(); ++u) out[fragment_of[u]] += elements[u];
  return out;
}

JobSizes SizesOf(const PlanRequest& request, const Plan& plan) {
  return {.parameters = request.parameters,
          .fragments = plan.fragments,
          .contribution_bytes = plan.bytes_per_period,
          .largest_contribution_bytes = plan.given.bytes_per_round,
          .update_bytes = plan.download_bytes_per_period};
}

CoordinatorLoad LoadOf(const PlanRequest& request, const Plan& plan) {
  const double workers = request.workers;
  const double period_seconds =
      plan.given.inner_steps * request.step_seconds / plan.given.coordinator_utilization_ratio;
  CoordinatorLoad load;
  load.ingress_bytes_per_period = workers * static_cast<double>(plan.bytes_per_period);
  load.egress_bytes_per_period = workers * static_cast<double>(plan.download_bytes_per_period);
  load.mean_ingress_bits_per_second = kBits * load.ingress_bytes_per_period / period_seconds;
  load.mean_egress_bits_per_second = kBits * load.egress_bytes_per_period / period_seconds;
  load.peak_ingress_bits_per_second = kBits * workers * request.link.upload_bytes_per_second;
  load.peak_egress_bits_per_second = kBits * workers * request.link.download_bytes_per_second;
  JobSpec spec;
  spec.workers.max = request.workers;
  spec.stop.inner_steps = plan.given.inner_steps;
  load.needs = NeedsOf(spec, SizesOf(request, plan));
  return load;
}

WorkerLoad WorkerLoadOf(const PlanRequest& request, uint64_t largest_fragment, WireSize wire_size) {
  WorkerMemoryJob job;
  job.parameters = request.parameters;
  job.largest_fragment = largest_fragment;
  job.bf16 = request.bf16;
  job.upload_codec = request.upload_codec;
  job.download_codec = request.download_codec;
  job.upload_error_memory = request.upload_error_memory;
  const auto cpu = WorkerMemoryItems(job, {.gpu = false}, wire_size),
             gpu = WorkerMemoryItems(job, {.gpu = true, .forms = request.forms_on_gpu}, wire_size);
  return {HeldBytes(cpu, MemoryPlace::kHost), HeldBytes(gpu, MemoryPlace::kGpu), HeldBytes(gpu, MemoryPlace::kHost)};
}

TokenBudget BudgetOf(const PlanRequest& request, const Plan& plan) {
  const double tokens_per_step = static_cast<double>(request.tokens_per_worker_step) * request.workers;
  TokenBudget budget;
  budget.steps = std::ceil(static_cast<double>(request.tokens) / tokens_per_step);
  budget.hours_without_link = budget.steps * request.step_seconds / 3600;
  budget.hours = budget.hours_without_link / plan.given.compute_utilization_ratio;
  budget.hours_through_coordinator = budget.hours_without_link / plan.given.coordinator_utilization_ratio;
  const double periods = budget.steps / plan.given.inner_steps;
  budget.upload_bytes = periods * static_cast<double>(plan.bytes_per_period);
  budget.download_bytes = periods * static_cast<double>(plan.download_bytes_per_period);
  return budget;
}

void AddBytes(const PlanRequest& request, const LinkJob& job, Plan& plan) {
  for (const LinkFragment& fragment : job.fragments) {
    const uint64_t up = static_cast<uint64_t>(fragment.upload_bytes);
    const uint64_t down = static_cast<uint64_t>(fragment.download_bytes);
    plan.download_bytes_per_round = std::max(plan.download_bytes_per_round, down);
    plan.bytes_per_period += up;
    plan.download_bytes_per_period += down;
  }
  const double window_seconds = std::max(1u, job.overlap_steps) * request.step_seconds;
  plan.peak_bits_per_second = kBits * static_cast<double>(plan.given.bytes_per_round) / window_seconds;
  plan.mean_bits_per_second =
      kBits * static_cast<double>(plan.bytes_per_period) / (job.inner_steps * request.step_seconds);
}

}  // namespace

const char* PlanMethodName(PlanMethod method) {
  switch (method) {
    case PlanMethod::kDataParallel: return "data-parallel";
    case PlanMethod::kDiloco: return "diloco";
    case PlanMethod::kStreaming: return "streaming";
  }
  ATOLL_CHECK(false, "a method outside the enumeration");
}

std::vector<Violation> ValidatePlanRequest(const PlanRequest& r) {
  Report report;
  report.Range("params", r.parameters, 1, limits::kParameters);
  report.Range("layers", r.layers, 1, limits::kLayers);
  report.Require(r.embedding_parameters < std::max<uint64_t>(1, r.parameters), "embedding-params",
                 absl::StrCat("is ", r.embedding_parameters, "; it must be below --params (", r.parameters, ")"));
  report.Require(
      r.parameters - std::min(r.parameters, r.embedding_parameters) >= r.layers, "params",
      absl::StrCat("leaves less than one parameter for each of ", r.layers, " layers; raise it, or lower --layers"));
  report.Range("layers-per-fragment", r.layers_per_fragment, 1, limits::kLayers);
  report.Real("step-seconds", r.step_seconds, kLeastStepSeconds, kMostStepSeconds);
  report.Range("workers", r.workers, 1, limits::kWorkers);
  if (!IsDataParallel(r)) {
    report.Range("inner-steps", r.inner_steps, 1, kMostInnerSteps);
    report.Require(r.inner_steps == 0 || r.overlap_steps < r.inner_steps, "overlap-steps",
                   absl::StrCat("is ", r.overlap_steps, "; it must be below --inner-steps (", r.inner_steps, ")"));
  }
  report.Real("bandwidth", r.link.upload_bytes_per_second, 1, kMostPlanBytesPerSecond);
  report.Real("download-bandwidth", r.link.download_bytes_per_second, 1, kMostPlanBytesPerSecond);
  report.Real("latency", r.link.latency_seconds, 0, kMostPlanLatencySeconds);
  report.Real("round-time", r.link.round_seconds, 0, kMostPlanLatencySeconds);
  report.Require(r.target_utilization > 0 && r.target_utilization < 1, "target-utilization",
                 absl::StrCat("is ", r.target_utilization, "; it must be above 0 and below 1, such as 0.95"));
  const std::string both = "is 0 or missing; give both --tokens and --tokens-per-step, above 0, or neither";
  report.Require(r.tokens > 0 || r.tokens_per_worker_step == 0, "tokens", both);
  report.Require(r.tokens_per_worker_step > 0 || r.tokens == 0, "tokens-per-step", both);
  return report.Take();
}

LinkJob MakeLinkJob(const PlanRequest& request, WireSize wire_size) {
  const std::vector<uint64_t> elements = UnitElements(request);
  const std::vector<uint32_t> fragment_of = UnitFragments(request);
  const std::vector<uint64_t> fragment_elements = FragmentElements(request);
  LinkJob job;
  job.inner_steps = IsDataParallel(request) ? 1 : request.inner_steps;
  job.overlap_steps = IsDataParallel(request) ? 0 : request.overlap_steps;
  for (const uint64_t n : fragment_elements) {
    job.fragments.push_back({static_cast<double>(wire_size(request.upload_codec, n)),
                             static_cast<double>(wire_size(request.download_codec, n))});
  }
  const double block_seconds = request.step_seconds / request.layers;
  const size_t first_block = elements.size() - request.layers;
  for (size_t u = 0; u < elements.size(); ++u) {
    const uint32_t p = fragment_of[u];
    const double share = static_cast<double>(elements[u]) / static_cast<double>(fragment_elements[p]);
    job.units.push_back({p, u < first_block ? 0 : block_seconds, share * job.fragments[p].upload_bytes});
  }
  return job;
}

// CoordinatorUtilization depends only on the time of a whole step, so the step is one unit.
LinkJob MakeRunLinkJob(const JobSpec& spec, const std::vector<uint64_t>& fragment_elements, double step_seconds,
                       WireSize wire_size) {
  LinkJob job;
  job.inner_steps = std::max(1u, spec.sync.inner_steps);
  job.overlap_steps = std::min(spec.sync.overlap_steps, job.inner_steps - 1);
  job.units.push_back({.fragment = 0, .compute_seconds = step_seconds, .upload_bytes = 0});
  for (const uint64_t elements : fragment_elements) {
    job.fragments.push_back({static_cast<double>(wire_size(spec.sync.upload_codec, elements)),
                             static_cast<double>(wire_size(spec.sync.download_codec, elements))});
  }
  return job;
}

double RunUtilization(const JobSpec& spec, const std::vector<uint64_t>& fragment_elements, double step_seconds,
                      const LinkCapacity& link, WireSize wire_size) {
  return CoordinatorUtilization(MakeRunLinkJob(spec, fragment_elements, step_seconds, wire_size), link);
}

Plan MakePlan(const PlanRequest& request, WireSize wire_size) {
  ATOLL_CHECK(ValidatePlanRequest(request).empty(), "a plan is made of a valid request");
  const LinkJob job = MakeLinkJob(request, wire_size);
  Plan plan;
  plan.fragments = static_cast<uint32_t>(job.fragments.size());
  plan.given = PointOf(request, wire_size);
  AddBytes(request, job, plan);
  plan.coordinator = LoadOf(request, plan);
  const std::vector<uint64_t> fragments = FragmentElements(request);
  plan.worker = WorkerLoadOf(request, *std::max_element(fragments.begin(), fragments.end()), wire_size);
  if (request.tokens > 0) plan.budget = BudgetOf(request, plan);
  plan.points = PlanPoints(request, wire_size);
  plan.least_periods = LeastPeriods(request, wire_size);
  plan.recommended = Recommend(request, wire_size);
  return plan;
}

}  // namespace atl
