// SPDX-License-Identifier: Apache-2.0
#include "worker/train/generate.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/format/corpus_writer.h"
#include "common/format/huggingface.h"
#include "common/text/huggingface_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model.h"
#include "worker/train/checkpoint.h"
#include "worker/train/eval_task.h"
#include "worker/train/sampling.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kText[] = "the cat sat on the mat and the dog lay on the log. ";

// A tiny byte model that has learned one sentence, exported for Hugging Face, and a corpus of that
// sentence.
class Generate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = testing::TempDir() + "/atoll_generate_" + std::to_string(getpid());
    fs::remove_all(root_);
    Train();
    WriteCorpus();
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static std::vector<uint32_t> SentenceIds(int repeats) {
    std::vector<uint32_t> ids;
    std::string text;
    for (int i = 0; i < repeats; ++i) text += kText;
    EXPECT_TRUE(MakeByteTokenizer()->Encode(text, ids).ok());
    return ids;
  }

  static void Train() {
    JobSpec job;
    job.model = {.vocab_size = 320,
                 .hidden_size = 32,
                 .intermediate_size = 64,
                 .layers = 2,
                 .heads = 4,
                 .kv_heads = 2,
                 .head_dim = 8};
    job.data.sequence_length = 48;
    job.batch.sequences_per_step = 4;
    const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
    const SystemClock clock;
    auto trainer = *Trainer::Create(job, layout, {}, clock);
    InitialParameters(layout, 1, 0, trainer->parameters().host());
    const std::vector<uint32_t> ids = SentenceIds(20);
    double loss = 0;
    for (size_t step = 0; step < 400; ++step) {
      std::vector<int32_t> tokens;
      for (size_t s = 0; s < 4; ++s) {
        for (size_t i = 0; i < 49; ++i) tokens.push_back(static_cast<int32_t>(ids[(step * 13 + s * 29) % 400 + i]));
      }
      loss = trainer->Step({tokens, 4}, 1e-2)->loss;
    }
    EXPECT_LT(loss, 0.1);
    HuggingFaceConfig config;
    config.model = job.model;
    config.max_positions = 48;
    config.eos_id = 256;
    const auto source = [&](size_t index, uint64_t begin, std::span<float> out) {
      return trainer->parameters().Read(layout.tensors[index].offset + begin, out);
    };
    const auto files = MakePosixFiles();
    EXPECT_TRUE(WriteHuggingFaceDirectory(*files, root_ + "/hf", config, layout.tensors,
                                          *HuggingFaceTokenizerFiles(*MakeByteTokenizer()), source)
                    .ok());
  }

  static void WriteCorpus() {
    CorpusWriterOptions options;
    options.name = "cats";
    options.held_out_fraction = 0.5;
    options.tokenizer = {.kind = "bytes", .file = "", .sha256 = {}, .vocab_size = 257, .eot_id = 256};
    const auto files = MakePosixFiles();
    auto writer = *CorpusWriter::Create(*files, root_ + "/corpus", options);
    for (const CorpusSplit split : {CorpusSplit::kTrain, CorpusSplit::kHeldOut}) {
      const std::vector<uint32_t> ids = SentenceIds(10);
      EXPECT_TRUE(writer->Add(split, ids, ids.size()).ok());
    }
    const auto manifest = writer->Finish();
    EXPECT_TRUE(manifest.ok()) << manifest.status();
  }

  static std::string Text(const GenerateOptions& options) {
    std::ostringstream out, talk;
    const absl::Status status = RunGenerate(options, out, talk);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(talk.str(), HasSubstr("parameters"));
    return out.str();
  }
  static absl::Status Failure(const GenerateOptions& options) {
    std::ostringstream out, talk;
    return RunGenerate(options, out, talk);
  }

  static std::string root_;
};
std::string Generate::root_;

TEST_F(Generate, SaysWhatItHasLearned) {
  GenerateOptions options{.checkpoint = root_ + "/hf", .prompt = "the cat sat", .max_tokens = 80, .temperature = 0};
  EXPECT_THAT(Text(options), StartsWith("the cat sat on the mat and the dog lay on the log. the cat"));
}

TEST_F(Generate, NamesTheVocabularyOfTheModelAndItsPadding) {
  std::ostringstream out, talk;
  ASSERT_TRUE(RunGenerate({.checkpoint = root_ + "/hf", .prompt = "x", .max_tokens = 1}, out, talk).ok());
  EXPECT_THAT(talk.str(), HasSubstr("vocabulary of 320, 257 of them tokens and the rest padding\n"));
}

TEST_F(Generate, TheSameSeedGivesTheSameText) {
  GenerateOptions options{.checkpoint = root_ + "/hf", .prompt = "x", .max_tokens = 30, .temperature = 5, .top_k = 0};
  const std::string first = Text(options);
  EXPECT_EQ(Text(options), first);
  options.seed = 1;
  EXPECT_NE(Text(options), first);
}

TEST_F(Generate, AnEmptyPromptBeginsADocument) {
  GenerateOptions options{.checkpoint = root_ + "/hf", .prompt = "", .max_tokens = 5};
  EXPECT_FALSE(Text(options).empty());
}

TEST_F(Generate, RefusesBadOptionsAndFiles) {
  GenerateOptions options{.checkpoint = root_ + "/none", .prompt = "x"};
  EXPECT_TRUE(absl::IsNotFound(Failure(options)));
  EXPECT_THAT(std::string(Failure(options).message()), HasSubstr("none/config.json"));
  options.max_tokens = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Failure(options)));
  options = {.checkpoint = root_ + "/hf", .prompt = "x", .temperature = std::nan("")};
  EXPECT_TRUE(absl::IsInvalidArgument(Failure(options)));

  fs::copy(root_ + "/hf", root_ + "/other");
  options = {.checkpoint = root_ + "/other", .prompt = "x"};
  std::ofstream(root_ + "/other/tokenizer.json") << R"({"model":{"type":"BPE","merges":["a b"],"vocab":{}}})";
  EXPECT_TRUE(absl::IsInvalidArgument(Failure(options)));
  fs::remove(root_ + "/other/tokenizer.json");
  EXPECT_TRUE(absl::IsNotFound(Failure(options)));
  fs::resize_file(root_ + "/other/model.safetensors", 5000);
  EXPECT_TRUE(absl::IsInvalidArgument(Failure(options))) << Failure(options);
  fs::remove_all(root_ + "/other");
}

TEST_F(Generate, MeasuresTheLossOfACorpus) {
  std::ostringstream out, talk;
  const EvalLossOptions options{.checkpoint = root_ + "/hf",
                                .manifest = root_ + "/corpus/manifest.json",
                                .train_split = false,
                                .sequence_length = 48,
                                .max_tokens = 0};
  const absl::Status status = RunEvalLoss(options, out, talk);
  ASSERT_TRUE(status.ok()) << status;
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["tokens"], 10u * (sizeof(kText) - 1) / 48 * 48);
  EXPECT_LT(json["loss"], 0.6);
  EXPECT_NEAR(json["perplexity"], std::exp(json["loss"].get<double>()), 1e-6);
  // Each document is followed by one end-of-text token, so the corpus has almost one byte per
  // token.
  EXPECT_NEAR(json["bits_per_byte"].get<double>(), json["loss"].get<double>() / std::log(2.0), 0.01);
}

TEST_F(Generate, LossRefusesAModelOfAnotherVocabulary) {
  std::string json = *ReadWholeFile(*MakePosixFiles(), root_ + "/corpus/manifest.json", 1 << 20);
  const size_t at = json.find("257");
  ASSERT_NE(at, std::string::npos);
  json.replace(at, 3, "999");
  std::ofstream(root_ + "/corpus/wide.json") << json;
  std::ostringstream out, talk;
  const EvalLossOptions options{.checkpoint = root_ + "/hf", .manifest = root_ + "/corpus/wide.json"};
  const absl::Status status = RunEvalLoss(options, out, talk);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// The model knows one sentence: it must prefer that sentence to its words in another order.
TEST_F(Generate, ScoresMinimalPairsAndChoices) {
  std::ofstream(root_ + "/pairs.jsonl")
      << R"({"sentence_good":"the cat sat on the mat","sentence_bad":"the mat cat on the sat"}
{"sentence_good":"og the. dl on","sentence_bad":"the dog lay on"}
{"sentence_good":"same","sentence_bad":"same"}
)";
  std::ofstream(root_ + "/choices.jsonl")
      << R"({"ctx":"the cat sat on","endings":["the log mat","the mat and","log"],"label":1}
)";
  const EvalTaskOptions options{
      .checkpoint = root_ + "/hf", .tasks = {root_ + "/pairs.jsonl", root_ + "/choices.jsonl"}, .per_example = true};
  std::ostringstream out, talk;
  const absl::Status status = RunEvalTasks(options, out, talk);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<nlohmann::json> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 7u) << out.str();
  EXPECT_EQ(lines[0]["choice"], 0);
  EXPECT_EQ(lines[1]["choice"], 1);
  EXPECT_TRUE(lines[2]["choice"].is_null()) << "equal scores choose nothing";
  EXPECT_EQ(lines[3]["task"], "pairs");
  EXPECT_EQ(lines[3]["correct"], 1);
  EXPECT_EQ(lines[3]["examples"], 3);
  EXPECT_EQ(lines[5]["kind"], "multiple_choice");
  EXPECT_EQ(lines[5]["correct"], 1);
  EXPECT_EQ(lines[5]["correct_per_byte"], 1);
  EXPECT_EQ(lines[6]["task"], "mean");
  EXPECT_NEAR(lines[6]["accuracy"].get<double>(), 2.0 / 3, 1e-5);
}

// A score is the loss of the text: exp of its negative mean is the perplexity of eval-loss.
TEST_F(Generate, AScoreIsTheSumOverTheTokensAfterTheContext) {
  const std::string context = "the cat ", choice = " sat on";
  std::ofstream(root_ + "/one.jsonl") << R"({"ctx":")" << context << R"(","endings":[")" << choice
                                      << R"("," x"],"label":0})";
  std::ostringstream out, talk;
  ASSERT_TRUE(
      RunEvalTasks({.checkpoint = root_ + "/hf", .tasks = {root_ + "/one.jsonl"}, .per_example = true}, out, talk)
          .ok());
  std::istringstream in(out.str());
  std::string line;
  std::getline(in, line);
  const double scored = nlohmann::json::parse(line)["log_probabilities"][0];

  const auto checkpoint = LoadCheckpoint(*MakePosixFiles(), root_ + "/hf");
  ASSERT_TRUE(checkpoint.ok());
  auto model = *Model::Create(checkpoint->config.model, checkpoint->layout, {}, *checkpoint->parameters, nullptr);
  const auto nll = [&](const std::string& text) {
    const std::vector<int32_t> tokens(text.begin(), text.end());
    return model->ForwardLoss({.tokens = tokens, .sequences = 1})->nll;
  };
  EXPECT_NEAR(scored, nll(context) - nll(context + choice), 1e-4);
}

TEST_F(Generate, EvalLossTakesTheSequencesOfAJobFile) {
  for (const uint32_t length : {0u, 7u, 1'048'577u}) {
    std::ostringstream out, talk;
    EvalLossOptions options;
    options.sequence_length = length;
    EXPECT_THAT(std::string(RunEvalLoss(options, out, talk).message()), HasSubstr("must be 8 to 1048576"));
  }
}

TEST_F(Generate, EvalNamesTheFileThatIsWrong) {
  std::ofstream(root_ + "/bad.jsonl") << "{\"sentence_good\":\"a\"}\n";
  std::ofstream(root_ + "/long.jsonl") << R"({"sentence_good":")" << std::string(100, 'a')
                                       << R"(","sentence_bad":"b"})";
  const auto failure = [&](const std::string& file) {
    std::ostringstream out, talk;
    return RunEvalTasks({.checkpoint = root_ + "/hf", .tasks = {root_ + file}}, out, talk);
  };
  EXPECT_THAT(std::string(failure("/bad.jsonl").message()),
              testing::AllOf(HasSubstr("bad.jsonl"), HasSubstr("line 1")));
  EXPECT_TRUE(absl::IsNotFound(failure("/none.jsonl"))) << failure("/none.jsonl");
  EXPECT_THAT(std::string(failure("/long.jsonl").message()),
              testing::AllOf(HasSubstr("long.jsonl"), HasSubstr("example 0"), HasSubstr("100 tokens")));
}

TEST(DrawToken, TakesTheLikeliestAtZero) {
  Rng rng(1);
  const std::vector<float> scores = {0.5f, 2.0f, 2.0f, -1.0f};
  EXPECT_EQ(DrawToken(scores, 0, 0, rng), 1u);
  EXPECT_EQ(DrawToken(scores, 0.8, 1, rng), 1u);
}

TEST(DrawToken, FollowsTheDistribution) {
  Rng rng(1);
  const std::vector<float> scores = {std::log(1.0f), std::log(2.0f), std::log(4.0f), std::log(8.0f)};
  std::vector<int> all(4), two(4), sharp(4);
  constexpr int kDraws = 30'000;
  for (int i = 0; i < kDraws; ++i) {
    ++all[DrawToken(scores, 1, 0, rng)];
    ++two[DrawToken(scores, 1, 2, rng)];
    ++sharp[DrawToken(scores, 0.5, 0, rng)];
  }
  EXPECT_NEAR(all[0], kDraws / 15.0, 300);  // four standard deviations are below 300
  EXPECT_NEAR(all[3], kDraws * 8 / 15.0, 350);
  EXPECT_EQ(two[0] + two[1], 0);
  EXPECT_NEAR(two[3], kDraws * 2 / 3.0, 350);
  EXPECT_NEAR(sharp[3], kDraws * 64 / 85.0, 350);
}

}  // namespace
}  // namespace atl
