// SPDX-License-Identifier: Apache-2.0
// Completion scripts, the JSON Schema and the job file templates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/app.h"
#include "cli/job/job_file.h"
#include "common/config/quantities.h"
#include "common/plan/job_validation.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Completion, KnowsEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const RunResult result = Harness().Run({"completion", shell});
    EXPECT_EQ(result.code, 0);
    for (const char* word : {"rollback", "prepare", "export", "drain", "dry-run", "endpoint"})
      EXPECT_THAT(result.out, HasSubstr(word)) << shell;
  }
  EXPECT_EQ(Harness().Run({"completion", "tcsh"}).code, 2);
}

TEST(Completion, OffersTheValuesOfOptionsAndEveryWordOnce) {
  const std::string bash = Harness().Run({"completion", "bash"}).out;
  EXPECT_THAT(bash, HasSubstr("words='table wide json jsonl yaml name'"));
  EXPECT_THAT(bash, HasSubstr("    'atoll checkpoint export --format') words='hf' ;;\n"));
  EXPECT_THAT(bash, HasSubstr("    'atoll completion') words='--help bash zsh fish --endpoint "));
  EXPECT_THAT(Harness().Run({"completion", "zsh"}).out, HasSubstr("entries=('hf')"));
  const std::string fish = Harness().Run({"completion", "fish"}).out;
  EXPECT_THAT(fish, HasSubstr(" -l output -s o -x -a 'table wide json jsonl yaml name' -d "));
  std::istringstream lines(bash);
  for (std::string line; std::getline(lines, line);) {
    const size_t help = line.find("--help");
    EXPECT_TRUE(help == std::string::npos || line.find("--help", help + 1) == std::string::npos) << line;
  }
}

TEST(Schema, IsStrictJson) {
  const RunResult result = Harness().Run({"job", "schema"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"additionalProperties\": false"), HasSubstr("\"strided\""),
                                HasSubstr("\"apiVersion\"")));
}

TEST(Schema, TakesTheTimesAndTextsThatTheReaderTakes) {
  const nlohmann::json schema = nlohmann::json::parse(Harness().Run({"job", "schema"}).out)["properties"];
  const nlohmann::json& sync = schema["spec"]["properties"]["sync"]["properties"];
  const std::regex pattern(sync["deadline"]["pattern"].get<std::string>());
  for (const std::string unit : {"ns", "us", "ms", "s", "m", "h", "d", "w", ""}) {
    const std::string text = "0.5" + unit;
    EXPECT_EQ(std::regex_match(text, pattern), ParseDuration(text).ok()) << text;
  }
  const nlohmann::json text = {"string", "number", "boolean"};
  const nlohmann::json& metadata = schema["metadata"]["properties"];
  EXPECT_EQ(metadata["name"]["type"], text);
  EXPECT_EQ(metadata["labels"]["additionalProperties"]["type"], text);
  EXPECT_EQ(schema["spec"]["properties"]["model"]["properties"]["init"]["properties"]["directory"]["type"], text);
  std::vector<Fault> faults;
  const JobFile file = ParseJobFile(
      "x", "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: 5, labels: {a: 5, b: true}}\nspec: {}\n", {},
      faults);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(file.name, "5");
  EXPECT_EQ(file.labels.at("a"), "5");
  EXPECT_EQ(file.labels.at("b"), "true");
}

// The words of `text` in backquotes.
std::vector<std::string> QuotedWords(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at)) {
    const size_t end = text.find('`', at + 1);
    words.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return words;
}

TEST(Update, RefusalAndPageListTheChangeableFields) {
  const std::string talk = Harness().Run({"job", "update", "tiny", "--set", "model.layers=3"}).talk;
  for (const std::string& field : MutableFields()) EXPECT_THAT(talk, HasSubstr(field));
  const char* source = std::getenv("ATOLL_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::ifstream file(std::string(source) + "/docs/job-file.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = page.find("may change while the job runs: ");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_THAT(QuotedWords(page.substr(begin, page.find(".\n", begin) - begin)), ElementsAreArray(MutableFields()));
}

TEST(Init, TemplatesAreTheExamplesAndValid) {
  const char* source = std::getenv("ATOLL_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  for (const std::string name : {"tiny-llama", "llama-150m"}) {
    const RunResult result = Harness().Run({"job", "init", "--template", name});
    EXPECT_EQ(result.code, 0);
    std::ifstream example(std::string(source) + "/deploy/examples/" + name + ".yaml");
    const std::string text((std::istreambuf_iterator<char>(example)), std::istreambuf_iterator<char>());
    EXPECT_EQ(result.out, text);
    std::vector<Fault> faults;
    const JobFile file = ParseJobFile(name, result.out, {}, faults);
    if (faults.empty()) faults = CheckJobFile(file);
    EXPECT_TRUE(faults.empty()) << faults[0].ToString();
  }
  EXPECT_THAT(Harness().Run({"job", "init", "--template", "tiny-lama"}).talk, HasSubstr("did you mean 'tiny-llama'?"));
}

}  // namespace
}  // namespace atl::cli
