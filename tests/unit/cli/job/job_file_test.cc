// SPDX-License-Identifier: Apache-2.0
#include "cli/job/job_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

namespace atl::cli {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> Texts(const std::vector<Fault>& faults) {
  std::vector<std::string> out;
  for (const Fault& f : faults) out.push_back(f.ToString());
  return out;
}

constexpr char kGood[] = R"(apiVersion: atoll/v1
kind: TrainingJob
metadata:
  name: tiny
  labels: {team: reef}
spec:
  model: {hidden_size: 64, heads: 4, layers: 2}
  data:
    corpora:
      - name: text
        manifest: corpus/manifest.json
  sync:
    inner_steps: 20
    fragments: strided
    deadline: 90s
  stop: {inner_steps: 400}
)";

JobFile Parse(const std::string& text, std::vector<Fault>& faults, std::vector<std::string> overrides = {}) {
  return ParseJobFile("job.yaml", text, overrides, faults);
}

TEST(JobFile, ReadsAGoodFile) {
  std::vector<Fault> faults;
  const JobFile file = Parse(kGood, faults);
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_EQ(file.name, "tiny");
  EXPECT_EQ(file.labels.at("team"), "reef");
  EXPECT_EQ(file.spec.model().hidden_size(), 64u);
  EXPECT_EQ(file.spec.data().corpora(0).manifest(), "corpus/manifest.json");
  EXPECT_EQ(file.spec.sync().fragments(), v1::FRAGMENT_PATTERN_STRIDED);
  EXPECT_EQ(file.spec.sync().deadline().seconds(), 90);
  EXPECT_THAT(Texts(CheckJobFile(file)), IsEmpty());
}

TEST(JobFile, JsonIsReadToo) {
  std::vector<Fault> faults;
  const JobFile file = Parse(R"({"apiVersion": "atoll/v1", "kind": "TrainingJob",
    "spec": {"model": {"layers": 3, "precision": "bf16"}, "data": {"corpora": [{"manifest": "m.json"}]},
             "inner_optimizer": {"learning_rate": 4e-4}, "stop": {"tokens": 9007199254740993}}})",
                             faults);
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_EQ(file.spec.model().layers(), 3u);
  EXPECT_EQ(file.spec.model().precision(), v1::PRECISION_BF16);
  EXPECT_EQ(file.spec.stop().tokens(), 9007199254740993u);
}

// As Python writes it.
TEST(JobFile, JsonMayEscapeEveryCharacter) {
  std::vector<Fault> faults;
  const JobFile file = Parse(R"({"apiVersion": "atoll/v1", "kind": "TrainingJob",
    "spec": {"data": {"corpora": [{"manifest": "\\ud83d\/\u00fc\ud83d\ude80\u72b6.json"}]}}})",
                             faults);
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_EQ(file.spec.data().corpora(0).manifest(), "\\ud83d/ü🚀状.json");
  Parse(R"({"apiVersion": "atoll/v1", "kind": "TrainingJob", "metadata": {"name": "\ud83d"}})", faults);
  EXPECT_THAT(Texts(faults), Contains(HasSubstr("invalid unicode"))) << "half of a character";
}

// One fault in an otherwise valid file, and the exact error.
struct Case {
  const char* what;
  const char* line;  // replaces the sync block's lines
  const char* said;
};

std::string WithLine(const std::string& line) {
  return "apiVersion: atoll/v1\nkind: TrainingJob\nspec:\n  data:\n    corpora: [{manifest: m.json}]\n  stop: "
         "{inner_steps: 400}\n" +
         line + "\n";
}

class JobFileFault : public testing::TestWithParam<Case> {};

TEST_P(JobFileFault, IsOneClearSentenceWithItsPlace) {
  std::vector<Fault> faults;
  const JobFile file = Parse(WithLine(GetParam().line), faults);
  if (faults.empty()) faults = CheckJobFile(file);
  EXPECT_THAT(Texts(faults), ElementsAre(GetParam().said));
}

const Case kCases[] = {
    {"unknown key", "  sync: {inner_step: 5}",
     "job.yaml:7:10: sync.inner_step is not a known key; did you mean 'inner_steps'?"},
    {"unknown key without a neighbour", "  sync: {banana: 5}",
     "job.yaml:7:10: sync.banana is not a known key; 'atoll job schema' lists those of sync"},
    {"unknown key of a short section", "  batch: {micro: 5}",
     "job.yaml:7:11: batch.micro is not a known key; batch has sequences_per_step, micro_batch"},
    {"unknown section", "  modell: {}", "job.yaml:7:3: modell is not a known key; did you mean 'model'?"},
    {"text for a number", "  sync: {inner_steps: many}",
     "job.yaml:7:23: sync.inner_steps is 'many'; it must be a whole number from 1 to 1000000"},
    {"quoted number", "  sync: {inner_steps: \"5\"}",
     "job.yaml:7:23: sync.inner_steps is '5' in quotes; it must be a whole number from 1 to 1000000"},
    {"fraction for a whole number", "  sync: {inner_steps: 1.5}",
     "job.yaml:7:23: sync.inner_steps is '1.5'; it must be a whole number from 1 to 1000000"},
    {"negative", "  sync: {inner_steps: -1}",
     "job.yaml:7:23: sync.inner_steps is '-1'; it must be a whole number from 1 to 1000000"},
    {"too large", "  sync: {inner_steps: 4294967296}",
     "job.yaml:7:23: sync.inner_steps is '4294967296'; it must be a whole number from 1 to 1000000"},
    {"not a number", "  sync: {mix: .nan}", "job.yaml:7:15: sync.mix is '.nan'; it must be a number from 0 to 1"},
    {"YAML 1.1 truth", "  model: {tie_embeddings: yes}",
     "job.yaml:7:27: model.tie_embeddings is 'yes'; it must be true or false"},
    {"unknown choice", "  sync: {fragments: stridded}",
     "job.yaml:7:21: sync.fragments is 'stridded'; it must be one of whole, strided, sequential, balanced; did you "
     "mean "
     "'strided'?"},
    {"long name of a choice", "  sync: {fragments: FRAGMENT_PATTERN_WHOLE}",
     "job.yaml:7:21: sync.fragments is 'FRAGMENT_PATTERN_WHOLE'; it must be one of whole, strided, sequential, "
     "balanced"},
    {"duration without a unit", "  sync: {deadline: 90}",
     "job.yaml:7:20: sync.deadline is '90'; it must be a time such as 90s, 250ms or 1.5h"},
    {"map for a duration", "  sync: {deadline: {seconds: 90}}",
     "job.yaml:7:20: sync.deadline is a map; it must be a time such as 90s or 250ms"},
    {"list for a map", "  sync: [1]", "job.yaml:7:9: sync is a list; it must be a map of 'key: value' lines"},
    {"text for a map", "  sync: fast", "job.yaml:7:9: sync is 'fast'; it must be a map of 'key: value' lines"},
    {"map for text", "  model: {init: {checkpoint: {a: b}}}",
     "job.yaml:7:30: model.init.checkpoint is a map; it must be text"},
    {"no value", "  sync:\n  batch: {}", "job.yaml:7:3: sync has no value; give one or remove the key"},
    {"duplicate key", "  sync: {inner_steps: 5, inner_steps: 6}",
     "job.yaml:7:26: sync.inner_steps is given twice; the first is at job.yaml:7:10"},
    {"duplicate section", "  batch: {}\n  batch: {}",
     "job.yaml:8:3: batch is given twice; the first is at job.yaml:7:3"},
    {"a rule of the job", "  sync: {inner_steps: 0}", "job.yaml:7:10: sync.inner_steps is 0; it must be 1 to 1000000"},
    {"a rule between keys", "  sync:\n    inner_steps: 5\n    overlap_steps: 5",
     "job.yaml:9:5: sync.overlap_steps is 5; it must be below sync.inner_steps (5)"},
    {"a rule about what is absent", "  model: {hidden_size: 250}",
     "job.yaml:7:3: model.heads is 4; model.hidden_size (250) must be a multiple of it, or set model.head_dim"},
    {"an outer rate of 0", "  outer_optimizer: {learning_rate: 0}",
     "job.yaml:7:21: outer_optimizer.learning_rate is 0; it must be above 0, or absent"},
    {"two sources", "  model: {init: {directory: d, checkpoint: jobs/a/checkpoints/1}}",
     "job.yaml:7:18: model.init.directory is a second source; give only one of directory, safetensors_sha256 and "
     "checkpoint"},
    {"tab", "\tsync: {}", "job.yaml:7:2: is not YAML: end of map not found; indent with spaces, not tabs"},
};
INSTANTIATE_TEST_SUITE_P(Table, JobFileFault, testing::ValuesIn(kCases));

TEST(JobFile, ListsAllFaultsInOnePass) {
  std::vector<Fault> faults;
  Parse(
      "apiVersion: atoll/v2\nkind: Training\nmetadata: {nmae: x}\nspec:\n  model: {layers: x}\n  stop: {tokens: -5}\n",
      faults);
  EXPECT_THAT(
      Texts(faults),
      ElementsAre("job.yaml:1:13: apiVersion is 'atoll/v2'; it must be atoll/v1",
                  "job.yaml:2:7: kind is 'Training'; it must be TrainingJob",
                  "job.yaml:3:18: metadata.nmae is not a known key; did you mean 'name'?",
                  testing::StartsWith("job.yaml:5:19: model.layers is 'x'; it must be a whole number from 1 to "),
                  "job.yaml:6:18: stop.tokens is '-5'; it must be a whole number from 0 to 1152921504606846976"));
}

TEST(JobFile, RulesAreCheckedDespiteWrongTypes) {
  std::vector<Fault> faults;
  const JobFile file = Parse(WithLine("  model: {heads: 3}\n  sync: {inner_steps: 0, upload_codec: bf61, mix: high}\n"
                                      "  workers: {min: -1}\n  inner_optimizer: {learning_rate: fast}"),
                             faults);
  CheckBeside(file, faults);
  EXPECT_THAT(
      Texts(faults),
      ElementsAre(
          testing::StartsWith("job.yaml:8:40: sync.upload_codec is 'bf61'; it must be one of fp32, "),
          "job.yaml:8:51: sync.mix is 'high'; it must be a number from 0 to 1",
          testing::AllOf(
              testing::StartsWith("job.yaml:9:18: workers.min is '-1'; it must be a whole number from 1 to "),
              testing::Not(testing::HasSubstr("4294967295"))),
          "job.yaml:10:36: inner_optimizer.learning_rate is 'fast'; it must be a number above 0 and at most 1000",
          testing::StartsWith("job.yaml:7:11: model.heads is 3; "),
          "job.yaml:8:10: sync.inner_steps is 0; it must be 1 to 1000000"));
}

TEST(JobFile, RulesOfUnreadableValuesAreSkipped) {
  const auto beside = [](const std::string& line) {
    std::vector<Fault> faults;
    const JobFile file = Parse(WithLine(line), faults);
    CheckBeside(file, faults);
    return Texts(faults);
  };
  EXPECT_EQ(beside("  model: {heads: 3, hidden_size: x}").size(), 1u);
  EXPECT_EQ(beside("  model: {heads: 3, hiden_size: 384}").size(), 1u) << "the size that was meant is unknown";
  EXPECT_EQ(beside("  sync: {inner_steps: x, overlap_steps: 900}").size(), 1u);
  EXPECT_EQ(beside("  workers: {max: x, min: 100}").size(), 1u);
  EXPECT_EQ(beside("  modell: {heads: 3}\n  sync: {mix: 2}").size(), 2u);
  std::vector<Fault> faults;
  CheckBeside(Parse("apiVersion: atoll/v1\nkind: TrainingJob\nspec: 5\n", faults), faults);
  EXPECT_EQ(faults.size(), 1u);
  faults.clear();
  CheckBeside(Parse("apiVersion: atoll/v1\nkind: TrainingJob\n", faults), faults);
  EXPECT_EQ(faults.size(), 1u);
}

TEST(JobFile, TheHeadIsRequired) {
  std::vector<Fault> faults;
  Parse("metadata: {name: a}\n", faults);
  EXPECT_THAT(Texts(faults), ElementsAre("job.yaml: apiVersion is missing; write apiVersion: atoll/v1",
                                         "job.yaml: kind is missing; write kind: TrainingJob",
                                         "job.yaml: spec is missing; it contains model, data and stop"));
}

TEST(JobFile, RefusesSeveralDocuments) {
  const auto said = [](const std::string& text) {
    std::vector<Fault> faults;
    Parse(text, faults);
    return Texts(faults);
  };
  EXPECT_THAT(said(""), ElementsAre("job.yaml: contains no document; 'atoll job init' prints one to start from"));
  EXPECT_THAT(
      said("a: 1\n---\nb: 2\n"),
      ElementsAre("job.yaml:2:1: a second document starts here, or text that is not YAML; a job file is one document"));
  for (const std::string& text :
       {std::string(","), std::string("\n,\x02"), std::string("a: 1\n,\n"), std::string("]"), std::string("}")}) {
    EXPECT_EQ(said(text).size(), 1u) << text;  // and it ends: some texts were parsed forever
  }
  EXPECT_THAT(said("{a: [}"), ElementsAre(testing::StartsWith("job.yaml:1:6: is not YAML: ")));
  EXPECT_THAT(said(std::string(2 << 20, ' ')),
              ElementsAre("job.yaml: is 2097152 bytes long; a job file has at most 1048576"));
}

TEST(JobFile, AliasesCannotMakeASmallFileLarge) {
  std::string text = "x0: &x0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*x" + std::to_string(i - 1);
    text += "x" + std::to_string(i) + ": &x" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) text += "," + last;
    text += "]\n";
  }
  std::vector<Fault> faults;
  Parse(text + WithLine("  model: {init: {safetensors_sha256: *x8}}"), faults);
  EXPECT_FALSE(faults.empty());
  EXPECT_LT(faults.size(), 200u);
}

TEST(JobFile, OverridesWinAndAreNamedInFaults) {
  std::vector<Fault> faults;
  const JobFile file = Parse(kGood, faults,
                             {"sync.inner_steps=50", "spec.model.precision=bf16", "metadata.name=other",
                              "metadata.labels.owner=me", "data.corpora[0].weight=3", "sync.deadline=250ms"});
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_EQ(file.spec.sync().inner_steps(), 50u);
  EXPECT_EQ(file.spec.model().precision(), v1::PRECISION_BF16);
  EXPECT_EQ(file.name, "other");
  EXPECT_EQ(file.labels.at("owner"), "me");
  EXPECT_EQ(file.spec.data().corpora(0).weight(), 3u);
  EXPECT_EQ(file.spec.sync().deadline().nanos(), 250'000'000);
}

// A path is not YAML: in it the characters of a comment, map, list or alias have no meaning.
TEST(JobFile, TextOfAnOverrideIsTakenAsItStands) {
  const auto manifest = [](const std::string& value) {
    std::vector<Fault> faults;
    const JobFile file = Parse(kGood, faults, {"data.corpora[0].manifest=" + value});
    EXPECT_THAT(Texts(faults), IsEmpty()) << value;
    return file.spec.data().corpora(0).manifest();
  };
  for (const char* text : {"/tmp/dir #1/corpus/manifest.json", "a: b", "[a]", "{a", "*a", "&a b", "- a", "5", "null",
                           "a ", " a", "a'b", "a\"b", "%a", "@a", "|", "#"}) {
    EXPECT_EQ(manifest(text), text);
  }
  EXPECT_EQ(manifest("\"a #1\""), "a #1");
  EXPECT_EQ(manifest("'a: b'"), "a: b");
  std::vector<Fault> faults;
  Parse(kGood, faults, {"data.corpora[0].manifest=", "data.corpora[0].manifest=\"a"});
  EXPECT_THAT(
      Texts(faults),
      ElementsAre("--set data.corpora[0].manifest=: data.corpora[0].manifest has no value; give one or remove the key",
                  testing::StartsWith("--set data.corpora[0].manifest=\"a: data.corpora[0].manifest has a value "
                                      "that is not YAML: ")));
}

TEST(JobFile, AListOfTextsIsStillOne) {
  std::vector<Fault> faults;
  const JobFile file = Parse(kGood, faults, {"data.tokenizer_file_names=[a.model, \"b #1\"]"});
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_THAT(file.spec.data().tokenizer_file_names(), ElementsAre("a.model", "b #1"));
}

TEST(JobFile, OverridesOfTheHeadAreItsNameAndLabels) {
  std::vector<Fault> faults;
  Parse(kGood, faults,
        {"metadata.foo=1", "metadata.nmae=a", "metadata.labels={a: b}", "metadata=a", "metadata.name.x=a",
         "data.corpora[0]=2", "evaluation.tasks[0]=a"});
  const std::string cannot = " cannot be set; write metadata.name=VALUE or metadata.labels.KEY=VALUE";
  EXPECT_THAT(Texts(faults),
              ElementsAre("--set metadata.foo=1: metadata has no key 'foo'; metadata has name, labels",
                          "--set metadata.nmae=a: metadata has no key 'nmae'; did you mean 'name'?",
                          "--set metadata.labels={a: b}: metadata.labels" + cannot,
                          "--set metadata=a: metadata" + cannot, "--set metadata.name.x=a: metadata.name.x" + cannot,
                          "--set data.corpora[0]=2: data.corpora[0] needs a key after it, such as data.corpora[0].name",
                          "--set evaluation.tasks[0]=a: evaluation.tasks[0] needs a key after it, such as "
                          "evaluation.tasks[0].name"));
}

TEST(JobFile, RuleBrokenByAnOverrideIsReportedThere) {
  const auto told = [](const std::string& text, const std::string& set) {
    std::vector<Fault> faults;
    const JobFile file = Parse(text, faults, {set});
    EXPECT_THAT(Texts(faults), IsEmpty());
    return Texts(CheckJobFile(file));
  };
  EXPECT_THAT(told(kGood, "stop.inner_steps=0"), ElementsAre("--set stop.inner_steps=0: stop has no stop rule; set "
                                                             "stop.inner_steps or stop.tokens, so that the job ends"));
  EXPECT_THAT(
      told(kGood, "model.hidden_size=66"),
      ElementsAre("--set model.hidden_size=66: model.heads is 4; model.hidden_size (66) must be a multiple of it, or "
                  "set model.head_dim"));
  EXPECT_THAT(told(WithLine("  sync: {inner_steps: 5, overlap_steps: 5}"), "data.seed=3"),
              ElementsAre("job.yaml:7:26: sync.overlap_steps is 5; it must be below sync.inner_steps (5)"));
  // Fields that the rule uses implicitly, and a whole section.
  EXPECT_THAT(told(WithLine("  inner_optimizer: {schedule: {warmup_steps: 20}}"), "stop.inner_steps=10"),
              ElementsAre(StartsWith("--set stop.inner_steps=10: inner_optimizer.schedule.warmup_steps is 20")));
  EXPECT_THAT(told(WithLine("  sync: {inner_steps: 5}"), "sync={inner_steps: 0}"),
              ElementsAre(StartsWith("--set sync={inner_steps: 0}: sync.inner_steps is 0")));
  EXPECT_THAT(told(WithLine("  sync: {mix: 2}"), "sync={inner_steps: 5}"),
              ElementsAre(StartsWith("job.yaml:7:10: sync.mix is 2")))
      << "what it does not replace";
}

TEST(JobFile, WrongOverridesAreFaults) {
  std::vector<Fault> faults;
  Parse(kGood, faults,
        {"sync.inner_step=5", "sync.inner_steps=x", "nonsense", "sync.inner_steps.x=1", "data.corpora.name=a",
         "data.corpora[4].name=a", "=3", "sync.mix={"});
  EXPECT_THAT(
      Texts(faults),
      ElementsAre(
          "--set sync.inner_step=5: sync has no key 'inner_step'; did you mean 'inner_steps'?",
          "--set sync.inner_steps=x: sync.inner_steps is 'x'; it must be a whole number from 1 to 1000000",
          "--set nonsense: must be PATH=VALUE, such as sync.inner_steps=50",
          "--set sync.inner_steps.x=1: sync.inner_steps.x continues below 'inner_steps', which is a single value",
          "--set data.corpora.name=a: data.corpora.name must name an element of 'corpora', such as corpora[0]",
          "--set data.corpora[4].name=a: data.corpora[4].name names element 4, but the list is shorter",
          "--set =3: must be PATH=VALUE, such as sync.inner_steps=50",
          testing::StartsWith("--set sync.mix={: sync.mix has a value that is not YAML: ")));
  faults.clear();
  const JobFile file = Parse(kGood, faults, {"sync.inner_steps=0"});
  EXPECT_THAT(Texts(CheckJobFile(file)),
              ElementsAre("--set sync.inner_steps=0: sync.inner_steps is 0; it must be 1 to 1000000"));
}

TEST(JobFile, TheDefaultedFileMeansTheSame) {
  std::vector<Fault> faults;
  const JobFile file = Parse(kGood, faults);
  const std::string yaml = DefaultedYaml(file);
  const JobFile again = Parse(yaml, faults);
  EXPECT_THAT(Texts(faults), IsEmpty()) << yaml;
  EXPECT_THAT(Texts(CheckJobFile(again)), IsEmpty());
  EXPECT_EQ(DefaultedYaml(again), yaml);
  EXPECT_EQ(again.name, "tiny");
  EXPECT_EQ(again.labels, file.labels);
  EXPECT_EQ(again.spec.inner_optimizer().learning_rate(), 4e-4);
  EXPECT_EQ(again.spec.sync().deadline().seconds(), 90);
}

TEST(ParseUpdate, TakesMutableFieldsOnly) {
  std::vector<Fault> faults;
  const SpecUpdate update = ParseUpdate({"inner_optimizer.learning_rate=1e-3", "workers.max=8"}, faults);
  EXPECT_THAT(Texts(faults), IsEmpty());
  EXPECT_THAT(update.paths, ElementsAre("inner_optimizer.learning_rate", "workers.max"));
  EXPECT_EQ(update.spec.inner_optimizer().learning_rate(), 1e-3);
  ParseUpdate({"model.layers=3"}, faults);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].ToString(),
              testing::StartsWith("--set model.layers=3: model.layers cannot be changed in a submitted job"));
}

TEST(ParseUpdate, UnknownPathSuggestsTheNearest) {
  const auto told = [](const std::string& set) {
    std::vector<Fault> faults;
    ParseUpdate({set}, faults);
    return faults.empty() ? "" : faults[0].ToString();
  };
  EXPECT_EQ(told("stop.iner_steps=5"),
            "--set stop.iner_steps=5: stop has no key 'iner_steps'; did you mean 'inner_steps'?");
  EXPECT_EQ(
      told("inner_optimiser.learning_rate=1"),
      "--set inner_optimiser.learning_rate=1: spec has no key 'inner_optimiser'; did you mean 'inner_optimizer'?");
  EXPECT_EQ(told("inner_steps=5"),
            "--set inner_steps=5: spec has no key 'inner_steps'; did you mean sync.inner_steps or stop.inner_steps?");
  EXPECT_EQ(
      told("xyzzy=5"),
      "--set xyzzy=5: spec has no key 'xyzzy'; the spec has model, data, batch, inner_optimizer, outer_optimizer, "
      "sync, workers, stop, evaluation, checkpoint, priority, experiment, screens");
  EXPECT_EQ(told("batch.size=5"),
            "--set batch.size=5: batch has no key 'size'; batch has sequences_per_step, micro_batch");
  EXPECT_THAT(told("data.corpora[0].weight=2"),
              testing::HasSubstr("data.corpora[0].weight cannot be changed in a submitted job"));
  EXPECT_THAT(told("metadata.labels.team=a"), testing::HasSubstr("--set-label KEY=VALUE"));
  EXPECT_THAT(told("metadata.name=a"), testing::HasSubstr("another name"));
  EXPECT_EQ(told("screens.strikes=3"), "");
}

}  // namespace
}  // namespace atl::cli
