// SPDX-License-Identifier: Apache-2.0
// The flags of `atoll plan` and their parsing.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_join.h"
#include "cli/command_tree.h"
#include "cli/output.h"
#include "cli/plan_command.h"
#include "common/codec/codec.h"
#include "common/config/nearest_word.h"
#include "common/config/quantities.h"
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"

namespace atl::cli {
namespace {

constexpr uint64_t kMostTokens = 9'000'000'000'000'000;  // exact in a double

// Parses flags one after another and collects the faults.
class Reader {
 public:
  // Parses a whole number from `low` to `high`, which may be written as 1e9; `value` is unchanged
  // after a fault.
  template <typename Number>
  void Whole(const char* flag, const std::string& text, uint64_t low, uint64_t high, Number& value) {
    const absl::StatusOr<double> parsed = ParseReal(text);
    const bool whole = parsed.ok() && text.front() != '-' && *parsed == std::floor(*parsed);
    if (whole && *parsed >= static_cast<double>(low) && *parsed <= static_cast<double>(high)) {
      value = static_cast<Number>(*parsed);
    } else {
      Refuse(flag, text, absl::StrCat("a whole number from ", low, " to ", high));
    }
  }

  double Real(const char* flag, const std::string& text) {
    const absl::StatusOr<double> value = ParseReal(text);
    if (!value.ok()) Fault(flag, value.status().message());
    return value.ok() ? *value : 1;
  }

  double Rate(const char* flag, const std::string& text) {
    const absl::StatusOr<uint64_t> parsed = ParseRate(text);
    const bool has_unit = !text.empty() && text.find_first_not_of("0123456789.") != std::string::npos;
    const double value = parsed.ok() && has_unit ? static_cast<double>(*parsed) : 0;
    if (value > 0 && value <= kMostPlanBytesPerSecond) return value;
    Refuse(flag, text,
           absl::StrCat("a rate from 1B/s to ", kMostPlanBytesPerSecond / 1e12,
                        "TB/s with its unit, as 1Gbps, 200Mbit/s or 12.5MB/s"));
    return 1;
  }

  double Seconds(const char* flag, const std::string& text) {
    const absl::StatusOr<Duration> parsed = ParseDuration(text);
    const double value = parsed.ok() ? static_cast<double>(parsed->ns) * 1e-9 : 0;
    if (!parsed.ok()) {
      Fault(flag, parsed.status().message());
    } else if (value > kMostPlanLatencySeconds) {
      Refuse(flag, text, absl::StrCat("a time from 0s to ", kMostPlanLatencySeconds, "s"));
    }
    return value;
  }

  // Returns the index of `text` in `words`.
  size_t Word(const char* flag, const std::string& text, const std::vector<std::string>& words) {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
    Refuse(flag, text, absl::StrJoin(words, ", ") + DidYouMean(text, words));
    return 0;
  }

  void Refuse(const char* flag, const std::string& text, const std::string& rule) {
    Fault(flag, absl::StrCat("is '", text.substr(0, 64), "'; it must be ", rule));
  }

  void Fault(const std::string& flag, absl::string_view problem) {
    faults_.push_back(absl::StrCat("--", flag, " ", problem));
  }

  const std::vector<std::string>& faults() const { return faults_; }

 private:
  std::vector<std::string> faults_;
};

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const CodecKind codec : kCodecKinds) names.emplace_back(CodecName(codec));
  return names;
}

CodecKind ReadCodec(Reader& reader, const char* flag, const std::string& text) {
  return kCodecKinds[reader.Word(flag, text, CodecNames())];
}

void ReadModel(Reader& reader, const PlanOptions& o, PlanRequest& request) {
  constexpr PlanMethod kMethods[] = {PlanMethod::kDataParallel, PlanMethod::kDiloco, PlanMethod::kStreaming};
  std::vector<std::string> names;
  for (const PlanMethod method : kMethods) names.emplace_back(PlanMethodName(method));
  request.method = kMethods[reader.Word("method", o.method, names)];
  reader.Whole("params", o.params, 1, limits::kParameters, request.parameters);
  if (!o.embedding_params.empty())
    reader.Whole("embedding-params", o.embedding_params, 0, limits::kParameters, request.embedding_parameters);
  reader.Whole("layers", o.layers, 1, limits::kLayers, request.layers);
  reader.Whole("layers-per-fragment", o.layers_per_fragment, 1, limits::kLayers, request.layers_per_fragment);
  request.bf16 = reader.Word("precision", o.precision, {"fp32", "bf16"}) == 1;
  request.forms_on_gpu = reader.Word("form-on", o.form_on, {"host", "gpu"}) == 1;
  request.step_seconds = reader.Real("step-seconds", o.step_seconds);
  reader.Whole("workers", o.workers, 1, limits::kWorkers, request.workers);
  if (!o.tokens.empty()) reader.Whole("tokens", o.tokens, 0, kMostTokens, request.tokens);
  if (!o.tokens_per_step.empty())
    reader.Whole("tokens-per-step", o.tokens_per_step, 0, kMostTokens, request.tokens_per_worker_step);
}

void ReadSync(Reader& reader, const PlanOptions& o, PlanRequest& request) {
  const uint64_t fewest = request.method == PlanMethod::kDataParallel ? 0 : 1;  // ignored for data parallelism
  reader.Whole("inner-steps", o.inner_steps, fewest, kLongestPeriodSteps, request.inner_steps);
  request.overlap_steps = request.method == PlanMethod::kStreaming ? 1 : 0;
  if (!o.overlap_steps.empty())
    reader.Whole("overlap-steps", o.overlap_steps, 0, kLongestPeriodSteps - 1, request.overlap_steps);
  const std::string codec = !o.codec.empty() ? o.codec : request.method == PlanMethod::kDataParallel ? "bf16" : "mxfp4";
  request.upload_codec = ReadCodec(reader, "codec", codec);
  request.download_codec =
      o.download_codec.empty() ? request.upload_codec : ReadCodec(reader, "download-codec", o.download_codec);
  constexpr ErrorMemory kMemories[] = {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco};
  request.upload_error_memory =
      kMemories[reader.Word("upload-error-memory", o.upload_error_memory, {"off", "feedback", "loco"})];
}

void ReadLink(Reader& reader, const PlanOptions& o, PlanRequest& request) {
  request.link.upload_bytes_per_second = reader.Rate("bandwidth", o.bandwidth);
  request.link.download_bytes_per_second = o.download_bandwidth.empty()
                                               ? request.link.upload_bytes_per_second
                                               : reader.Rate("download-bandwidth", o.download_bandwidth);
  request.link.latency_seconds = reader.Seconds("latency", o.latency);
  request.link.round_seconds = reader.Seconds("round-time", o.round_time);
  request.target_utilization = reader.Real("target-utilization", o.target_utilization);
}

}  // namespace

absl::StatusOr<PlanRequest> ParsePlanOptions(const PlanOptions& options) {
  PlanRequest request;
  Reader reader;
  ReadModel(reader, options, request);
  ReadSync(reader, options, request);
  ReadLink(reader, options, request);
  if (reader.faults().empty()) {
    for (const Violation& v : ValidatePlanRequest(request)) reader.Fault(v.field, v.problem);
  }
  if (!reader.faults().empty()) return absl::InvalidArgumentError(absl::StrJoin(reader.faults(), "; "));
  return request;
}

void AddPlanCommand(CLI::App& root, Command& command) {
  CLI::App& app = *root.add_subcommand("plan", "estimate the training speed over a given link, without a coordinator");
  const auto o = std::make_shared<PlanOptions>();
  const auto add = [&](const char* flag, std::string& value, const char* type, const std::string& help) {
    return app.add_option(flag, value, help)->type_name(type);
  };
  add("--params", o->params, "N", "parameters of the model, such as 1e9")->required();
  add("--layers", o->layers, "N", "transformer blocks")->required();
  add("--step-seconds", o->step_seconds, "SECONDS", "time of one inner step without waits")->required();
  add("--bandwidth", o->bandwidth, "RATE", "bandwidth of each worker's link: 1Gbps, 200Mbit/s, 12.5MB/s")->required();
  add("--download-bandwidth", o->download_bandwidth, "RATE", "bandwidth towards the worker, if it differs");
  add("--latency", o->latency, "TIME", "latency of one direction, such as 20ms")->capture_default_str();
  add("--round-time", o->round_time, "TIME", "time from a round's last contribution to its update (merge, commit)")
      ->capture_default_str();
  add("--workers", o->workers, "N", "number of workers")->capture_default_str();
  add("--method", o->method, "data-parallel|diloco|streaming", "synchronisation scheme")->capture_default_str();
  add("--inner-steps", o->inner_steps, "H", "steps between syncs of a fragment")->capture_default_str();
  add("--overlap-steps", o->overlap_steps, "TAU", "steps trained during a sync [1 for streaming, else 0]");
  add("--codec", o->codec, "CODEC",
      absl::StrCat(absl::StrJoin(CodecNames(), ", "), " [bf16 for data-parallel, else mxfp4]"));
  add("--download-codec", o->download_codec, "CODEC", "codec of updates, if it differs");
  add("--upload-error-memory", o->upload_error_memory, "off|feedback|loco", "the job's sync.upload_error_memory")
      ->capture_default_str();
  add("--precision", o->precision, "fp32|bf16", "the job's model.precision, for worker memory")->capture_default_str();
  add("--form-on", o->form_on, "host|gpu", "the worker's --form-on, for the memory of a worker with a GPU")
      ->capture_default_str();
  add("--embedding-params", o->embedding_params, "N",
      "embeddings, part of --params; a separate fragment when streaming");
  add("--layers-per-fragment", o->layers_per_fragment, "N", "blocks per fragment when streaming")
      ->capture_default_str();
  add("--target-utilization", o->target_utilization, "SHARE", "for the recommended settings")->capture_default_str();
  add("--tokens", o->tokens, "N", "token budget of the job, to estimate hours");
  add("--tokens-per-step", o->tokens_per_step, "N", "tokens of one inner step of one worker, to estimate hours");
  app.callback([o, &command] { command = Takes(kDocumentForms, [o](Session& s) { return PrintPlan(s, *o); }); });
}

}  // namespace atl::cli
