// SPDX-License-Identifier: Apache-2.0
// The program as a user sees it: arguments, two output streams and an exit code.
#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/job/job_file.h"
#include "common/rpc/rpc_status.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A job file that names its corpus by hash, so that no corpus file is needed.
std::string Stored(const std::string& more = "") {
  return "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec:\n  data:\n    corpora: [{name: text, "
         "manifest_sha256: " +
         std::string(64, 'a') + "}]\n  stop: {inner_steps: 400}\n" + more;
}

v1::Job Job(const std::string& name, v1::JobState state) {
  v1::Job job;
  job.set_name("jobs/" + name);
  job.set_state(state);
  job.set_step(100);
  job.set_stop_step(400);
  return job;
}

v1::WatchJobResponse Message(v1::JobState state, uint64_t revision, const std::string& text) {
  v1::WatchJobResponse message;
  *message.mutable_job() = Job("tiny", state);
  v1::JobEvent& event = *message.add_events();
  event.set_revision(revision);
  event.set_kind("note");
  event.set_text(text);
  return message;
}

TEST(Usage, WrongWordsSuggestTheNearest) {
  const auto said = [](std::vector<std::string> arguments) {
    const RunResult result = Harness().Run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    return result.talk;
  };
  EXPECT_THAT(said({"sumbit"}), StartsWith("atoll: unknown command 'sumbit'; did you mean 'submit'?\n"));
  EXPECT_THAT(said({"wait", "tiny"}), StartsWith("atoll: unknown command 'wait'; did you mean 'job wait'?\n"));
  EXPECT_THAT(said({"describe"}), HasSubstr("did you mean 'job describe'?"));
  EXPECT_THAT(said({"update"}), HasSubstr("did you mean 'job update'?"));
  EXPECT_THAT(said({"pause"}), HasSubstr("did you mean 'job pause'?"));
  EXPECT_THAT(said({"descrbe"}), HasSubstr("did you mean 'job describe'?"));
  EXPECT_THAT(said({"export"}), HasSubstr("did you mean 'checkpoint export'?"));
  EXPECT_THAT(said({"xyzzy"}), StartsWith("atoll: unknown command 'xyzzy'\n"));
  EXPECT_THAT(said({"completion", "bash", "-o", "json"}), HasSubstr("-o cannot be used with this command"));
  EXPECT_THAT(said({"job", "lits"}), HasSubstr("did you mean 'list'?"));
  EXPECT_THAT(said({"job", "list", "--lable", "a=b"}), HasSubstr("unknown option --lable; did you mean '--label'?"));
  EXPECT_THAT(said({"--endpiont=x", "list"}), HasSubstr("unknown option --endpiont; did you mean '--endpoint'?"));
  EXPECT_THAT(said({"get"}), HasSubstr("job is required"));
  EXPECT_THAT(said({"list", "-o", "xml"}), HasSubstr("-o is 'xml'; it must be table"));
  EXPECT_THAT(said({"list", "--timeout", "5"}), HasSubstr("--timeout is '5'; it must be a time"));
  EXPECT_THAT(said({"list", "--endpoint", "host:"}), HasSubstr("--endpoint 'host:' is not HOST or HOST:PORT"));
  EXPECT_THAT(said({"list", "--endpoint", "127.0.0.1:99999"}), HasSubstr("a port from 1 to 65535"));
  EXPECT_THAT(said({"list", "--limit", "3", "--limit", "4"}), HasSubstr("atoll: --limit is given more than once\n"));
  EXPECT_THAT(said({"list", "--limit", "-1"}), HasSubstr("--limit is '-1'; it must be a whole number from 0"));
  EXPECT_THAT(said({"list", "--state", "runing"}), HasSubstr("did you mean 'running'?"));
  EXPECT_THAT(said({"get", "Bad Name"}), HasSubstr("Bad Name"));
  EXPECT_THAT(said({"job"}), HasSubstr("ubcommand"));
}

TEST(Usage, HelpAndVersionAreResults) {
  const RunResult help = Harness().Run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("checkpoint"), HasSubstr("Exit codes")));
  EXPECT_THAT(Harness().Run({"job", "submit", "--help"}).out, HasSubstr("--dry-run"));
  EXPECT_EQ(Harness().Run({"--version"}).out, "atoll 1.2.3\n");
  EXPECT_THAT(Harness().Run({"version"}).out, testing::MatchesRegex("atoll 1.2.3 .gRPC 1[.0-9]+, OpenSSL 3[.0-9]+.\n"));
  EXPECT_THAT(Harness().Run({"version", "-o", "yaml"}).out, StartsWith("version: \"1.2.3\"\ngrpc_version: \"1."));
  EXPECT_EQ(Harness().Run({}).code, 2);
}

TEST(Endpoint, FlagWinsOverEnvironment) {
  Harness harness;
  harness.Run({"list"});
  EXPECT_EQ(harness.endpoint, "127.0.0.1:7070");
  harness.variables["ATOLL_ENDPOINT"] = "127.0.0.1:1";
  harness.Run({"list"});
  EXPECT_EQ(harness.endpoint, "127.0.0.1:1");
  harness.Run({"list", "--endpoint", "[::1]"});
  EXPECT_EQ(harness.endpoint, "[::1]:7070");
}

TEST(Errors, EachCodeIsOneSentenceAndItsExitCode) {
  const std::pair<absl::Status, int> cases[] = {{absl::UnavailableError("cannot reach the coordinator at x"), 5},
                                                {absl::NotFoundError("there is no job 'tiny'"), 3},
                                                {absl::FailedPreconditionError("the job has ended"), 3},
                                                {absl::PermissionDeniedError("you may not"), 4},
                                                {absl::InternalError("our bug"), 70},
                                                {absl::DeadlineExceededError("no answer"), 5}};
  for (const auto& [status, code] : cases) {
    Harness harness;
    harness.fake.error = status;
    const RunResult result = harness.Run({"job", "cancel", "tiny"});
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.talk, "atoll: " + std::string(status.message()) + "\n");
    EXPECT_EQ(result.out, "");
  }
}

TEST(Submit, PrintsTheNameAndTalksOnStandardError) {
  Harness harness;
  harness.input = Stored();
  harness.fake.notes = {"outer_optimizer.momentum 0.6: few steps"};
  const RunResult result = harness.Run({"submit", "-", "--set", "sync.inner_steps=50", "--name", "other"});
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_EQ(result.out, "jobs/other\n");
  EXPECT_EQ(result.talk, "outer_optimizer.momentum 0.6: few steps\nfollow it with: atoll watch other\n");
  ASSERT_EQ(harness.fake.submitted.size(), 1u);
  EXPECT_EQ(harness.fake.submitted[0].spec().sync().inner_steps(), 50u);
  EXPECT_EQ(harness.fake.submitted[0].request_id(), "11111111-1111-4111-8111-111111111111");
}

TEST(Submit, ALostAnswerIsAskedForAgainWithTheSameId) {
  Harness harness;
  harness.input = Stored();
  harness.fake.submit_errors = {absl::UnavailableError("cut"), absl::DeadlineExceededError("no answer within 10 s")};
  EXPECT_EQ(harness.Run({"submit", "-"}).code, 0);
  ASSERT_EQ(harness.fake.submitted.size(), 3u);
  EXPECT_EQ(harness.fake.submitted[0].request_id(), harness.fake.submitted[2].request_id());
  EXPECT_EQ(harness.pauses, 2);
}

TEST(Submit, ARequestIdIsAUuid) {
  Harness harness;
  harness.input = Stored();
  const RunResult refused = harness.Run({"submit", "-", "--request-id", "foo"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.talk, HasSubstr("--request-id is 'foo'; it must be a UUID"));
  EXPECT_TRUE(harness.fake.submitted.empty());
  EXPECT_EQ(harness.Run({"submit", "-", "--request-id", "0B1C1111-1111-4111-8111-11111111111A"}).code, 0);
  ASSERT_EQ(harness.fake.submitted.size(), 1u);
  EXPECT_EQ(harness.fake.submitted[0].request_id(), "0b1c1111-1111-4111-8111-11111111111a");
}

TEST(Submit, FaultsOfTheFileNeverReachTheCoordinator) {
  Harness harness;
  harness.input = Stored("  sync: {inner_step: 5, overlap_steps: x}\n");
  const RunResult result = harness.Run({"submit", "-"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.talk,
            "<stdin>:8:10: sync.inner_step is not a known key; did you mean 'inner_steps'?\n"
            "<stdin>:8:40: sync.overlap_steps is 'x'; it must be a whole number from 0 to 4294967295\n"
            "atoll: the job file has 2 faults\n");
  EXPECT_TRUE(harness.fake.submitted.empty());
}

TEST(Submit, TheCoordinatorsViolationsGetTheirLines) {
  Harness harness;
  harness.input = Stored("  sync:\n    inner_steps: 50\n");
  harness.fake.submit_errors = {
      WithViolations(absl::InvalidArgumentError("bad spec"), {{"spec.sync.inner_steps", "is odd today"}})};
  const RunResult result = harness.Run({"submit", "-"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.talk, "<stdin>:9:5: sync.inner_steps is odd today\natoll: the job file has 1 fault\n");
}

// A corpus of bytes and a task next to the job file; the spec then names both by hash.
class SubmitTasks : public testing::Test {
 protected:
  SubmitTasks()
      : folder_(testing::TempDir() + "/submit_tasks_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
    std::string text;
    for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "paragraph ", i, " of a small corpus\n\n");
    std::ofstream(folder_ + "/text.txt") << text;
    const RunResult made = Harness().Run({"data", "prepare", folder_ + "/text.txt", "--out", folder_ + "/corpus",
                                          "--text-split", "paragraphs", "--held-out", "0.3", "--quiet"});
    EXPECT_EQ(made.code, 0) << made.talk;
  }
  ~SubmitTasks() override { std::filesystem::remove_all(folder_); }

  RunResult Submit(Harness& harness, const std::string& task_text, const std::string& task) {
    std::ofstream(folder_ + "/passive_1.jsonl") << task_text;
    std::ofstream(folder_ + "/job.yaml") << "apiVersion: atoll/v1\nkind: TrainingJob\nmetadata: {name: tiny}\nspec:\n"
                                            "  data: {corpora: [{manifest: corpus}], sequence_length: 16}\n"
                                            "  stop: {inner_steps: 400}\n  evaluation:\n    tasks:\n      - "
                                         << task << "\n";
    return harness.Run({"submit", folder_ + "/job.yaml"});
  }
  const std::string folder_;
};

TEST_F(SubmitTasks, AreStoredByHash) {
  Harness harness;
  const std::string text = "{\"sentence_good\": \"a cat\", \"sentence_bad\": \"a cats\"}\n";
  const RunResult result = Submit(harness, text, "file: passive_1.jsonl");
  ASSERT_EQ(result.code, 0) << result.talk;
  const v1::EvaluationTaskSpec& task = harness.fake.submitted.at(0).spec().evaluation().tasks(0);
  EXPECT_EQ(task.name(), "passive_1");
  EXPECT_EQ(task.file(), "");
  EXPECT_EQ(task.file_sha256(), Sha256Of(AsBytes(text)).Hex());
  EXPECT_EQ(task.examples(), 0u);
}

TEST_F(SubmitTasks, AreCheckedAtTheirPlaceInTheFile) {
  const std::string good = "{\"sentence_good\": \"a cat\", \"sentence_bad\": \"a cats\"}\n";
  const std::string long_one =
      "{\"sentence_good\": \"the cat sat down\", \"sentence_bad\": \"the cat sits downs\"}\n";  // 16 and 18 bytes
  Harness harness;
  EXPECT_THAT(Submit(harness, good, "{file: nowhere.jsonl}").talk,
              HasSubstr("job.yaml:9:10: evaluation.tasks[0].file cannot be read"));
  EXPECT_THAT(Submit(harness, good + "{}\n", "{file: passive_1.jsonl}").talk, HasSubstr("is not a task file: line 2"));
  EXPECT_THAT(Submit(harness, good + long_one, "{file: passive_1.jsonl}").talk,
              HasSubstr("cannot be scored: example 1: a choice has 18 tokens, and the model's longest sequence is 16"));
  EXPECT_THAT(Submit(harness, good, "{name: a b, file: passive_1.jsonl}").talk, HasSubstr("evaluation.tasks[0].name"));
  EXPECT_TRUE(harness.fake.submitted.empty());
  // Only the scored examples must fit.
  EXPECT_EQ(Submit(harness, good + long_one, "{file: passive_1.jsonl, examples: 1}").code, 0);
}

TEST(Submit, AMissingFileIsNotFound) {
  const RunResult result = Harness().Run({"submit", "/nowhere/job.yaml"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(Harness().Run({"job", "validate", "/nowhere/job.yaml"}).code, 3);
  EXPECT_EQ(Harness().Run({"data", "prepare", "/nowhere/text.txt", "--out", "/nowhere/corpus"}).code, 3);
  EXPECT_THAT(result.talk, HasSubstr("/nowhere/job.yaml"));
}

TEST(Submit, DryRunsCreateNothing) {
  Harness harness;
  harness.input = Stored();
  EXPECT_EQ(harness.Run({"submit", "-", "--dry-run=client"}).code, 0);
  EXPECT_TRUE(harness.fake.submitted.empty());
  const RunResult result = harness.Run({"submit", "-", "--dry-run=server"});
  EXPECT_THAT(result.talk, HasSubstr("would accept this job: at most 3.20 GB of memory and 41.0 GB of disk"));
  EXPECT_TRUE(harness.fake.submitted.at(0).validate_only());
}

TEST(Validate, EchoesTheDefaultsAsYaml) {
  Harness harness;
  harness.input = Stored();
  const RunResult result = harness.Run({"job", "validate", "-", "-o", "yaml"});
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("inner_steps: 100"), HasSubstr("learning_rate: 0.0004"), HasSubstr("name: tiny")));
  harness.input = result.out;
  EXPECT_EQ(harness.Run({"job", "validate", "-", "-o", "yaml"}).out, result.out);
}

TEST(Wait, TheExitCodeSaysHowTheJobEnded) {
  const std::pair<v1::JobState, int> cases[] = {
      {v1::JOB_STATE_SUCCEEDED, 0}, {v1::JOB_STATE_FAILED, 1}, {v1::JOB_STATE_CANCELLED, 6}};
  for (const auto& [state, code] : cases) {
    Harness harness;
    harness.fake.watches = {{{Message(v1::JOB_STATE_RUNNING, 1, "a"), Message(state, 2, "b")}, absl::OkStatus()}};
    EXPECT_EQ(harness.Run({"job", "wait", "tiny"}).code, code);
  }
}

TEST(Wait, GoesOnAfterTheCoordinatorWasAway) {
  Harness harness;
  harness.fake.watches = {{{Message(v1::JOB_STATE_RUNNING, 7, "a")}, absl::UnavailableError("reset")},
                          {{}, absl::UnavailableError("refused")},
                          {{Message(v1::JOB_STATE_SUCCEEDED, 8, "b")}, absl::OkStatus()}};
  const RunResult result = harness.Run({"job", "wait", "tiny"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.talk, "connection lost, reconnecting: reset\nreconnected\n");
  ASSERT_EQ(harness.fake.watch_requests.size(), 3u);
  EXPECT_EQ(harness.fake.watch_requests[2].after_revision(), 7u) << "no event is shown twice";
}

TEST(Watch, EventsThatComeAloneAreShownBeforeTheEnd) {
  Harness harness;
  v1::WatchJobResponse alone = Message(v1::JOB_STATE_SUCCEEDED, 1, "one of many");
  alone.clear_job();
  harness.fake.watches = {{{alone, Message(v1::JOB_STATE_SUCCEEDED, 2, "the last")}, absl::OkStatus()}};
  const RunResult result = harness.Run({"watch", "tiny"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("one of many"), HasSubstr("the last")));
  EXPECT_THAT(result.talk, EndsWith("jobs/tiny succeeded\n"));
}

TEST(Wait, SaysThatAJobIsPaused) {
  Harness harness;
  v1::WatchJobResponse paused = Message(v1::JOB_STATE_PAUSED, 2, "b");
  paused.mutable_job()->set_reason("stopped: shard a.bin is not there");
  harness.fake.watches = {
      {{Message(v1::JOB_STATE_RUNNING, 1, "a"), paused, paused, Message(v1::JOB_STATE_SUCCEEDED, 3, "c")},
       absl::OkStatus()}};
  const RunResult result = harness.Run({"job", "wait", "tiny"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.talk, EndsWith("paused: stopped: shard a.bin is not there\n"));
}

TEST(Wait, FailsIfTheCoordinatorStaysUnreachable) {
  Harness harness;
  harness.fake.watches = {{{Message(v1::JOB_STATE_RUNNING, 1, "a")}, absl::UnavailableError("reset")}};
  harness.fake.error = absl::UnavailableError("refused");
  EXPECT_EQ(harness.Run({"job", "wait", "tiny"}).code, 5);
  EXPECT_LT(harness.pauses, 1000);
  Harness never;
  never.fake.error = absl::UnavailableError("refused");
  EXPECT_EQ(never.Run({"job", "wait", "tiny"}).code, 5);
  EXPECT_EQ(never.pauses, 0) << "an address that never answered is said at once";
}

TEST(Wait, TimeoutHasItsOwnExitCode) {
  Harness harness;
  harness.fake.watches = {{{Message(v1::JOB_STATE_RUNNING, 1, "a")}, absl::UnavailableError("reset")}};
  harness.fake.error = absl::UnavailableError("refused");
  EXPECT_EQ(harness.Run({"job", "wait", "tiny", "--timeout", "10s"}).code, 124);
}

TEST(Watch, PrintsOneLineAnEventWhereThereIsNoTerminal) {
  Harness harness;
  harness.fake.watches = {
      {{Message(v1::JOB_STATE_RUNNING, 1, "one"), Message(v1::JOB_STATE_SUCCEEDED, 2, "two")}, absl::OkStatus()}};
  const RunResult result = harness.Run({"watch", "tiny"});
  EXPECT_EQ(result.out, "00:00:00 note: one\n00:00:00 note: two\n");
  EXPECT_EQ(result.talk, "jobs/tiny succeeded\n");
}

TEST(Watch, DrawsOverItselfInATerminal) {
  Harness harness;
  harness.terminal = true;
  harness.fake.watches = {
      {{Message(v1::JOB_STATE_RUNNING, 1, "one"), Message(v1::JOB_STATE_SUCCEEDED, 2, "two")}, absl::OkStatus()}};
  EXPECT_THAT(harness.Run({"watch", "tiny"}).out,
              AllOf(HasSubstr("\x1b[4A"), HasSubstr("\x1b[32m"), HasSubstr("100 %")));
}

TEST(Watch, ALostConnectionDoesNotTearTheView) {
  Harness harness;
  harness.terminal = true;
  harness.fake.watches = {{{Message(v1::JOB_STATE_RUNNING, 7, "a")}, absl::UnavailableError("reset")},
                          {{Message(v1::JOB_STATE_SUCCEEDED, 8, "b")}, absl::OkStatus()}};
  const RunResult result = harness.Run({"watch", "tiny"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("connection lost, reconnecting: reset"));
  EXPECT_EQ(result.talk, "jobs/tiny succeeded\n");
}

TEST(Watch, RespectsColourlessAndDumbTerminals) {
  const auto run = [](const std::string& variable, const std::string& value, std::vector<std::string> arguments) {
    Harness harness;
    harness.terminal = true;
    if (!variable.empty()) harness.variables[variable] = value;
    harness.fake.watches = {{{Message(v1::JOB_STATE_SUCCEEDED, 1, "one")}, absl::OkStatus()}};
    return harness.Run(arguments).out;
  };
  EXPECT_THAT(run("NO_COLOR", "1", {"watch", "tiny"}), Not(HasSubstr("\x1b[32m")));
  EXPECT_THAT(run("", "", {"--no-color", "watch", "tiny"}), Not(HasSubstr("\x1b[32m")));
  EXPECT_THAT(run("TERM", "dumb", {"watch", "tiny"}), Not(HasSubstr("\x1b")));
}

TEST(List, FollowsPages) {
  Harness harness;
  harness.fake.pages.resize(2);
  *harness.fake.pages[0].add_jobs() = Job("one", v1::JOB_STATE_RUNNING);
  harness.fake.pages[0].set_next_page_token("next");
  *harness.fake.pages[1].add_jobs() = Job("two", v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness.Run({"list", "-o", "name"}).out, "jobs/one\njobs/two\n");
  EXPECT_THAT(harness.fake.page_tokens, ElementsAre("", "next"));
}

TEST(List, PrintsTablesAndJson) {
  Harness harness;
  harness.fake.pages.resize(1);
  *harness.fake.pages[0].add_jobs() = Job("one", v1::JOB_STATE_RUNNING);
  EXPECT_THAT(harness.Run({"list"}).out, AllOf(StartsWith("NAME  STATE    STEP"), HasSubstr("one   running  100/400")));
  harness.fake.page_tokens.clear();
  EXPECT_THAT(harness.Run({"list", "-o", "json"}).out, HasSubstr("\"name\": \"jobs/one\""));
  harness.fake.page_tokens.clear();
  EXPECT_THAT(harness.Run({"list", "-o", "jsonl"}).out, StartsWith("{\"name\":\"jobs/one\""));
}

TEST(Get, PrintsReasonsBelowTheTable) {
  Harness harness;
  v1::Job& job = *harness.fake.job.mutable_job();
  job = Job("tiny", v1::JOB_STATE_WAITING_FOR_WORKERS);
  job.set_reason("1 of 2 workers is there");
  job.set_workers_alive(3);
  job.set_workers_training(2);
  job.set_workers_participating(1);
  EXPECT_THAT(harness.Run({"get", "tiny"}).out,
              AllOf(HasSubstr(" 3/2/1 "), EndsWith("\nwaiting_for_workers: 1 of 2 workers is there\n")));
}

TEST(Get, YamlIsAJobFileAgain) {
  Harness harness;
  std::vector<Fault> faults;
  *harness.fake.job.mutable_job() = Job("tiny", v1::JOB_STATE_RUNNING);
  *harness.fake.job.mutable_job()->mutable_spec() = ParseJobFile("x", Stored(), {}, faults).spec;
  const RunResult result = harness.Run({"get", "tiny", "-o", "yaml"});
  EXPECT_EQ(result.code, 0);
  ParseJobFile("again", result.out, {}, faults);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(harness.Run({"get", "nobody"}).code, 3);
}

TEST(Describe, PrintsEverything) {
  Harness harness;
  *harness.fake.job.mutable_job() = Job("tiny", v1::JOB_STATE_RUNNING);
  harness.fake.job.mutable_job()->set_reason("waits\x1b[31m");
  for (const double accuracy : {0.5, 0.75}) {
    v1::EvaluationResult& evaluation = *harness.fake.job.add_evaluations();
    evaluation.set_loss(3);
    v1::TaskResult& task = *evaluation.add_tasks();
    task.set_name("passive_1");
    task.set_examples(200);
    task.set_accuracy(accuracy);
    task.set_standard_error(0.03);
  }
  harness.fake.job.add_workers()->set_name("workers/a");
  harness.fake.job.mutable_job()->add_fragments()->set_version(4);
  const RunResult result = harness.Run({"job", "describe", "tiny"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("running: waits?[31m"), HasSubstr("Held-out evaluations"),
                                HasSubstr("Workers"), HasSubstr("Fragments")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("Evaluation tasks"), HasSubstr("passive_1"), HasSubstr("50.0 %"),
                                HasSubstr("75.0 %"), HasSubstr("3.0 %")));
}

TEST(Steer, RequestsHaveTheGivenValues) {
  Harness harness;
  *harness.fake.job.mutable_job() = Job("tiny", v1::JOB_STATE_PAUSED);
  EXPECT_EQ(harness.Run({"job", "cancel", "tiny", "--drain"}).code, 0);
  EXPECT_TRUE(harness.fake.cancelled.drain());
  EXPECT_THAT(harness.Run({"job", "purge", "tiny"}).talk, HasSubstr("purged"));
  EXPECT_EQ(harness.fake.purged.name(), "jobs/tiny");
  const RunResult update =
      harness.Run({"job", "update", "tiny", "--set", "inner_optimizer.learning_rate=1e-4", "--set", "workers.max=3"});
  EXPECT_EQ(update.code, 0) << update.talk;
  EXPECT_EQ(harness.fake.updated.update_mask_size(), 2);
  EXPECT_EQ(harness.fake.updated.spec().inner_optimizer().learning_rate(), 1e-4);
  EXPECT_EQ(harness.Run({"job", "update", "tiny", "--set", "model.layers=3"}).code, 2);
  EXPECT_EQ(harness.Run({"job", "update", "tiny"}).code, 2);
  ASSERT_EQ(
      harness.Run({"job", "update", "tiny", "--set-label", "team=b=c", "--set-label", "user=", "--remove-label", "old"})
          .code,
      0);
  EXPECT_EQ(harness.fake.updated.update_mask_size(), 0);
  EXPECT_EQ(harness.fake.updated.set_labels().at("team"), "b=c");
  EXPECT_EQ(harness.fake.updated.set_labels().at("user"), "");
  EXPECT_THAT(harness.fake.updated.remove_labels(), ElementsAre("old"));
  const RunResult wrong = harness.Run({"job", "update", "tiny", "--set-label", "=x"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.talk, HasSubstr("--set-label is '=x'; it must be KEY=VALUE"));
  EXPECT_EQ(harness.Run({"job", "rollback", "tiny", "--to", "400"}).code, 0);
  EXPECT_EQ(harness.fake.rolled_back.checkpoint(), "jobs/tiny/checkpoints/400");
  EXPECT_EQ(harness.Run({"job", "rollback", "tiny", "--to", "jobs/tiny/checkpoints/20"}).code, 0);
  EXPECT_EQ(harness.fake.rolled_back.checkpoint(), "jobs/tiny/checkpoints/20");
  EXPECT_THAT(harness.Run({"job", "pause", "tiny"}).talk, HasSubstr("the job is now paused"));
}

TEST(Checkpoints, AreDeletedByTheirStep) {
  Harness harness;
  const RunResult deleted = harness.Run({"checkpoint", "delete", "tiny/400"});
  EXPECT_EQ(deleted.code, 0) << deleted.talk;
  EXPECT_EQ(deleted.out, "jobs/tiny/checkpoints/400\n");
  EXPECT_EQ(harness.fake.deleted.name(), "jobs/tiny/checkpoints/400");
  EXPECT_EQ(harness.Run({"checkpoint", "delete", "tiny/no"}).code, 2);
  harness.fake.error = absl::FailedPreconditionError("the newest stays");
  const RunResult refused = harness.Run({"checkpoint", "delete", "jobs/tiny/checkpoints/500"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.talk, HasSubstr("the newest stays"));
}

TEST(Metrics, PrintCsv) {
  Harness harness;
  v1::MetricCurve& curve = *harness.fake.metrics.add_curves();
  curve.set_metric("loss");
  curve.add_points()->set_step(20);
  curve.mutable_points(0)->set_value(3.5);
  EXPECT_EQ(harness.Run({"metrics", "tiny", "--csv"}).out, "metric,step,unix_seconds,value\nloss,20,0,3.5\n");
}

// S23.
TEST(Logs, NothingInThemSteersTheTerminal) {
  Harness harness;
  harness.fake.logs.add_lines("round committed \x1b[2J");
  EXPECT_EQ(harness.Run({"logs", "tiny", "--worker", "paris-1", "--tail", "5"}).out, "round committed ?[2J\n");
  EXPECT_EQ(harness.fake.logs_request.worker(), "workers/paris-1");
  EXPECT_EQ(harness.fake.logs_request.tail(), 5u);
}

}  // namespace
}  // namespace atl::cli
