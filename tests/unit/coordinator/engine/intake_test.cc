// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/intake.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace atl {
namespace {

CorpusManifest SmallManifest(const std::string& name, uint64_t train_tokens, uint64_t held_out_tokens) {
  CorpusManifest manifest;
  manifest.name = name;
  manifest.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
  const auto add = [&manifest](const std::string& file, CorpusSplit split, uint64_t tokens) {
    if (tokens == 0) return;
    manifest.files.push_back({.name = file,
                              .split = split,
                              .bytes = kShardHeaderBytes + 2 * tokens,
                              .sha256 = Sha256Of(AsBytes(file)),
                              .tokens = tokens,
                              .documents = 1,
                              .blocks = std::vector<Sha256>((2 * tokens + kBlockBytes - 1) / kBlockBytes)});
  };
  add("train-00000.bin", CorpusSplit::kTrain, train_tokens);
  add("held_out-00000.bin", CorpusSplit::kHeldOut, held_out_tokens);
  manifest.train = {.documents = 1, .tokens = train_tokens, .text_bytes = train_tokens};
  manifest.held_out = {
      .documents = held_out_tokens > 0 ? 1u : 0u, .tokens = held_out_tokens, .text_bytes = held_out_tokens};
  return manifest;
}

struct Fixture {
  std::map<Sha256, std::string> blobs;
  Sha256 Store(const CorpusManifest& manifest) {
    const std::string text = SerializeManifest(manifest);
    const Sha256 name = Sha256Of(AsBytes(text));
    blobs[name] = text;
    return name;
  }
  BlobReader Reader() {
    return [this](const Sha256& name) -> absl::StatusOr<std::string> {
      const auto it = blobs.find(name);
      if (it == blobs.end()) return absl::NotFoundError("not stored");
      return it->second;
    };
  }
  Sha256 Store(const std::string& text) {
    const Sha256 name = Sha256Of(AsBytes(text));
    blobs[name] = text;
    return name;
  }
  // A job with one task of `pairs` minimal pairs.
  JobSpec WithTask(const CorpusManifest& manifest, int pairs) {
    std::string text;
    for (int i = 0; i < pairs; ++i) text += "{\"sentence_good\": \"a b\", \"sentence_bad\": \"b a\"}\n";
    JobSpec spec = Spec({Store(manifest)});
    spec.evaluation.tasks = {{"pairs", Store(text), 0}};
    return spec;
  }
  static JobSpec Spec(const std::vector<Sha256>& manifests) {
    JobSpec spec;
    spec.name = "tiny";
    for (const Sha256& manifest : manifests)
      spec.data.corpora.push_back({"c" + std::to_string(spec.data.corpora.size()), manifest, 1});
    spec.data.sequence_length = 100;
    spec.stop.inner_steps = 500;
    return spec;
  }
};

TEST(Intake, CompletesASpecAndCountsSamples) {
  Fixture f;
  JobSpec spec = Fixture::Spec({f.Store(SmallManifest("a", 10'001, 1'001))});
  spec.evaluation.max_tokens = 500;
  const auto result = PlanJob(spec, f.Reader());
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->violations.empty()) << result->violations[0].field << ": " << result->violations[0].problem;
  EXPECT_EQ(result->plan.stop_step, 500u);
  EXPECT_EQ(result->plan.dataset_samples, UINT64_MAX);
  EXPECT_EQ(result->plan.held_out_samples, 5u);  // 500 of the 1,000 targets
  EXPECT_EQ(result->plan.spec.model.vocab_size, 320u);
  EXPECT_GT(result->plan.layout.elements, 0u);
}

TEST(Intake, FillsInWhatPinnedCorporaWeigh) {
  Fixture f;
  JobSpec spec = Fixture::Spec({f.Store(SmallManifest("a", 10'001, 1'001)), f.Store(SmallManifest("b", 30'001, 0))});
  spec.data.pin_shards = true;
  spec.workers.max = 2;
  const auto result = PlanJob(spec, f.Reader());
  ASSERT_TRUE(result.ok() && result->violations.empty());
  EXPECT_EQ(result->plan.spec.data.corpora[0].samples, 100u);
  EXPECT_EQ(result->plan.spec.data.corpora[1].samples, 300u);
}

TEST(Intake, SinglePassEndsTheData) {
  Fixture f;
  JobSpec spec = Fixture::Spec({f.Store(SmallManifest("a", 10'001, 1'001))});
  spec.data.max_epochs = 1;
  const auto result = PlanJob(spec, f.Reader());
  ASSERT_TRUE(result.ok() && result->violations.empty());
  EXPECT_EQ(result->plan.dataset_samples, 100u);
}

TEST(Intake, ReportsMissingFiles) {
  Fixture f;
  const auto result = PlanJob(Fixture::Spec({Sha256Of(AsBytes(std::string("nobody")))}), f.Reader());
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->violations.size(), 1u);
  EXPECT_EQ(result->violations[0].field, "data.corpora[0].manifest");
  EXPECT_NE(result->violations[0].problem.find("is not stored at the coordinator"), std::string::npos);
}

TEST(Intake, RefusesCorporaOfTwoTokenizers) {
  Fixture f;
  CorpusManifest other = SmallManifest("b", 10'001, 0);
  other.tokenizer = {.kind = "sentencepiece",
                     .file = "t.model",
                     .sha256 = Sha256Of(AsBytes(std::string("t"))),
                     .vocab_size = 512,
                     .eot_id = 2};
  const auto result = PlanJob(Fixture::Spec({f.Store(SmallManifest("a", 10'001, 0)), f.Store(other)}), f.Reader());
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->violations.size(), 1u);
  EXPECT_NE(result->violations[0].problem.find("prepare both corpora with one tokenizer"), std::string::npos);
}

TEST(Intake, RefusesAVocabularyThatIsTooSmall) {
  Fixture f;
  JobSpec spec = Fixture::Spec({f.Store(SmallManifest("a", 10'001, 0))});
  spec.model.vocab_size = 64;
  const auto result = PlanJob(spec, f.Reader());
  ASSERT_TRUE(result.ok());
  ASSERT_FALSE(result->violations.empty());
  EXPECT_EQ(result->violations[0].field, "model.vocab_size");
}

TEST(Intake, SaysThatThereIsNothingToEvaluateOn) {
  Fixture f;
  const auto result = PlanJob(Fixture::Spec({f.Store(SmallManifest("a", 10'001, 0))}), f.Reader());
  ASSERT_TRUE(result.ok() && result->violations.empty());
  EXPECT_EQ(result->plan.held_out_samples, 0u);
  EXPECT_NE(result->plan.notes.back().find("held-out"), std::string::npos);
}

TEST(Intake, CountsTheExamplesOfTasks) {
  Fixture f;
  JobSpec spec = f.WithTask(SmallManifest("a", 10'001, 1'001), 7);
  spec.evaluation.tasks.push_back({"some", spec.evaluation.tasks[0].file, 5});
  spec.evaluation.tasks.push_back({"more", spec.evaluation.tasks[0].file, 50});
  const auto result = PlanJob(spec, f.Reader());
  ASSERT_TRUE(result.ok() && result->violations.empty());
  const auto& tasks = result->plan.spec.evaluation.tasks;
  EXPECT_EQ(tasks[0].examples, 7u);
  EXPECT_EQ(tasks[1].examples, 5u);
  EXPECT_EQ(tasks[2].examples, 7u);
}

TEST(Intake, RefusesTasksThatCannotBeScored) {
  Fixture f;
  const auto refused = [&](const JobSpec& spec, const std::string& field, const std::string& why) {
    const auto result = PlanJob(spec, f.Reader());
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->violations.size(), 1u) << why;
    EXPECT_EQ(result->violations[0].field, field);
    EXPECT_NE(result->violations[0].problem.find(why), std::string::npos) << result->violations[0].problem;
  };
  const CorpusManifest manifest = SmallManifest("a", 10'001, 1'001);
  JobSpec spec = f.WithTask(manifest, 2);
  spec.evaluation.tasks[0].file = Sha256Of(AsBytes(std::string("nobody")));
  refused(spec, "evaluation.tasks[0].file", "is not stored at the coordinator");
  spec.evaluation.tasks[0].file = f.Store("{\"sentence_good\": \"a\"}\n");
  refused(spec, "evaluation.tasks[0].file", "line 1");
  refused(f.WithTask(SmallManifest("b", 10'001, 0), 2), "evaluation.tasks", "no corpus has a held-out split");
  CorpusManifest pieces = manifest;
  pieces.tokenizer = {.kind = "sentencepiece",
                      .file = "tokenizer.model",
                      .sha256 = Sha256Of(AsBytes(std::string("model"))),
                      .vocab_size = 512,
                      .eot_id = 2};
  refused(f.WithTask(pieces, 2), "evaluation.tasks", "cannot be scored without the corpora's tokenizer.model");
  f.Store(std::string("model"));
  const auto result = PlanJob(f.WithTask(pieces, 2), f.Reader());
  EXPECT_TRUE(result.ok() && result->violations.empty());
}

// S39: each is read only after the bytes of all before it are counted.
TEST(Intake, BoundsTheBytesOfAllFiles) {
  Fixture f;
  int reads = 0;
  const auto padded = [&](const Sha256& name) -> absl::StatusOr<std::string> {
    ++reads;
    ATOLL_ASSIGN_OR_RETURN(std::string text, f.Reader()(name));
    return text + std::string((size_t{48} << 20) - text.size(), '\n');
  };
  JobSpec spec = f.WithTask(SmallManifest("a", 10'001, 1'001), 2);
  spec.evaluation.tasks.push_back({"more", spec.evaluation.tasks[0].file, 0});
  spec.evaluation.tasks.push_back({"most", spec.evaluation.tasks[0].file, 0});
  auto result = PlanJob(spec, padded);
  ASSERT_TRUE(result.ok() && result->violations.size() == 1u) << result.status();
  EXPECT_EQ(result->violations[0].field, "evaluation.tasks");
  EXPECT_EQ(reads, 3) << "the manifest and two tasks";
  EXPECT_TRUE(result->plan.manifests[0].files[0].blocks.empty());

  reads = 0;
  result = PlanJob(Fixture::Spec(std::vector<Sha256>(20, spec.data.corpora[0].manifest)), padded);
  ASSERT_TRUE(result.ok() && !result->violations.empty()) << result.status();
  EXPECT_EQ(result->violations[0].field, "data.corpora");
  EXPECT_EQ(reads, 11);
}

}  // namespace
}  // namespace atl
