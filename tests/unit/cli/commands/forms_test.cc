// SPDX-License-Identifier: Apache-2.0
// The -o formats of each command, and the error for any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

RunResult RunWith(std::vector<std::string> arguments, const std::string& form) {
  arguments.insert(arguments.end(), {"-o", form});
  return Harness().Run(arguments);
}

TEST(Forms, ThatACommandDoesNotHaveAreRefusedWithThoseItHas) {
  const auto refuses = [](const std::vector<std::string>& command, const std::vector<std::string>& forms,
                          const std::string& takes) {
    for (const std::string& form : forms) {
      const RunResult result = RunWith(command, form);
      EXPECT_EQ(result.code, 2) << command.back() << " " << form;
      EXPECT_EQ(result.out, "") << command.back() << " " << form;
      EXPECT_EQ(result.talk, "atoll: -o is " + form + "; " + takes + "\n");
    }
  };
  const std::string document = "this command takes table, json, jsonl or yaml";
  const std::vector<std::string> plan = {"plan",           "--params", "1e9",         "--layers", "24",
                                         "--step-seconds", "0.1",      "--bandwidth", "1Gbps"};
  for (const auto& command : std::vector<std::vector<std::string>>{plan,
                                                                   {"version"},
                                                                   {"doctor"},
                                                                   {"token", "list"},
                                                                   {"metrics", "tiny"},
                                                                   {"job", "wait", "tiny"},
                                                                   {"job", "validate", "-"},
                                                                   {"checkpoint", "download", "tiny", "there"},
                                                                   {"data", "inspect", "corpus"}})
    refuses(command, {"name", "wide"}, document);
  refuses({"job", "describe", "tiny"}, {"name"}, "this command takes table, wide, json, jsonl or yaml");
  refuses({"logs", "tiny"}, {"yaml", "name", "wide"}, "this command takes table, json or jsonl");
  refuses({"watch", "tiny"}, {"yaml", "name", "wide"}, "this command takes table, json or jsonl");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"submit", "-"}, {"job", "pause", "tiny"}, {"worker", "drain", "a"}, {"checkpoints", "tiny"}})
    refuses(command, {"wide"}, "this command takes table, json, jsonl, yaml or name");
  refuses({"submit", "-", "--dry-run=server"}, {"name"}, "--dry-run=server takes table, json, jsonl or yaml");
  refuses({"submit", "-", "--watch"}, {"name", "yaml"}, "--watch takes table, json or jsonl");
  EXPECT_THAT(RunWith({"submit", "-", "--dry-run=client"}, "json").talk, HasSubstr("has no result to print"));
}

TEST(Forms, JsonlIsOneLineAnItem) {
  Harness harness;
  for (const char* id : {"a", "b"}) {
    harness.fake.tokens.add_tokens()->set_id(id);
    harness.fake.checkpoints.add_checkpoints()->set_name(id);
    harness.fake.workers.add_workers()->set_name(id);
  }
  EXPECT_EQ(harness.Run({"token", "list", "-o", "jsonl"}).out, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
  EXPECT_EQ(harness.Run({"checkpoints", "tiny", "-o", "jsonl"}).out, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
  EXPECT_EQ(harness.Run({"worker", "list", "-o", "jsonl"}).out, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
  EXPECT_THAT(harness.Run({"token", "list", "-o", "json"}).out, StartsWith("{\n \"tokens\": ["));
  harness.fake.tokens.set_next_page_token("b");
  harness.fake.more_tokens.add_tokens()->set_id("c");
  EXPECT_EQ(harness.Run({"token", "list", "-o", "jsonl"}).out, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
}

TEST(Forms, AJobThatIsWaitedForIsOneDocument) {
  const auto submit = [](const std::string& after, const std::string& form) {
    Harness harness;
    harness.input =
        "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec:\n  data:\n    corpora: [{name: text, "
        "manifest_sha256: " +
        std::string(64, 'a') + "}]\n  stop: {inner_steps: 400}\n";
    v1::WatchJobResponse end;
    end.mutable_job()->set_name("jobs/tiny");
    end.mutable_job()->set_state(v1::JOB_STATE_SUCCEEDED);
    end.add_events()->set_text("done");
    harness.fake.watches = {{{end}, absl::OkStatus()}};
    const RunResult result = harness.Run({"submit", "-", after, "-o", form});
    EXPECT_EQ(result.code, 0) << result.talk;
    return result;
  };
  EXPECT_EQ(submit("--wait", "jsonl").out, "{\"name\":\"jobs/tiny\",\"state\":\"JOB_STATE_SUCCEEDED\"}\n");
  EXPECT_EQ(submit("--wait", "json").out, "{\n \"name\": \"jobs/tiny\",\n \"state\": \"JOB_STATE_SUCCEEDED\"\n}\n");
  EXPECT_EQ(submit("--wait", "yaml").out.find("name:"), submit("--wait", "yaml").out.rfind("name:"));
  EXPECT_EQ(submit("--wait", "name").out, "jobs/tiny\n");
  EXPECT_EQ(submit("--wait", "name").talk, "jobs/tiny succeeded\n");
  EXPECT_EQ(submit("--wait", "table").out, "jobs/tiny\njobs/tiny succeeded\n");
  for (const char* form : {"json", "jsonl"})
    EXPECT_EQ(submit("--watch", form).out, "{\"name\":\"jobs/tiny\"}\n{\"text\":\"done\"}\n") << form;
}

}  // namespace
}  // namespace atl::cli
