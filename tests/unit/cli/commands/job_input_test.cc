// SPDX-License-Identifier: Apache-2.0
// Files named in a job file: all their faults are reported at once, with the names used in the job
// file.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/descriptor.h"
#include "common/format/huggingface.h"
#include "common/format/safetensors.h"
#include "common/plan/model_layout.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class JobInput : public testing::Test {
 protected:
  JobInput()
      : folder_(testing::TempDir() + "/job_input_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~JobInput() override {
    std::filesystem::current_path(began_in_);
    std::filesystem::remove_all(folder_);
  }

  // `spec` is the content of spec:, as one flow mapping.
  RunResult Run(const std::vector<std::string>& command, const std::string& spec) {
    const std::string file = folder_ + "/job.yaml";
    std::ofstream(file) << "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec: " << spec << "\n";
    std::vector<std::string> arguments = command;
    arguments.push_back(file);
    return harness_.Run(arguments);
  }

  const std::filesystem::path began_in_ = std::filesystem::current_path();
  const std::string folder_;
  Harness harness_;
};

TEST_F(JobInput, MissingManifestIsListedWithAllOtherErrors) {
  const std::string spec =
      "{data: {corpora: [{manifest: nowhere}, {manifest: elsewhere/manifest.json}]}, sync: {mix: 2, inner_step: 5}, "
      "evaluation: {every_rounds: 1, tasks: [{file: nothing.jsonl}]}, stop: {inner_steps: 10}}";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"job", "validate"}, std::vector<std::string>{"job", "submit"}}) {
    const RunResult result = Run(command, spec);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.talk, AllOf(HasSubstr("sync.inner_step is not a known key; did you mean 'inner_steps'?"),
                                   HasSubstr("sync.mix is 2"), HasSubstr("data.corpora[0].manifest cannot be read"),
                                   HasSubstr(folder_ + "/nowhere/manifest.json"),
                                   HasSubstr("data.corpora[1].manifest cannot be read"),
                                   HasSubstr("evaluation.tasks[0].file cannot be read"), HasSubstr("has 5 faults")));
  }
  EXPECT_TRUE(harness_.fake.submitted.empty());
}

// Such a name is /dev/stdin, or /dev/fd/63 for `<(command)`: the job file is not in that directory.
TEST_F(JobInput, PathsInAnOpenFileAreRelativeToTheWorkingDirectory) {
  std::ofstream(folder_ + "/text.txt") << std::string(20'000, 'a');
  ASSERT_EQ(
      harness_
          .Run({"data", "prepare", folder_ + "/text.txt", "--out", folder_ + "/corpus", "--held-out", "0", "--quiet"})
          .code,
      0);
  const std::string job =
      "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec: {stop: {inner_steps: 10}, data: "
      "{sequence_length: 16, corpora: [{manifest: corpus}]}}\n";
  std::ofstream(folder_ + "/job.yaml") << job;
  std::filesystem::current_path(folder_);
  const auto validate = [&](const std::string& file) {
    const RunResult result = harness_.Run({"job", "validate", file});
    EXPECT_EQ(result.code, 0) << file << ": " << result.talk;
  };
  for (const std::string& directory :
       {std::string("/dev/fd"), std::string("/proc/self/fd"), absl::StrCat("/proc/", ::getpid(), "/fd")}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], job.data(), job.size()), static_cast<ssize_t>(job.size()));
    ::close(ends[1]);
    const Descriptor pipe(ends[0]), file(::open((folder_ + "/job.yaml").c_str(), O_RDONLY));
    for (const int open : {pipe.get(), file.get()}) validate(absl::StrCat(directory, "/", open));
  }
  const Descriptor file(::open((folder_ + "/job.yaml").c_str(), O_RDONLY)), before(::dup(STDIN_FILENO));
  ASSERT_EQ(::dup2(file.get(), STDIN_FILENO), STDIN_FILENO);
  validate("/dev/stdin");
  harness_.input = job;
  validate("-");
  ::dup2(before.get(), STDIN_FILENO);
}

// Faults that the coordinator would find only after the upload are reported before it.
TEST_F(JobInput, InsufficientCorporaAreReportedAtOnce) {
  std::ofstream(folder_ + "/text.txt") << std::string(2'000, 'a');
  const auto prepare = [&](const std::string& out, const std::string& held_out) {
    const RunResult made = Harness().Run(
        {"data", "prepare", folder_ + "/text.txt", "--out", folder_ + "/" + out, "--held-out", held_out, "--quiet"});
    ASSERT_EQ(made.code, 0) << made.talk;
  };
  prepare("corpus", "0");
  std::ofstream(folder_ + "/task.jsonl") << "{\"sentence_good\": \"a cat\", \"sentence_bad\": \"a cats\"}\n";
  const std::string begin = "{stop: {inner_steps: 400}, data: {corpora: [{manifest: corpus}], sequence_length: ";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"job", "validate"}, std::vector<std::string>{"submit", "--dry-run=client"},
        std::vector<std::string>{"submit"}}) {
    RunResult result = Run(command, begin + "16}, model: {vocab_size: 3}}");
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.talk, HasSubstr("job.yaml:4:"));
    EXPECT_THAT(result.talk,
                HasSubstr("model.vocab_size is 3, but the corpus has tokens up to 256; give at least 257"));
    result = Run(command, begin + "10000}}");
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.talk, HasSubstr("has no shard of at least 10001"));
    result = Run(command, begin + "16}, evaluation: {tasks: [{file: task.jsonl}]}}");
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.talk, HasSubstr("held-out split of at least one sample; prepare the corpora with --held-out"));
  }
  EXPECT_TRUE(harness_.fake.submitted.empty());
  EXPECT_EQ(Run({"job", "validate"}, begin + "16}}").code, 0);
}

TEST_F(JobInput, NonTextIsRefusedWithItsPosition) {
  RunResult result = Run({"job", "validate"}, "{stop: {inner_steps: 400}, # caf\xff\n}");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("job.yaml:4:39: contains bytes that are not UTF-8"));
  result = Run({"job", "validate", "--set", "metadata.name=a\xff"}, "{stop: {inner_steps: 400}}");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("--set metadata.name=a"));
  EXPECT_THAT(result.talk, HasSubstr("contains bytes that are not UTF-8"));
}

TEST_F(JobInput, ErrorIsReportedOnce) {
  const RunResult result = Run({"job", "validate"},
                               "{data: {corpora: [{manifest: nowhere}]}, evaluation: {tasks: [{file: nothing.jsonl, "
                               "name: a b}]}, stop: {inner_steps: 10}}");
  EXPECT_THAT(result.talk,
              AllOf(HasSubstr("evaluation.tasks[0].name is 'a b'"), Not(HasSubstr("would be named 'a b'"))));
}

TEST(WrongWords, AreAnsweredWithThoseThatAreAllowed) {
  const auto said = [](const std::vector<std::string>& arguments) {
    const RunResult result = Harness().Run(arguments);
    EXPECT_EQ(result.code, 2);
    return result.talk;
  };
  EXPECT_THAT(said({"checkpoint", "export", "--dtype", "fp23", "tiny", "out"}),
              HasSubstr("--dtype is 'fp23'; it must be one of fp32, fp16, bf16; did you mean 'fp32'?"));
  EXPECT_THAT(said({"checkpoint", "export", "--format", "gguf", "tiny", "out"}),
              HasSubstr("--format is 'gguf'; it must be hf\n"));
  EXPECT_THAT(said({"metrics", "tiny", "--csv", "-o", "json"}), HasSubstr("--csv and -o cannot be combined"));
  EXPECT_THAT(said({"list", "--state", "done"}),
              HasSubstr("--state is 'done'; it must be one of pending, waiting_for_workers, running, "));
}

// A user's directory of weights, of a tiny model.
class InitialWeights : public JobInput {
 protected:
  InitialWeights() {
    config_.model = {.vocab_size = 300, .hidden_size = 16, .intermediate_size = 32, .layers = 1, .heads = 2};
    config_.model.kv_heads = 2;
    config_.model.head_dim = 8;
    const absl::Status written = WriteHuggingFaceDirectory(*harness_.files, weights_, config_, Tensors(), {},
                                                           [](size_t, uint64_t, std::span<float> out) {
                                                             std::fill(out.begin(), out.end(), 0.25f);
                                                             return absl::OkStatus();
                                                           });
    EXPECT_TRUE(written.ok()) << written;
  }
  std::vector<TensorInfo> Tensors() const { return MakeModelLayout(config_.model, FragmentPattern::kWhole, 1).tensors; }
  RunResult Validate(const std::string& directory = "weights") {
    return Run({"job", "validate"}, absl::StrCat("{model: {init: {directory: ", directory,
                                                 "}}, data: {corpora: [{name: text, manifest_sha256: ",
                                                 std::string(64, 'a'), "}]}, stop: {inner_steps: 400}}"));
  }
  void Cut(uint64_t bytes) { std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - bytes); }
  const std::string weights_ = folder_ + "/weights", file_ = weights_ + "/model.safetensors";
  HuggingFaceConfig config_;
};

TEST_F(InitialWeights, WeightsOfOneModelAreAccepted) {
  const RunResult result = Validate();
  EXPECT_EQ(result.code, 0) << result.talk;
}

TEST_F(InitialWeights, ADamagedFileIsNamedAsTheUserKnowsIt) {
  Cut(1);
  RunResult result = Validate();
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk,
              AllOf(HasSubstr("model.init.directory cannot be used: " + file_), HasSubstr("copy it again")));
  Cut(std::filesystem::file_size(file_) - 100);
  result = Validate();
  EXPECT_THAT(result.talk, AllOf(HasSubstr(file_ + " is truncated: its header needs"), HasSubstr("copy it again")));
  std::filesystem::resize_file(file_, 0);
  EXPECT_THAT(Validate().talk, HasSubstr(file_ + " has 0 bytes and is not a safetensors file"));
}

TEST_F(InitialWeights, AValueThatIsNotFiniteIsNamed) {
  const uint32_t not_a_number = 0x7fc00000;
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write(reinterpret_cast<const char*>(&not_a_number), 4);
  file.close();
  EXPECT_THAT(Validate().talk,
              AllOf(HasSubstr("of " + file_ + " is not finite at element"), HasSubstr("another checkpoint")));
}

TEST_F(InitialWeights, AnotherModelThanThatOfTheConfigIsNamed) {
  config_.model.layers = 2;
  std::ofstream(weights_ + "/config.json") << HuggingFaceConfigJson(config_);
  EXPECT_THAT(Validate().talk,
              AllOf(HasSubstr(file_ + " has no tensor model.layers.1."), HasSubstr("belong to one model")));
  config_.model.layers = 1;
  config_.model.intermediate_size = 48;
  std::ofstream(weights_ + "/config.json") << HuggingFaceConfigJson(config_);
  EXPECT_THAT(Validate().talk,
              AllOf(HasSubstr("of " + file_ + " has the shape [32, 16]"), HasSubstr("implies [48, 16]")));
}

TEST_F(InitialWeights, FilesThatTheIndexDoesNotNameAreNotRead) {
  std::filesystem::rename(file_, weights_ + "/new.safetensors");
  std::string map;
  for (const TensorInfo& tensor : Tensors()) {
    absl::StrAppend(&map, map.empty() ? "" : ",", "\"", tensor.name, "\": \"new.safetensors\"");
  }
  std::ofstream(weights_ + "/model.safetensors.index.json") << "{\"weight_map\": {" << map << "}}";
  std::ofstream(weights_ + "/old.safetensors") << "damaged";
  const RunResult result = Validate();
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_THAT(result.talk, HasSubstr("model.safetensors.index.json names, not from old.safetensors\n"));
  std::filesystem::remove(weights_ + "/new.safetensors");
  EXPECT_THAT(Validate().talk, HasSubstr("names new.safetensors, which is missing in the same directory"));
}

TEST_F(InitialWeights, ADirectoryThatIsNotThereIsNotAnEmptyOne) {
  EXPECT_THAT(Validate("nowhere").talk,
              HasSubstr("model.init.directory names " + folder_ + "/nowhere, which does not exist; give a directory"));
  std::filesystem::create_directories(folder_ + "/empty");
  EXPECT_THAT(Validate("empty").talk, HasSubstr("cannot be read: " + folder_ + "/empty holds no .safetensors file"));
  EXPECT_THAT(Validate("job.yaml").talk, HasSubstr("model.init.directory cannot be read: "));
}

TEST(UpdateJob, AStopRuleThatIsMetAlreadyIsRefusedUnlessForced) {
  Harness harness;
  v1::Job& job = *harness.fake.job.mutable_job();
  job.set_name("jobs/tiny");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_step(100);
  job.set_tokens(9000);  // including tokens discarded by a rollback
  job.mutable_ledger()->set_consumed(50);
  job.mutable_spec()->mutable_data()->set_sequence_length(100);
  const auto update = [&harness](const std::string& set, const std::string& more = "--set=priority=1") {
    return harness.Run({"job", "update", "tiny", "--set", set, more});
  };
  const RunResult refused = update("stop.inner_steps=100");
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.talk,
            "atoll: job tiny is at step 100, so that stop.inner_steps 100 would end it at once; end it with 'atoll job "
            "cancel tiny --drain', pause it with 'atoll job pause tiny', or repeat the update with --force\n");
  EXPECT_THAT(update("stop.tokens=4000").talk,
              HasSubstr("has trained 5000 tokens, so that stop.tokens 4000 would end it"));
  EXPECT_EQ(harness.fake.updated.name(), "");
  EXPECT_EQ(update("stop.inner_steps=101").code, 0);
  EXPECT_EQ(update("stop.tokens=5001").code, 0);
  EXPECT_EQ(update("stop.tokens=0").code, 0);
  EXPECT_EQ(update("stop.inner_steps=100", "--force").code, 0);
  EXPECT_EQ(harness.fake.updated.spec().stop().inner_steps(), 100u);
}

TEST(Usage, TheHelpThatIsNamedIsThatOfTheCommand) {
  EXPECT_THAT(Harness().Run({"job", "get"}).talk,
              HasSubstr("job is required\nRun 'atoll job get --help' for its use.\n"));
  EXPECT_THAT(Harness().Run({"worker"}).talk, HasSubstr("Run 'atoll worker --help'"));
  EXPECT_THAT(Harness().Run({"sumbit"}).talk, HasSubstr("Run 'atoll --help' for the commands.\n"));
  EXPECT_THAT(Harness().Run({"job", "sumbit"}).talk, HasSubstr("Run 'atoll job --help' for its use.\n"));
  EXPECT_THAT(Harness().Run({"jobs", "list"}).talk,
              HasSubstr("unknown command 'jobs'; did you mean 'job'?\nRun 'atoll --help' for the commands.\n"));
  EXPECT_THAT(Harness().Run({"job", "list", "--lable", "a=b"}).talk, HasSubstr("Run 'atoll job list --help'"));
}

TEST(DryRun, RefusesWhatOnlyAJobCouldHave) {
  const auto said = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"submit", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Harness harness;
    const RunResult result = harness.Run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_TRUE(harness.fake.submitted.empty());
    return result.talk;
  };
  for (const std::string where : {"--dry-run=client", "--dry-run=server"}) {
    for (const std::string after : {"--wait", "--watch"}) {
      EXPECT_EQ(said({where, after}),
                "atoll: " + after + " cannot be used with " + where + ", which creates no job; omit one of the two\n");
    }
  }
  EXPECT_EQ(said({"--dry-run=client", "--request-id", "11111111-1111-4111-8111-111111111111"}),
            "atoll: --request-id cannot be used with --dry-run=client, which does not contact the coordinator; omit "
            "one of the two\n");
}

TEST(Get, AJobThatHasEndedHasNoWorkers) {
  Harness harness;
  v1::Job& job = *harness.fake.job.mutable_job();
  job.set_name("jobs/tiny");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.set_workers_participating(2);
  EXPECT_THAT(harness.Run({"get", "tiny"}).out, Not(HasSubstr("0/0/2")));
}

TEST(ExitCodes, AFileThatCannotBeReadIsNoWrongUse) {
  const std::string folder = testing::TempDir() + "/exit_codes_corpus";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(Harness().Run({"job", "submit", folder}).code, 3);
  EXPECT_EQ(Harness().Run({"job", "validate", folder}).code, 3);
  for (const char* text : {"{", "{}", "[1]"}) {
    std::ofstream(folder + "/manifest.json") << text;
    EXPECT_EQ(Harness().Run({"data", "inspect", folder}).code, 3) << text;
    EXPECT_EQ(Harness().Run({"data", "verify", folder}).code, 3) << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace atl::cli
