// SPDX-License-Identifier: Apache-2.0
#include "common/plan/job_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/plan/model_layout.h"

namespace atl {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

JobSpec Valid() {
  JobSpec spec;
  spec.name = "tiny";
  CorpusSpec corpus;
  corpus.name = "text";
  corpus.manifest = Sha256Of(AsBytes(std::string("manifest")));
  spec.data.corpora.push_back(corpus);
  spec.stop.inner_steps = 1000;
  return spec;
}

std::vector<std::string> Fields(const JobSpec& spec, bool before_submit = false) {
  std::vector<std::string> out;
  for (const Violation& v : ValidateJobSpec(spec, before_submit)) out.push_back(v.field);
  return out;
}

// Assigns the one corpus to the one worker.
void Pin(JobSpec& spec) {
  spec.data.pin_shards = true;
  spec.workers.max = 1;
}

TEST(ValidateJobSpec, AcceptsTheDefaults) { EXPECT_THAT(Fields(Valid()), ElementsAre()); }

TEST(ValidateJobSpec, AcceptsAWorkerForEachCorpus) {
  JobSpec spec = Valid();
  Pin(spec);
  EXPECT_THAT(Fields(spec), ElementsAre());
  spec.sync.weights = WeightRule::kShardSize;
  EXPECT_THAT(Fields(spec), ElementsAre());
}

TEST(ValidateJobSpec, BeforeSubmitNameAndManifestMayBeAbsent) {
  JobSpec spec = Valid();
  spec.name.clear();
  spec.data.corpora[0].manifest = {};
  spec.data.corpora[0].name.clear();
  EXPECT_THAT(Fields(spec, true), ElementsAre());
  EXPECT_THAT(Fields(spec, false),
              ElementsAre("metadata.name", "data.corpora[0].manifest_sha256", "data.corpora[0].name"));
}

TEST(ValidateJobSpec, ListsAllViolationsInFileOrder) {
  JobSpec spec = Valid();
  spec.model.heads = 3;
  spec.data.sequence_length = 4;
  spec.batch.micro_batch = 9;
  spec.sync.overlap_steps = 100;
  spec.stop = {};
  EXPECT_THAT(Fields(spec),
              ElementsAre("model.heads", "data.sequence_length", "batch.micro_batch", "sync.overlap_steps", "stop"));
}

struct Case {
  const char* field;
  void (*change)(JobSpec&);
  const char* text;
};

class OneViolation : public testing::TestWithParam<Case> {};

TEST(TokenizerFileName, IsNoneThatAnExportCannotTake) {
  JobSpec spec = Valid();
  spec.data.tokenizer_files.resize(1);
  for (const char* name : {"tokenizer.json", "special_tokens_map.json", "merges.txt"}) {
    spec.data.tokenizer_file_names = {name};
    EXPECT_TRUE(ValidateJobSpec(spec, false).empty()) << name;
  }
  for (const char* name : {"", ".", "..", ".fragment", "a/b", "config.json", "generation_config.json",
                           "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    spec.data.tokenizer_file_names = {name};
    const std::vector<Violation> found = ValidateJobSpec(spec, false);
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_EQ(found[0].field, "data.tokenizer_file_names");
  }
}

TEST_P(OneViolation, IsFoundAndExplained) {
  JobSpec spec = Valid();
  GetParam().change(spec);
  const std::vector<Violation> found = ValidateJobSpec(spec, false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, GetParam().field);
  EXPECT_THAT(found[0].problem, HasSubstr(GetParam().text));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Case kCases[] = {
    {"metadata.name", [](JobSpec& s) { s.name = "Big Name"; }, "must be 1 to 63 of a-z"},
    {"metadata.name", [](JobSpec& s) { s.name = "-a"; }, "not beginning with -"},
    {"metadata.name", [](JobSpec& s) { s.name = std::string(64, 'a'); }, "1 to 63"},
    {"metadata.labels",
     [](JobSpec& s) {
       for (int i = 0; i < 33; ++i) s.labels["k" + std::to_string(i)] = "v";
     },
     "at most 32"},
    {"metadata.labels.k", [](JobSpec& s) { s.labels["k"] = std::string(257, 'v'); }, "at most 256 bytes"},
    {"priority", [](JobSpec& s) { s.priority = 1001; }, "-1000 to 1000"},
    {"model.hidden_size",
     [](JobSpec& s) {
       s.model.hidden_size = 4;
       s.model.heads = 2;
     },
     "8 to 65536"},
    {"model.layers", [](JobSpec& s) { s.model.layers = 0; }, "is 0; it must be 1 to 1024"},
    {"model.heads", [](JobSpec& s) { s.model.heads = 0; }, "1 to 1024"},
    {"model.kv_heads", [](JobSpec& s) { s.model.kv_heads = 3; }, "model.heads (4) must be a multiple"},
    {"model.head_dim", [](JobSpec& s) { s.model.head_dim = 33; }, "even number"},
    {"model.rope_theta", [](JobSpec& s) { s.model.rope_theta = 1; }, "above 1"},
    {"model.init_std", [](JobSpec& s) { s.model.init_std = kNan; }, "0 to 1"},
    {"model",
     [](JobSpec& s) {
       s.model.hidden_size = 65536;
       s.model.layers = 1024;
       s.model.heads = 1024;
     },
     "parameters"},
    {"model.init.checkpoint", [](JobSpec& s) { s.init.checkpoint = "jobs/a/b/3"; }, "jobs/{job}/checkpoints/{step}"},
    {"model.init",
     [](JobSpec& s) {
       s.init.checkpoint = "jobs/a/checkpoints/3";
       s.init.safetensors.resize(1);
     },
     "only one"},
    {"data.corpora", [](JobSpec& s) { s.data.corpora.clear(); }, "at least one corpus"},
    {"data.corpora[1].name", [](JobSpec& s) { s.data.corpora.push_back(s.data.corpora[0]); }, "a second time"},
    {"data.corpora[0].weight", [](JobSpec& s) { s.data.corpora[0].weight = 0; }, "1 to 10000"},
    {"data.window_blocks", [](JobSpec& s) { s.data.window_blocks = 0; }, "1 to 65536"},
    {"data.max_epochs", [](JobSpec& s) { s.data.max_epochs = -1; }, "0 to"},
    {"data.tokenizer_file_names",
     [](JobSpec& s) {
       s.data.tokenizer_file_names = {"../x"};
       s.data.tokenizer_files.resize(1);
     },
     "plain"},
    {"data.tokenizer_file_names", [](JobSpec& s) { s.data.tokenizer_files.resize(1); }, "one name for each"},
    {"data.tokenizer_file_names",
     [](JobSpec& s) {
       s.data.tokenizer_file_names = {"vocab.json", "vocab.json"};
       s.data.tokenizer_files.resize(2);
     },
     "has 'vocab.json' a second time"},
    {"workers.max", [](JobSpec& s) { s.data.pin_shards = true; }, "must equal the number of data.corpora (1)"},
    {"workers.max",
     [](JobSpec& s) {
       s.data.pin_shards = true;
       s.workers = {.min = 2, .max = 1};
     },
     "is 1, the number of data.corpora: with data.assignment shards each corpus has one worker; it must be at least"},
    {"data.max_epochs",
     [](JobSpec& s) {
       Pin(s);
       s.data.max_epochs = 1;
     },
     "end at different times"},
    {"data.corpora[0].weight",
     [](JobSpec& s) {
       Pin(s);
       s.data.corpora[0].weight = 2;
     },
     "is 2; with data.assignment shards"},
    {"sync.weights", [](JobSpec& s) { s.sync.weights = WeightRule::kShardSize; }, "needs data.assignment shards"},
    {"batch.sequences_per_step", [](JobSpec& s) { s.batch.sequences_per_step = 0; }, "1 to"},
    {"inner_optimizer.learning_rate", [](JobSpec& s) { s.inner.learning_rate = 0; }, "above 0"},
    {"inner_optimizer.beta2", [](JobSpec& s) { s.inner.beta2 = 1; }, "below 1"},
    {"inner_optimizer.epsilon", [](JobSpec& s) { s.inner.epsilon = kNan; }, "above 0"},
    {"inner_optimizer.schedule.warmup_steps", [](JobSpec& s) { s.inner.schedule.warmup_steps = 1001; }, "1000 steps"},
    {"inner_optimizer.schedule.decay_steps",
     [](JobSpec& s) { s.inner.schedule = {.kind = ScheduleKind::kWsd, .warmup_steps = 600, .decay_steps = 500}; },
     "must fit"},
    {"inner_optimizer.schedule.decay_steps",
     [](JobSpec& s) { s.inner.schedule = {.kind = ScheduleKind::kWsd, .warmup_steps = 801}; },
     "is 200, the default of a fifth of all steps; warm-up and decay must fit into 1000 steps"},
    {"inner_optimizer.schedule.final_ratio", [](JobSpec& s) { s.inner.schedule.final_ratio = 1.5; }, "0 to 1"},
    {"outer_optimizer.learning_rate", [](JobSpec& s) { s.outer.learning_rate = -0.1; }, "above 0"},
    {"outer_optimizer.momentum", [](JobSpec& s) { s.outer.momentum = 1; }, "below 1"},
    {"outer_optimizer.momentum",
     [](JobSpec& s) {
       s.outer.kind = OuterKind::kSgd;
       s.outer.momentum = 0.5;
     },
     "kind momentum"},
    {"sync.inner_steps", [](JobSpec& s) { s.sync.inner_steps = 0; }, "1 to 1000000"},
    {"experiment.drop_sync_probability", [](JobSpec& s) { s.experiment.drop_sync_probability = 1; },
     "is 1; it must be at least 0 and below 1"},
    {"experiment.drop_sync_probability", [](JobSpec& s) { s.experiment.drop_sync_probability = -0.1; }, "at least 0"},
    {"screens.clip_above", [](JobSpec& s) { s.screens.clip_above = 1; }, "is 1; it must be above 1"},
    {"screens.refuse_above", [](JobSpec& s) { s.screens.refuse_above = 2; },
     "is 2; it must be at least screens.clip_above, 3, and at most 1e+09"},
    {"screens.refuse_above", [](JobSpec& s) { s.screens.refuse_above = 2e9; }, "is 2e+09; it must be at least"},
    {"screens.refuse_above", [](JobSpec& s) { s.screens.refuse_above = kNan; }, "is nan; it must be at least"},
    {"screens.clip_above", [](JobSpec& s) { s.screens.clip_above = 2e6, s.screens.refuse_above = 3e6; },
     "at most 1e+06"},
    {"screens.strikes", [](JobSpec& s) { s.screens.strikes = 0; }, "1 to 1000"},
    {"experiment.pool",
     [](JobSpec& s) {
       s.experiment.pool = PoolSchedule::kRampUp;
       s.workers.planned = 4;
       s.stop = {.inner_steps = 0, .tokens = 1'000'000};
     },
     "set stop.inner_steps"},
    {"experiment.pool", [](JobSpec& s) { s.experiment.pool = PoolSchedule::kHalving; },
     "set workers.planned to at least 2"},
    {"sync.mix", [](JobSpec& s) { s.sync.mix = 1.01; }, "0 to 1"},
    {"sync.layers_per_fragment", [](JobSpec& s) { s.sync.layers_per_fragment = 0; }, "1 to 1024"},
    {"sync.layers_per_fragment",
     [](JobSpec& s) {
       s.sync.layers_per_fragment = 1;
       s.model.layers = 1024;
       s.sync.pattern = FragmentPattern::kStrided;
     },
     "at most 1024"},
    {"sync.loco.beta", [](JobSpec& s) { s.sync.loco.beta = 1; }, "below 1"},
    {"sync.loco.reset_syncs", [](JobSpec& s) { s.sync.loco.reset_syncs = 0; }, "1 to 1000000"},
    {"sync.weights",
     [](JobSpec& s) {
       s.sync.pace = Pace::kBalanced;
       s.sync.weights = WeightRule::kUniform;
     },
     "use tokens"},
    {"sync.trim_share", [](JobSpec& s) { s.sync.merge.trim_share = 0.5; }, "at least 0 and below 0.5"},
    {"sync.clip_radius", [](JobSpec& s) { s.sync.merge.clip_radius = 0; }, "above 0 and at most 1000"},
    {"sync.quorum", [](JobSpec& s) { s.sync.quorum = 65; }, "workers.max (64)"},
    {"sync.deadline", [](JobSpec& s) { s.sync.deadline = Seconds(-1); }, "0s to 86400s"},
    {"sync.max_missed", [](JobSpec& s) { s.sync.max_missed = 0; }, "1 to 1000"},
    {"sync.upload_bytes_per_second", [](JobSpec& s) { s.sync.upload_bytes_per_second = 999; }, "1000 to 1000000000000"},
    {"sync.download_bytes_per_second", [](JobSpec& s) { s.sync.download_bytes_per_second = UINT64_MAX; },
     "1000 to 1000000000000"},
    {"workers.max", [](JobSpec& s) { s.workers.max = 2000; }, "1 to 1024"},
    {"workers.max",
     [](JobSpec& s) {
       s.workers.min = 8;
       s.workers.max = 4;
     },
     "workers.min (8)"},
    {"workers.planned", [](JobSpec& s) { s.workers.planned = 65; }, "between"},
    {"stop", [](JobSpec& s) { s.stop = {}; }, "so that the job ends"},
    {"evaluation.max_tokens", [](JobSpec& s) { s.evaluation.max_tokens = 10; }, "one sample (256 tokens)"},
    {"evaluation.tasks_every_rounds", [](JobSpec& s) { s.evaluation.tasks_every_rounds = 3; }, "names no file"},
    {"evaluation.tasks[0].name",
     [](JobSpec& s) {
       s.evaluation.tasks = {{"a b", {}, 1}};
     },
     "1 to 63 letters"},
    {"evaluation.tasks[1].name",
     [](JobSpec& s) {
       s.evaluation.tasks = {{"a", {}, 1}, {"a", {}, 1}};
     },
     "a second time"},
    {"evaluation.tasks",
     [](JobSpec& s) {
       s.evaluation.tasks = {{"a", {}, 200'001}};
     },
     "at most 200000"},
    {"evaluation.tasks",
     [](JobSpec& s) {
       for (int i = 0; i < 129; ++i) s.evaluation.tasks.push_back({"t" + std::to_string(i), {}, 1});
     },
     "at most 128"},
    {"checkpoint.keep_last", [](JobSpec& s) { s.checkpoint.keep_last = 0; }, "1 to"},
};
INSTANTIATE_TEST_SUITE_P(Table, OneViolation, testing::ValuesIn(kCases));

// The fields of the violations once the row `path` has another value.
template <class Value>
std::vector<std::string> FieldsWith(const std::string& path, Value other) {
  JobSpec spec = Valid();
  ForEachNumber(spec, [&](const char* section, const auto& row, auto& value) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, Value>) {
      if (absl::StrCat(section, ".", row.name) == path) value = other;
    }
  });
  return Fields(spec);
}

TEST(ValidateJobSpec, RefusesEachNumberBeyondItsBounds) {
  const JobSpec spec;
  int checked = 0;
  ForEachNumber(spec, [&](const char* section, const auto& row, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    const Bounds& bounds = row.bounds;
    if (bounds.kind == Bounds::Kind::kNone) return;
    const std::string path = absl::StrCat(section, ".", row.name);
    const Value low = static_cast<Value>(bounds.low), high = static_cast<Value>(bounds.high);
    const auto next = [](Value from, int step) {
      if constexpr (std::is_same_v<Value, double>) return std::nextafter(from, step * 1e300);
      return static_cast<Value>(from + static_cast<Value>(step));
    };
    const bool real = std::is_same_v<Value, double>, above = bounds.kind == Bounds::Kind::kAboveLow;
    if (real || low > 0) {
      EXPECT_THAT(FieldsWith(path, above ? low : next(low, -1)), Contains(path));
    }
    EXPECT_THAT(FieldsWith(path, above ? next(low, 1) : low), Not(Contains(path)));
    const bool below = bounds.kind == Bounds::Kind::kBelowHigh;
    EXPECT_THAT(FieldsWith(path, below ? high : next(high, 1)), Contains(path));
    if (real) {
      EXPECT_THAT(FieldsWith(path, static_cast<Value>(kNan)), Contains(path));
    }
    if (bounds.kind == Bounds::Kind::kZeroOr) {
      EXPECT_THAT(FieldsWith(path, Value{0}), Not(Contains(path)));
    }
    ++checked;
  });
  EXPECT_GT(checked, 30);
}

// (2 + 2 mu) / (1 + 2 mu): 1.357 at 0.9, 2 without momentum.
TEST(ValidateJobSpec, RefusesUnstableOuterRates) {
  JobSpec spec = Valid();
  spec.outer.momentum = 0.9;
  spec.outer.learning_rate = 1.35;
  EXPECT_THAT(Fields(spec), ElementsAre());
  spec.outer.learning_rate = 1.36;
  EXPECT_THAT(Fields(spec), ElementsAre("outer_optimizer.learning_rate"));
  spec.outer.momentum = -1;  // 0.6 will be chosen: (2 + 1.2) / (1 + 1.2) = 1.4545
  EXPECT_THAT(Fields(spec), ElementsAre());
  spec.outer.learning_rate = 1.46;
  EXPECT_THAT(Fields(spec), ElementsAre("outer_optimizer.learning_rate"));
  spec.outer.kind = OuterKind::kSgd;
  spec.outer.learning_rate = 2.0;
  EXPECT_THAT(Fields(spec), ElementsAre());
}

TEST(ResolveDefaults, FillsSizes) {
  JobSpec spec = Valid();
  ResolveDefaults(spec, 257);
  EXPECT_EQ(spec.model.vocab_size, 320u);
  EXPECT_EQ(spec.model.intermediate_size, 704u);  // 8/3 x 256 = 682.67
  EXPECT_EQ(spec.model.kv_heads, 4u);
  EXPECT_EQ(spec.model.head_dim, 64u);
  EXPECT_EQ(spec.workers.planned, 1u);
  EXPECT_EQ(spec.sync.join_warmup_steps, 50u);
  EXPECT_EQ(spec.inner.schedule.total_steps, 1000u);
  EXPECT_GT(MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).elements, 0u);
  EXPECT_THAT(Fields(spec), ElementsAre());
}

TEST(ResolveDefaults, KeepsGivenValues) {
  JobSpec spec = Valid();
  ResolveDefaults(spec, 256);
  const JobSpec once = spec;
  EXPECT_TRUE(ResolveDefaults(spec, 999).empty());
  EXPECT_EQ(spec.model.vocab_size, once.model.vocab_size);
  EXPECT_EQ(spec.outer.momentum, once.outer.momentum);
}

TEST(ResolveDefaults, OuterRateFollowsPlannedWorkers) {
  const auto rate = [](uint32_t planned) {
    JobSpec spec = Valid();
    spec.stop.inner_steps = 100'000;  // 1,000 outer steps
    spec.workers.planned = planned;
    ResolveDefaults(spec, 256);
    EXPECT_DOUBLE_EQ(spec.outer.momentum, 0.9);
    return spec.outer.learning_rate;
  };
  EXPECT_DOUBLE_EQ(rate(1), 0.4);
  EXPECT_DOUBLE_EQ(rate(2), 0.6);
  EXPECT_DOUBLE_EQ(rate(4), 0.6);
  EXPECT_DOUBLE_EQ(rate(5), 0.8);
  EXPECT_DOUBLE_EQ(rate(64), 0.8);
}

TEST(ResolveDefaults, ShortRunsGetLessMomentumAndANotice) {
  JobSpec spec = Valid();
  spec.stop.inner_steps = 19'999;
  const std::vector<std::string> notes = ResolveDefaults(spec, 256);
  EXPECT_DOUBLE_EQ(spec.outer.learning_rate, 0.7);
  EXPECT_DOUBLE_EQ(spec.outer.momentum, 0.6);
  EXPECT_THAT(notes, Contains("outer_optimizer.momentum 0.6: 199 planned outer steps are fewer than 200"));
  JobSpec longer = Valid();
  longer.stop.inner_steps = 20'000;
  ResolveDefaults(longer, 256);
  EXPECT_DOUBLE_EQ(longer.outer.momentum, 0.9);
}

TEST(ResolveDefaults, GivenOuterValuesStand) {
  JobSpec spec = Valid();
  spec.outer.momentum = 0;
  ResolveDefaults(spec, 256);
  EXPECT_DOUBLE_EQ(spec.outer.momentum, 0);
  EXPECT_DOUBLE_EQ(spec.outer.learning_rate, 0.7);
}

TEST(PlannedInnerSteps, TakesTheFirstRuleMet) {
  JobSpec spec = Valid();
  EXPECT_EQ(PlannedInnerSteps(spec), 1000u);
  spec.stop.tokens = 8 * 256 * 10 + 1;  // ten steps of one worker and one token
  EXPECT_EQ(PlannedInnerSteps(spec), 11u);
  spec.workers.planned = 4;
  EXPECT_EQ(PlannedInnerSteps(spec), 3u);
  spec.stop = {};
  EXPECT_EQ(PlannedInnerSteps(spec), 0u);
}

TEST(IsMutableField, KnowsWhatAnUpdateMayChange) {
  for (const char* field :
       {"inner_optimizer.learning_rate", "inner_optimizer.schedule.total_steps", "stop.tokens", "priority",
        "workers.min", "workers.max", "evaluation.every_rounds", "checkpoint.every_rounds", "screens.norm",
        "screens.strikes", "sync.upload_bytes_per_second", "sync.download_bytes_per_second", "labels.a",
        "metadata.labels.a"}) {
    EXPECT_TRUE(IsMutableField(field)) << field;
  }
  for (const char* field :
       {"model.layers", "inner_optimizer.beta1", "sync.inner_steps", "outer_optimizer.learning_rate", "workers.planned",
        "data.seed", "stops.tokens", "", "stop.", "screens."}) {
    EXPECT_FALSE(IsMutableField(field)) << field;
  }
}

}  // namespace
}  // namespace atl
