// SPDX-License-Identifier: Apache-2.0
#include "common/preflight/job_fit.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/codec/codec.h"
#include "common/plan/model_layout.h"
#include "common/plan/planner.h"
#include "common/plan/worker_memory.h"

namespace atl {
namespace {

constexpr double kShortestStep_s = 1e-3, kLongestStep_s = 1e5;

std::vector<uint64_t> FragmentElements(const JobSpec& spec) {
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  std::vector<uint64_t> elements;
  elements.reserve(layout.fragments.size());
  for (const FragmentInfo& fragment : layout.fragments) elements.push_back(fragment.elements);
  return elements;
}

// Returns the shortest inner step, of kShortestStep_s or more, for which the link keeps a worker at kGoodUtilization;
// kLongestStep_s if no shorter one suffices.
double ShortestGoodStep(const JobOffer& offer, const std::vector<uint64_t>& elements, const LinkCapacity& link) {
  double low = kShortestStep_s, high = kLongestStep_s;
  const auto good = [&](double step) {
    return RunUtilization(offer.spec, elements, step, link, &EncodedSize) >= kGoodUtilization;
  };
  if (good(low)) return low;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (good(middle) ? high : low) = middle;
  }
  return high;
}

// Describes the uploaded and downloaded bytes of one period.
std::string TrafficText(const JobSpec& spec, const std::vector<uint64_t>& elements) {
  double up = 0, down = 0;
  for (const uint64_t n : elements) {
    up += static_cast<double>(EncodedSize(spec.sync.upload_codec, n));
    down += static_cast<double>(EncodedSize(spec.sync.download_codec, n));
  }
  return absl::StrFormat("%.3g MB up and %.3g MB down every %u steps", up * 1e-6, down * 1e-6, spec.sync.inner_steps);
}

Finding WithoutStepTime(const JobOffer& offer, const std::vector<uint64_t>& elements, const LinkCapacity& link) {
  const double step = ShortestGoodStep(offer, elements, link);
  const std::string traffic = TrafficText(offer.spec, elements);
  if (step <= kShortestStep_s) {
    return {Verdict::kGood, "job",
            absl::StrCat(offer.job.value, ": ", traffic, "; this link is fast enough for any step of 1 ms or more")};
  }
  return {Verdict::kGood, "job",
          absl::StrFormat("%s: %s; no step was measured yet: with steps of %.3g s or more this link keeps a worker "
                          "computing %.0f %% of the time, with shorter steps the worker waits for the link",
                          offer.job.value, traffic, step, 100 * kGoodUtilization)};
}

}  // namespace

std::string GiBText(uint64_t bytes) {
  return absl::StrFormat("%.3g GiB", static_cast<double>(bytes) / static_cast<double>(uint64_t{1} << 30));
}

std::string BitRateText(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  if (bits >= 1e9) return absl::StrFormat("%.3g Gbit/s", bits * 1e-9);
  if (bits >= 1e6) return absl::StrFormat("%.3g Mbit/s", bits * 1e-6);
  return absl::StrFormat("%.3g kbit/s", bits * 1e-3);
}

Finding JudgeLink(const JobOffer& offer, const LinkCapacity& link) {
  const std::vector<uint64_t> elements = FragmentElements(offer.spec);
  if (!offer.step_seconds) return WithoutStepTime(offer, elements, link);
  const LinkJob job = MakeRunLinkJob(offer.spec, elements, *offer.step_seconds, &EncodedSize);
  const double share = CoordinatorUtilization(job, link);
  std::string text = absl::StrFormat(
      "%s: %s; with the present steps of %.3g s, this link keeps a worker computing "
      "%.1f %% of the time",
      offer.job.value, TrafficText(offer.spec, elements), *offer.step_seconds, 100 * share);
  if (share >= kGoodUtilization) return {Verdict::kGood, "job", std::move(text)};
  const double needed = NeededUploadRate(job, link, kGoodUtilization, &CoordinatorUtilization);
  absl::StrAppend(&text, "; for ", 100 * kGoodUtilization, " % ",
                  needed > 0
                      ? absl::StrCat("it needs ", BitRateText(needed), " upwards and a proportionally faster download")
                      : std::string("no bandwidth suffices at this latency"),
                  ", or settings that send less (atoll plan)");
  return {Verdict::kWarning, "job", std::move(text)};
}

Finding JudgeMemory(const JobOffer& offer, uint64_t available_bytes) {
  const ModelLayout layout =
      MakeModelLayout(offer.spec.model, offer.spec.sync.pattern, offer.spec.sync.layers_per_fragment);
  const WorkerMemoryJob job = WorkerMemoryJobOf(offer.spec, layout);
  const auto cpu = WorkerMemoryItems(job, {}, &EncodedSize), gpu = WorkerMemoryItems(job, {.gpu = true}, &EncodedSize);
  const uint64_t on_cpu = HeldBytes(cpu, MemoryPlace::kHost), beside_gpu = HeldBytes(gpu, MemoryPlace::kHost);
  std::string text =
      absl::StrCat(offer.job.value, " needs ", GiBText(on_cpu), " on a worker without a GPU, or ",
                   GiBText(HeldBytes(gpu, MemoryPlace::kGpu)), " on a GPU and ", GiBText(beside_gpu),
                   " of host memory, and activations; ", GiBText(available_bytes), " are free on this machine");
  if (on_cpu <= available_bytes) return {Verdict::kGood, "memory", std::move(text)};
  return {Verdict::kWarning, "memory",
          absl::StrCat(text, beside_gpu <= available_bytes ? ": use a GPU" : ": use a machine with more memory")};
}

}  // namespace atl
