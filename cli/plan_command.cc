// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_command.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "cli/output.h"
#include "common/codec/codec.h"

namespace atl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBits = 8;

Json JsonOf(const PlanPoint& point) {
  return {{"codec", CodecName(point.codec)},
          {"inner_steps", point.inner_steps},
          {"overlap_steps", point.overlap_steps},
          {"compute_utilization_ratio", point.compute_utilization_ratio},
          {"coordinator_utilization_ratio", point.coordinator_utilization_ratio},
          {"bytes_per_round", point.bytes_per_round}};
}

Json JsonOf(const CoordinatorLoad& load) {
  return {{"ingress_bytes_per_period", load.ingress_bytes_per_period},
          {"egress_bytes_per_period", load.egress_bytes_per_period},
          {"mean_ingress_bits_per_second", load.mean_ingress_bits_per_second},
          {"mean_egress_bits_per_second", load.mean_egress_bits_per_second},
          {"peak_ingress_bits_per_second", load.peak_ingress_bits_per_second},
          {"peak_egress_bits_per_second", load.peak_egress_bits_per_second},
          {"memory_bytes", load.needs.memory_bytes},
          {"disk_bytes", load.needs.disk_bytes}};
}

Json JsonOf(const TokenBudget& budget) {
  return {{"steps", budget.steps},
          {"hours_without_link", budget.hours_without_link},
          {"hours", budget.hours},
          {"hours_through_coordinator", budget.hours_through_coordinator},
          {"upload_bytes", budget.upload_bytes},
          {"download_bytes", budget.download_bytes}};
}

Json JsonOf(const Recommendation& r, double target) {
  Json json = {{"target_utilization_ratio", target}, {"reached", r.reached}, {"method", PlanMethodName(r.method)}};
  json.update(JsonOf(r.point));
  json["bandwidth_bits_per_second"] = r.bandwidth_bits_per_second > 0 ? Json(r.bandwidth_bits_per_second) : Json();
  return json;
}

Json JsonOf(const PlanRequest& request, const Plan& plan) {
  Json json = {{"method", PlanMethodName(request.method)},
               {"parameters", request.parameters},
               {"layers", request.layers},
               {"fragments", plan.fragments},
               {"step_seconds", request.step_seconds},
               {"workers", request.workers},
               {"download_codec", CodecName(request.download_codec)},
               {"upload_bits_per_second", kBits * request.link.upload_bytes_per_second},
               {"download_bits_per_second", kBits * request.link.download_bytes_per_second},
               {"latency_seconds", request.link.latency_seconds},
               {"round_seconds", request.link.round_seconds}};
  json.update(JsonOf(plan.given));
  json["download_bytes_per_round"] = plan.download_bytes_per_round;
  json["bytes_per_period"] = plan.bytes_per_period;
  json["download_bytes_per_period"] = plan.download_bytes_per_period;
  json["peak_bits_per_second"] = plan.peak_bits_per_second;
  json["mean_bits_per_second"] = plan.mean_bits_per_second;
  json["coordinator"] = JsonOf(plan.coordinator);
  json["worker"] = {{"memory_bytes", plan.worker.memory_bytes},
                    {"gpu_memory_bytes", plan.worker.gpu_memory_bytes},
                    {"gpu_host_bytes", plan.worker.gpu_host_bytes}};
  if (plan.budget.has_value()) json["token_budget"] = JsonOf(*plan.budget);
  json["utilization"] = Json::array();
  for (const PlanPoint& point : plan.points) json["utilization"].push_back(JsonOf(point));
  json["least_inner_steps"] = Json::array();
  for (const LeastPeriod& least : plan.least_periods) {
    json["least_inner_steps"].push_back({{"codec", CodecName(least.codec)},
                                         {"overlap_steps", least.overlap_steps},
                                         {"inner_steps", least.inner_steps > 0 ? Json(least.inner_steps) : Json()}});
  }
  json["recommended"] = JsonOf(plan.recommended, request.target_utilization);
  return json;
}

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

// "1.25 Gbit/s".
std::string RateText(double bits_per_second) {
  const std::string number = HumanNumber(bits_per_second);
  const char last = number.back();
  if (last >= '0' && last <= '9') return number + " bit/s";
  return number.substr(0, number.size() - 1) + " " + last + "bit/s";
}

std::string SizeText(uint64_t bytes) { return HumanSize(static_cast<double>(bytes)); }

std::string HoursText(double hours) { return absl::StrFormat("%.*f", hours < 10 ? 2 : 1, hours); }

std::string SettingsText(PlanMethod method, const PlanPoint& point) {
  const std::string codec = CodecName(point.codec);
  if (method == PlanMethod::kDataParallel) return absl::StrCat("data-parallel, ", codec, ", every step");
  return absl::StrCat(PlanMethodName(method), ", ", codec, ", H ", point.inner_steps, ", overlap ",
                      point.overlap_steps);
}

std::string RecommendationText(const PlanRequest& request, const Plan& plan) {
  const Recommendation& r = plan.recommended;
  std::string text =
      absl::StrCat(r.reached ? "" : "no value up to H " + absl::StrCat(kRecommendedInnerSteps) + " reaches it; best: ",
                   SettingsText(r.method, r.point), " (", Percent(r.point.coordinator_utilization_ratio), ")");
  const bool given = r.reached && r.method == request.method && r.point.codec == plan.given.codec &&
                     r.point.inner_steps == plan.given.inner_steps && r.point.overlap_steps == plan.given.overlap_steps;
  if (given) return text + ", as given; " + RateText(r.bandwidth_bits_per_second) + " would do";
  if (r.bandwidth_bits_per_second == 0) return text + "; as given no bandwidth does, because of the latency";
  return text + "; as given it takes " + RateText(r.bandwidth_bits_per_second);
}

void PrintSummary(Session& session, const PlanRequest& request, const Plan& plan) {
  const CoordinatorLoad& load = plan.coordinator;
  const std::string period =
      plan.given.inner_steps == 1 ? "each step" : absl::StrCat("each ", plan.given.inner_steps, " steps");
  Table table(
      {"PLAN", absl::StrCat(HumanNumber(static_cast<double>(request.parameters)), " parameters in ", request.layers,
                            " layers and ", plan.fragments, plan.fragments == 1 ? " fragment, " : " fragments, ",
                            request.workers, request.workers == 1 ? " worker at " : " workers at ",
                            RateText(kBits * request.link.upload_bytes_per_second), " up and ",
                            RateText(kBits * request.link.download_bytes_per_second), " down")});
  table.Add({"settings", absl::StrCat(SettingsText(request.method, plan.given), ", updates in ",
                                      CodecName(request.download_codec))});
  table.Add({"utilization", absl::StrCat(Percent(plan.given.coordinator_utilization_ratio), " through a coordinator; ",
                                         Percent(plan.given.compute_utilization_ratio),
                                         " as an all-reduce, the papers' model and an upper bound")});
  table.Add({"a worker sends",
             absl::StrCat(SizeText(plan.given.bytes_per_round), " a round, ", SizeText(plan.bytes_per_period), " ",
                          period, "; to never wait, on average ", RateText(plan.mean_bits_per_second), ", peak ",
                          RateText(plan.peak_bits_per_second))});
  table.Add({"and receives", absl::StrCat(SizeText(plan.download_bytes_per_round), " a round, ",
                                          SizeText(plan.download_bytes_per_period), " ", period)});
  table.Add({"and needs", absl::StrCat(SizeText(plan.worker.memory_bytes), " of memory, and activations; with a GPU ",
                                       SizeText(plan.worker.gpu_memory_bytes), " on the GPU, and activations, and ",
                                       SizeText(plan.worker.gpu_host_bytes), " of the host's")});
  table.Add({"coordinator in", absl::StrCat(HumanSize(load.ingress_bytes_per_period), " ", period, "; mean ",
                                            RateText(load.mean_ingress_bits_per_second), ", peak ",
                                            RateText(load.peak_ingress_bits_per_second))});
  table.Add({"coordinator out", absl::StrCat(HumanSize(load.egress_bytes_per_period), " ", period, "; mean ",
                                             RateText(load.mean_egress_bits_per_second), ", peak ",
                                             RateText(load.peak_egress_bits_per_second))});
  table.Add({"coordinator needs", absl::StrCat("at most ", SizeText(load.needs.memory_bytes), " of memory and ",
                                               SizeText(load.needs.disk_bytes), " of disk")});
  if (plan.budget.has_value()) {
    const TokenBudget& b = *plan.budget;
    table.Add({"hours", absl::StrCat(HoursText(b.hours_through_coordinator), " through a coordinator, ",
                                     HoursText(b.hours), " as an all-reduce, ", HoursText(b.hours_without_link),
                                     " without a link; a worker sends ", HumanSize(b.upload_bytes))});
  }
  table.Add({absl::StrCat("for ", Percent(request.target_utilization)), RecommendationText(request, plan)});
  session.out << table.ToString();
}

// fp16 has the width of bf16, and e3m0 that of mxfp4.
bool IsShown(CodecKind codec) { return codec != CodecKind::kFp16 && codec != CodecKind::kE3m0; }

std::string LeastPeriodText(const Plan& plan, const PlanPoint& point) {
  for (const LeastPeriod& least : plan.least_periods) {
    if (least.codec != point.codec || least.overlap_steps != point.overlap_steps) continue;
    return least.inner_steps > 0 ? absl::StrCat(least.inner_steps) : absl::StrCat("above ", kRecommendedInnerSteps);
  }
  return "-";
}

// Prints the utilization with a coordinator in percent: rows by codec and overlap, columns by
// period.
void PrintPoints(Session& session, const PlanRequest& request, const Plan& plan) {
  std::vector<uint32_t> periods;
  for (const PlanPoint& point : plan.points) periods.push_back(point.inner_steps);
  std::sort(periods.begin(), periods.end());
  periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
  std::vector<std::string> header = {"CODEC", "OVERLAP"};
  for (const uint32_t period : periods) header.push_back(absl::StrCat("H=", period));
  header.push_back("H FOR " + Percent(request.target_utilization));
  std::map<std::pair<CodecKind, uint32_t>, std::vector<std::string>> rows;
  for (const PlanPoint& point : plan.points) {
    if (!IsShown(point.codec)) continue;
    std::vector<std::string>& row = rows[{point.codec, point.overlap_steps}];
    if (row.empty()) {
      row.assign(header.size(), "-");
      row.front() = CodecName(point.codec);
      row[1] = absl::StrCat(point.overlap_steps);
      row.back() = LeastPeriodText(plan, point);
    }
    const auto at = std::lower_bound(periods.begin(), periods.end(), point.inner_steps) - periods.begin();
    row[static_cast<size_t>(at) + 2] = absl::StrFormat("%.1f", 100 * point.coordinator_utilization_ratio);
  }
  Table table(header);
  for (auto& [key, row] : rows) table.Add(std::move(row));
  session.out << "\nUtilization through a coordinator in %, " << PlanMethodName(request.method)
              << ", both legs in one codec (fp16 as bf16, e3m0 as mxfp4):\n"
              << table.ToString();
}

}  // namespace

int PrintPlan(Session& session, const PlanOptions& options) {
  const absl::StatusOr<PlanRequest> request = ParsePlanOptions(options);
  if (!request.ok()) return FailUsage(session, std::string(request.status().message()));
  const Plan plan = MakePlan(*request, &EncodedSize);
  switch (session.format) {
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
    case OutputFormat::kJsonl: PrintJson(session, JsonOf(*request, plan).dump()); break;
    default: PrintSummary(session, *request, plan); PrintPoints(session, *request, plan);
  }
  return kExitOk;
}

}  // namespace atl::cli
