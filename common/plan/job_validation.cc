// SPDX-License-Identifier: Apache-2.0
#include "common/plan/job_validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

#include "absl/strings/match.h"
#include "common/base/check.h"
#include "common/base/names.h"
#include "common/plan/learning_rate.h"
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/plan/tokenizer_file_name.h"

namespace atl {
namespace {

constexpr uint64_t kVocabularyMultiple = 64;
constexpr uint64_t kManyOuterSteps = 200;

// Collects violations; each method adds at most one (Numbers: one for each row).
class Report {
 public:
  explicit Report(std::vector<Violation>& out) : out_(out) {}

  void Add(const std::string& field, std::string problem) { out_.push_back({field, std::move(problem)}); }
  void Require(bool good, const std::string& field, std::string problem) {
    if (!good) Add(field, std::move(problem));
  }
  // low <= value <= high.
  void Range(const std::string& field, uint64_t value, uint64_t low, uint64_t high) {
    Require(value >= low && value <= high, field, absl::StrCat("is ", value, "; it must be ", low, " to ", high));
  }
  // Finite and low <= value <= high.
  void Real(const std::string& field, double value, double low, double high) {
    Require(std::isfinite(value) && value >= low && value <= high, field,
            absl::StrCat("is ", value, "; it must be ", low, " to ", high));
  }
  // Finite and low < value <= high.
  void Above(const std::string& field, double value, double low, double high) {
    Require(std::isfinite(value) && value > low && value <= high, field,
            absl::StrCat("is ", value, "; it must be above ", low, " and at most ", high));
  }
  // Finite and low <= value < high.
  void Below(const std::string& field, double value, double low, double high) {
    Require(std::isfinite(value) && value >= low && value < high, field,
            absl::StrCat("is ", value, "; it must be at least ", low, " and below ", high));
  }
  // Every row of a section (kNumbers).
  template <class Section>
  void Numbers(const char* section, const Section& values) {
    ForEachNumber(section, values, [this](const char* at, const auto& field, const auto value) {
      const std::string path = absl::StrCat(at, ".", field.name);
      if constexpr (std::is_floating_point_v<decltype(value)>) {
        this->Check(path, value, field.bounds);
      } else {
        this->Check(path, uint64_t{value}, field.bounds);
      }
    });
  }

 private:
  void Check(const std::string& field, double value, const Bounds& bounds) {
    switch (bounds.kind) {
      case Bounds::Kind::kNone: return;
      case Bounds::Kind::kClosed: return Real(field, value, bounds.low, bounds.high);
      case Bounds::Kind::kAboveLow: return Above(field, value, bounds.low, bounds.high);
      case Bounds::Kind::kBelowHigh: return Below(field, value, bounds.low, bounds.high);
      case Bounds::Kind::kZeroOr: break;
    }
    ATOLL_CHECK(false, "bounds of whole numbers for a real number");
  }
  void Check(const std::string& field, uint64_t value, const Bounds& bounds) {
    if (bounds.kind == Bounds::Kind::kNone || (bounds.kind == Bounds::Kind::kZeroOr && value == 0)) return;
    ATOLL_CHECK(bounds.kind == Bounds::Kind::kClosed || bounds.kind == Bounds::Kind::kZeroOr,
                "bounds of real numbers for a whole number");
    Range(field, value, static_cast<uint64_t>(bounds.low), static_cast<uint64_t>(bounds.high));
  }

  std::vector<Violation>& out_;
};

// "jobs/{job}/checkpoints/{step}".
bool IsCheckpointName(const std::string& s) {
  const std::string head = "jobs/", middle = "/checkpoints/";
  if (s.compare(0, head.size(), head) != 0) return false;
  const size_t at = s.find(middle);
  if (at == std::string::npos || !IsName(s.substr(head.size(), at - head.size()))) return false;
  const std::string step = s.substr(at + middle.size());
  if (step == "latest") return true;
  return !step.empty() && step.size() <= 20 &&
         std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void CheckMetadata(const JobSpec& spec, bool before_submit, Report& report) {
  if (!spec.name.empty() || !before_submit) {
    report.Require(IsName(spec.name), "metadata.name", absl::StrCat("is '", spec.name, "'; it must be ", kNameRule));
  }
  report.Require(spec.labels.size() <= limits::kLabels, "metadata.labels",
                 absl::StrCat("has ", spec.labels.size(), " labels; at most ", limits::kLabels, " are allowed"));
  for (const auto& [key, value] : spec.labels) {
    const bool fits = !key.empty() && key.size() <= limits::kLabelBytes && value.size() <= limits::kLabelBytes;
    report.Require(fits, "metadata.labels." + key.substr(0, 64),
                   absl::StrCat("must have a key and a value of at most ", limits::kLabelBytes, " bytes"));
  }
}

uint32_t HeadDim(const ModelSpec& m) { return m.head_dim != 0 ? m.head_dim : m.hidden_size / std::max(1u, m.heads); }

void CheckHeads(const ModelSpec& m, Report& report) {
  if (m.heads == 0) return;
  report.Require(m.kv_heads == 0 || m.heads % m.kv_heads == 0, "model.kv_heads",
                 absl::StrCat("is ", m.kv_heads, "; model.heads (", m.heads, ") must be a multiple of it"));
  if (m.head_dim == 0 && m.hidden_size % m.heads != 0) {
    report.Add("model.heads", absl::StrCat("is ", m.heads, "; model.hidden_size (", m.hidden_size,
                                           ") must be a multiple of it, or set model.head_dim"));
    return;
  }
  const uint32_t dim = HeadDim(m);
  report.Require(dim >= 2 && dim <= 4096 && dim % 2 == 0, m.head_dim != 0 ? "model.head_dim" : "model.heads",
                 absl::StrCat("makes heads of ", dim, "; a head must be an even number from 2 to 4096"));
}

void CheckModel(const ModelSpec& m, Report& report) {
  report.Numbers("model", m);
  CheckHeads(m, report);
  // Computed in double: the sizes above may be invalid, and this must not overflow.
  const double hidden = m.hidden_size, inner = m.intermediate_size != 0 ? m.intermediate_size : hidden * 3;
  const double heads = (2.0 * m.heads + 2.0 * (m.kv_heads != 0 ? m.kv_heads : m.heads)) * HeadDim(m);
  const double parameters = m.layers * hidden * (heads + 3 * inner) + 2.0 * m.vocab_size * hidden;
  report.Require(
      parameters <= static_cast<double>(limits::kParameters), "model",
      absl::StrCat("has about ", parameters, " parameters; at most ", limits::kParameters, " are supported"));
}

void CheckInit(const InitSpec& init, Report& report) {
  report.Require(init.checkpoint.empty() || init.safetensors.empty(), "model.init",
                 "has two sources; give only one of directory and checkpoint");
  report.Require(init.checkpoint.empty() || IsCheckpointName(init.checkpoint), "model.init.checkpoint",
                 absl::StrCat("is '", init.checkpoint.substr(0, 200), "'; it must be jobs/{job}/checkpoints/{step}"));
  report.Require(
      init.safetensors.size() <= limits::kInitialFiles, "model.init",
      absl::StrCat("has ", init.safetensors.size(), " files; at most ", limits::kInitialFiles, " are allowed"));
}

void CheckCorpora(const DataSpec& data, bool before_submit, Report& report) {
  report.Require(!data.corpora.empty(), "data.corpora", "is empty; name at least one corpus by its manifest");
  report.Require(data.corpora.size() <= limits::kCorpora, "data.corpora",
                 absl::StrCat("has ", data.corpora.size(), " corpora; at most ", limits::kCorpora, " are allowed"));
  std::set<std::string> names;
  for (size_t i = 0; i < data.corpora.size(); ++i) {
    const CorpusSpec& c = data.corpora[i];
    const std::string at = absl::StrCat("data.corpora[", i, "]");
    report.Range(at + ".weight", c.weight, 1, 10'000);
    if (!before_submit)
      report.Require(!c.manifest.IsZero(), at + ".manifest_sha256", "is missing; upload the manifest first");
    if (c.name.empty() && before_submit) continue;
    report.Require(IsName(c.name), at + ".name",
                   absl::StrCat("is '", c.name.substr(0, 64), "'; it must be ", kNameRule));
    report.Require(names.insert(c.name).second, at + ".name",
                   absl::StrCat("is '", c.name.substr(0, 64), "' a second time; corpora need different names"));
  }
}

void CheckData(const DataSpec& data, bool before_submit, Report& report) {
  CheckCorpora(data, before_submit, report);
  report.Numbers("data", data);
  report.Require(data.tokenizer_files.size() == data.tokenizer_file_names.size(), "data.tokenizer_file_names",
                 "must have one name for each file in data.tokenizer_sha256");
  report.Require(data.tokenizer_files.size() <= limits::kTokenizerFiles, "data.tokenizer_sha256",
                 absl::StrCat("has too many files; at most ", limits::kTokenizerFiles, " are allowed"));
  std::set<std::string> names;
  for (const std::string& name : data.tokenizer_file_names) {
    report.Require(IsTokenizerFileName(name), "data.tokenizer_file_names",
                   absl::StrCat("has '", name.substr(0, 64), "'; names must be ", kTokenizerFileNameRule));
    report.Require(names.insert(name).second, "data.tokenizer_file_names",
                   absl::StrCat("has '", name.substr(0, 64), "' a second time; give each file a different name"));
  }
}

// Rules for data.assignment shards: each worker has a corpus of its own (shards.h).
void CheckShards(const JobSpec& spec, Report& report) {
  if (!spec.data.pin_shards) {
    report.Require(spec.sync.weights != WeightRule::kShardSize, "sync.weights",
                   "is shard_size, which needs data.assignment shards; use tokens");
    return;
  }
  const size_t corpora = spec.data.corpora.size();
  for (size_t i = 0; i < corpora; ++i) {
    report.Require(spec.data.corpora[i].weight == 1, absl::StrCat("data.corpora[", i, "].weight"),
                   absl::StrCat("is ", spec.data.corpora[i].weight,
                                "; with data.assignment shards a worker reads one corpus, so omit it"));
  }
  report.Require(
      spec.data.max_epochs == 0, "data.max_epochs",
      "is set; with data.assignment shards corpora of different sizes would end at different times, so omit it");
  report.Require(
      spec.workers.max == corpora, "workers.max",
      absl::StrCat(
          "is ", spec.workers.max,
          "; with data.assignment shards each worker has its own corpus, so it must equal the number of data.corpora (",
          corpora, ")"));
}

void CheckBatch(const BatchSpec& batch, Report& report) {
  report.Numbers("batch", batch);
  report.Require(batch.micro_batch <= batch.sequences_per_step, "batch.micro_batch",
                 absl::StrCat("is ", batch.micro_batch, "; it must be at most batch.sequences_per_step (",
                              batch.sequences_per_step, "), or 0 for an automatic choice"));
}

// The number of decay steps in the schedule; if not given, the default.
uint64_t DecayStepsOf(const ScheduleSpec& schedule, uint64_t total_steps) {
  return schedule.decay_steps != 0 ? schedule.decay_steps : std::max<uint64_t>(1, total_steps / 5);
}

void CheckSchedule(const JobSpec& spec, Report& report) {
  const ScheduleSpec& s = spec.inner.schedule;
  const std::string at = "inner_optimizer.schedule";
  report.Numbers("inner_optimizer.schedule", s);
  const uint64_t total = s.total_steps != 0 ? s.total_steps : PlannedInnerSteps(spec);
  if (total == 0) return;  // the missing stop rule is reported elsewhere
  report.Require(s.warmup_steps <= total, at + ".warmup_steps",
                 absl::StrCat("is ", s.warmup_steps, "; it must be at most the ", total, " steps of the schedule"));
  if (s.kind == ScheduleKind::kWsd && s.warmup_steps <= total) {
    const uint64_t decay = DecayStepsOf(s, total);
    report.Require(decay <= total - s.warmup_steps, at + ".decay_steps",
                   absl::StrCat("is ", decay, s.decay_steps == 0 ? ", the default of a fifth of all steps" : "",
                                "; warm-up and decay must fit into ", total, " steps"));
  }
}

void CheckInner(const JobSpec& spec, Report& report) {
  report.Numbers("inner_optimizer", spec.inner);
  CheckSchedule(spec, report);
}

struct OuterDefaults {
  double learning_rate = 0;
  double momentum = 0;
  bool few_steps = false;
};

uint64_t PlannedOuterSteps(const JobSpec& spec) {
  return PlannedInnerSteps(spec) / std::max<uint64_t>(1, spec.sync.inner_steps);
}

// docs/design.md section 3, "Outer optimizers".
OuterDefaults DefaultsOf(const JobSpec& spec) {
  if (spec.outer.kind == OuterKind::kSgd) return {.learning_rate = 1.0, .momentum = 0.0};
  if (PlannedOuterSteps(spec) < kManyOuterSteps) return {.learning_rate = 0.7, .momentum = 0.6, .few_steps = true};
  const uint32_t workers = spec.workers.planned != 0 ? spec.workers.planned : spec.workers.min;
  return {.learning_rate = workers <= 1 ? 0.4 : workers <= 4 ? 0.6 : 0.8, .momentum = 0.9};
}

void CheckOuter(const JobSpec& spec, Report& report) {
  const OuterOptimizerSpec& outer = spec.outer;
  report.Require(std::isfinite(outer.learning_rate) && outer.learning_rate >= 0, "outer_optimizer.learning_rate",
                 absl::StrCat("is ", outer.learning_rate, "; it must be above 0"));
  report.Require(std::isfinite(outer.momentum) && outer.momentum < 1, "outer_optimizer.momentum",
                 absl::StrCat("is ", outer.momentum, "; it must be at least 0 and below 1"));
  const bool sgd_with_momentum = outer.kind == OuterKind::kSgd && outer.momentum > 0;
  report.Require(!sgd_with_momentum, "outer_optimizer.momentum", "is set, but kind sgd has none; use kind momentum");
  if (!(outer.learning_rate > 0) || !(outer.momentum < 1) || sgd_with_momentum) return;
  const double mu = outer.momentum >= 0 ? outer.momentum : DefaultsOf(spec).momentum;
  const double bound = (2 + 2 * mu) / (1 + 2 * mu);
  report.Require(outer.learning_rate <= bound, "outer_optimizer.learning_rate",
                 absl::StrCat("is ", outer.learning_rate, "; above (2 + 2 momentum) / (1 + 2 momentum) = ", bound,
                              " the outer step is unstable when a worker misses a sync"));
}

void CheckFragments(const JobSpec& spec, Report& report) {
  const SyncSpec& s = spec.sync;
  if (s.pattern == FragmentPattern::kWhole || s.layers_per_fragment == 0) return;
  const uint64_t fragments = uint64_t{spec.model.layers} / s.layers_per_fragment + 2;
  report.Require(fragments <= limits::kFragments, "sync.layers_per_fragment",
                 absl::StrCat("makes about ", fragments, " fragments; at most ", limits::kFragments, " are supported"));
}

void CheckSync(const JobSpec& spec, Report& report) {
  const SyncSpec& s = spec.sync;
  report.Numbers("sync", s);
  report.Require(s.inner_steps == 0 || s.overlap_steps < s.inner_steps, "sync.overlap_steps",
                 absl::StrCat("is ", s.overlap_steps, "; it must be below sync.inner_steps (", s.inner_steps, ")"));
  CheckFragments(spec, report);
  report.Numbers("sync.loco", s.loco);
  report.Require(s.pace == Pace::kUniform || s.weights != WeightRule::kUniform, "sync.weights",
                 "is uniform, and with sync.pace balanced slower workers take fewer steps; use tokens");
  report.Numbers("sync", s.merge);
  report.Require(s.quorum <= spec.workers.max, "sync.quorum",
                 absl::StrCat("is ", s.quorum, "; it must be at most workers.max (", spec.workers.max, ")"));
  constexpr Duration kDay = Seconds(86'400);
  report.Require(s.deadline >= Duration{} && s.deadline <= kDay, "sync.deadline", "must be 0s to 86400s");
  report.Range("sync.join_warmup_steps", s.join_warmup_steps, 0, 1'000'000);
}

void CheckEvaluation(const JobSpec& spec, bool before_submit, Report& report) {
  const EvaluationSpec& e = spec.evaluation;
  report.Numbers("evaluation", e);
  report.Require(
      e.max_tokens >= spec.data.sequence_length, "evaluation.max_tokens",
      absl::StrCat("is ", e.max_tokens, "; it must be at least one sample (", spec.data.sequence_length, " tokens)"));
  report.Require(e.tasks.size() <= limits::kEvalTasks, "evaluation.tasks",
                 absl::StrCat("has ", e.tasks.size(), " files; at most ", limits::kEvalTasks, " are scored by a job"));
  report.Require(e.tasks_every_rounds == 0 || !e.tasks.empty(), "evaluation.tasks_every_rounds",
                 "is set, but evaluation.tasks names no file");
  uint64_t examples = 0;
  std::set<std::string> names;
  for (size_t i = 0; i < e.tasks.size(); ++i) {
    const std::string& name = e.tasks[i].name;
    const std::string field = absl::StrCat("evaluation.tasks[", i, "].name");
    examples += e.tasks[i].examples;
    if (name.empty() && before_submit) continue;  // filled in from the file's name
    report.Require(IsTaskName(name), field,
                   absl::StrCat("is '", name.substr(0, 64), "'; it must be 1 to 63 letters, digits, _, - or ."));
    report.Require(names.insert(name).second, field, absl::StrCat("is '", name, "', which is used a second time"));
  }
  report.Require(examples <= limits::kEvalExamples, "evaluation.tasks",
                 absl::StrCat("has ", examples, " examples; at most ", limits::kEvalExamples,
                              " are scored by a job: set examples of each task"));
}

void CheckWorkers(const JobSpec& spec, Report& report) {
  const WorkersSpec& w = spec.workers;
  report.Numbers("workers", w);
  report.Range("workers.max", w.max, 1, limits::kWorkers);
  const std::string why = spec.data.pin_shards && w.max == spec.data.corpora.size()
                              ? ", the number of data.corpora: with data.assignment shards each corpus has one worker"
                              : "";
  report.Require(w.min <= w.max || w.min > limits::kWorkers, "workers.max",
                 absl::StrCat("is ", w.max, why, "; it must be at least workers.min (", w.min, ")"));
  report.Require(w.planned == 0 || (w.planned >= w.min && w.planned <= w.max), "workers.planned",
                 absl::StrCat("is ", w.planned, "; it must lie between workers.min (", w.min, ") and workers.max (",
                              w.max, "), or be 0"));
}

void CheckStop(const StopSpec& stop, Report& report) {
  report.Require(stop.inner_steps > 0 || stop.tokens > 0, "stop",
                 "has no stop rule; set stop.inner_steps or stop.tokens, so that the job ends");
  report.Numbers("stop", stop);
}

void CheckExperiment(const JobSpec& spec, Report& report) {
  report.Numbers("experiment", spec.experiment);
  if (spec.experiment.pool == PoolSchedule::kConstant) return;
  report.Require(spec.stop.inner_steps > 0, "experiment.pool",
                 "changes the pool over the planned steps; set stop.inner_steps, or use constant");
  const uint32_t planned = spec.workers.planned != 0 ? spec.workers.planned : spec.workers.min;
  report.Require(
      planned >= 2, "experiment.pool",
      "changes how many of the planned workers take part; set workers.planned to at least 2, or use constant");
}

void CheckScreens(const ScreensSpec& screens, Report& report) {
  report.Numbers("screens", screens);
  report.Require(screens.refuse_above >= screens.clip_above && screens.refuse_above <= 1e9, "screens.refuse_above",
                 absl::StrCat("is ", screens.refuse_above, "; it must be at least screens.clip_above, ",
                              screens.clip_above, ", and at most 1e+09"));
}

uint64_t RoundUp(uint64_t n, uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void ResolveModel(ModelSpec& m, uint32_t tokenizer_vocab, std::vector<std::string>& notes) {
  if (m.vocab_size == 0) {
    m.vocab_size = static_cast<uint32_t>(RoundUp(tokenizer_vocab, kVocabularyMultiple));
    notes.push_back(absl::StrCat("model.vocab_size ", m.vocab_size, ": the tokenizer's ", tokenizer_vocab,
                                 ", rounded up to a multiple of ", kVocabularyMultiple));
  }
  if (m.intermediate_size == 0) {
    const uint64_t exact = (uint64_t{m.hidden_size} * 8 + 2) / 3;
    m.intermediate_size = static_cast<uint32_t>(RoundUp(exact, 64));
  }
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.head_dim == 0) m.head_dim = m.hidden_size / m.heads;
}

void ResolveOuter(JobSpec& spec, std::vector<std::string>& notes) {
  const OuterDefaults chosen = DefaultsOf(spec);
  const std::string why = spec.outer.kind == OuterKind::kSgd ? std::string("plain averaging")
                          : chosen.few_steps                 ? absl::StrCat(PlannedOuterSteps(spec),
                                                                            " planned outer steps are fewer than ", kManyOuterSteps)
                                                             : absl::StrCat(spec.workers.planned, " planned workers");
  if (spec.outer.learning_rate == 0) {
    spec.outer.learning_rate = chosen.learning_rate;
    notes.push_back(absl::StrCat("outer_optimizer.learning_rate ", chosen.learning_rate, ": ", why));
  }
  if (spec.outer.momentum < 0) {
    spec.outer.momentum = chosen.momentum;
    if (spec.outer.kind != OuterKind::kSgd) {
      notes.push_back(absl::StrCat("outer_optimizer.momentum ", chosen.momentum, ": ",
                                   chosen.few_steps ? why : std::string("the default")));
    }
  }
}

void ResolveSchedule(JobSpec& spec, std::vector<std::string>& notes) {
  ScheduleSpec& s = spec.inner.schedule;
  if (s.total_steps == 0) {
    s.total_steps = PlannedInnerSteps(spec);
    if (spec.stop.inner_steps == 0) {
      notes.push_back(absl::StrCat("inner_optimizer.schedule.total_steps ", s.total_steps, ": stop.tokens with ",
                                   spec.workers.planned, " planned workers"));
    }
  }
  if (s.kind == ScheduleKind::kWsd) s.decay_steps = DecayStepsOf(s, s.total_steps);
  if (std::string mismatch = ScheduleMismatch(spec); !mismatch.empty()) notes.push_back(std::move(mismatch));
}

}  // namespace

std::vector<Violation> ValidateJobSpec(const JobSpec& spec, bool before_submit) {
  std::vector<Violation> out;
  Report report(out);
  CheckMetadata(spec, before_submit, report);
  CheckModel(spec.model, report);
  CheckInit(spec.init, report);
  CheckData(spec.data, before_submit, report);
  CheckShards(spec, report);
  CheckBatch(spec.batch, report);
  CheckInner(spec, report);
  CheckOuter(spec, report);
  CheckSync(spec, report);
  CheckWorkers(spec, report);
  CheckStop(spec.stop, report);
  CheckEvaluation(spec, before_submit, report);
  report.Numbers("checkpoint", spec.checkpoint);
  CheckExperiment(spec, report);
  CheckScreens(spec.screens, report);
  report.Require(spec.priority >= -1000 && spec.priority <= 1000, "priority",
                 absl::StrCat("is ", spec.priority, "; it must be -1000 to 1000"));
  return out;
}

bool IsTaskName(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= limits::kNameBytes && std::all_of(name.begin(), name.end(), fits);
}

std::vector<std::string> ResolveDefaults(JobSpec& spec, uint32_t tokenizer_vocab) {
  std::vector<std::string> notes;
  ResolveModel(spec.model, tokenizer_vocab, notes);
  if (spec.workers.planned == 0) spec.workers.planned = spec.workers.min;
  ResolveOuter(spec, notes);
  ResolveSchedule(spec, notes);
  if (spec.sync.join_warmup_steps == 0) spec.sync.join_warmup_steps = std::max<uint32_t>(1, spec.sync.inner_steps / 2);
  return notes;
}

uint64_t PlannedInnerSteps(const JobSpec& spec) {
  uint64_t steps = spec.stop.inner_steps != 0 ? spec.stop.inner_steps : std::numeric_limits<uint64_t>::max();
  if (spec.stop.tokens != 0) {
    const uint64_t workers = std::max<uint64_t>(1, spec.workers.planned != 0 ? spec.workers.planned : spec.workers.min);
    const uint64_t per_worker =
        std::max<uint64_t>(1, uint64_t{spec.batch.sequences_per_step} * spec.data.sequence_length);
    const uint64_t worker_tokens = spec.stop.tokens / workers + (spec.stop.tokens % workers != 0 ? 1 : 0);
    steps = std::min(steps, worker_tokens / per_worker + (worker_tokens % per_worker != 0 ? 1 : 0));
  }
  return steps == std::numeric_limits<uint64_t>::max() ? 0 : steps;
}

const std::vector<std::string>& MutableFields() {
  static const std::vector<std::string> fields = {"inner_optimizer.learning_rate",
                                                  "inner_optimizer.schedule.*",
                                                  "stop.*",
                                                  "priority",
                                                  "workers.min",
                                                  "workers.max",
                                                  "sync.upload_bytes_per_second",
                                                  "sync.download_bytes_per_second",
                                                  "evaluation.every_rounds",
                                                  "evaluation.tasks_every_rounds",
                                                  "checkpoint.every_rounds",
                                                  "checkpoint.keep_last",
                                                  "checkpoint.keep_every",
                                                  "screens.*"};
  return fields;
}

bool IsMutableField(const std::string& field) {
  const auto covers = [&field](const std::string& name) {
    if (!absl::EndsWith(name, ".*")) return field == name;
    const std::string section = name.substr(0, name.size() - 1);  // "stop."
    return field + "." == section || (absl::StartsWith(field, section) && field.size() > section.size());
  };
  return covers("labels.*") || covers("metadata.labels.*") ||
         std::any_of(MutableFields().begin(), MutableFields().end(), covers);
}

}  // namespace atl
