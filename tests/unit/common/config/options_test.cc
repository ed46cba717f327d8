// SPDX-License-Identifier: Apache-2.0
#include "common/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/config/environment.h"

namespace atl {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A file that is removed at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(testing::TempDir() + "options_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

CoordinatorCommandLine Coordinator(std::vector<std::string> arguments, const Environment& environment = {}) {
  return ParseCoordinatorOptions(arguments, environment, "1.2.3");
}
WorkerCommandLine Worker(std::vector<std::string> arguments, const Environment& environment = {},
                         const std::string& host = "Paris-1.example.com") {
  return ParseWorkerOptions(arguments, environment, "1.2.3", host);
}

TEST(CoordinatorOptions, NeedAStateDirectory) {
  const auto line = Coordinator({});
  EXPECT_FALSE(line.options.has_value());
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, HasSubstr("--state-dir is missing"));
  const auto good = Coordinator({"--state-dir", "/srv/atoll", "--insecure"});
  ASSERT_TRUE(good.options.has_value()) << good.text;
  EXPECT_EQ(good.options->state_dir, "/srv/atoll");
  EXPECT_EQ(good.options->control_port, 7070u);
  EXPECT_EQ(good.options->membership_timeout, Seconds(20));
}

TEST(CoordinatorOptions, AFlagWinsOverTheEnvironmentAndThatOverTheFile) {
  const TemporaryFile file("state_dir: /file\ninsecure: true\ncontrol-port: 1001\nbulk-port: 1002\nadmin-port: 1003\n");
  const Environment environment = {{"ATOLL_COORDINATOR_CONFIG", file.path()},
                                   {"ATOLL_COORDINATOR_BULK_PORT", "2002"},
                                   {"ATOLL_COORDINATOR_ADMIN_PORT", "2003"},
                                   {"HOME", "/root"}};
  const auto line = Coordinator({"--admin-port=3003"}, environment);
  ASSERT_TRUE(line.options.has_value()) << line.text;
  EXPECT_EQ(line.options->state_dir, "/file");
  EXPECT_EQ(line.options->control_port, 1001u);
  EXPECT_EQ(line.options->bulk_port, 2002u);
  EXPECT_EQ(line.options->admin_port, 3003u);
  EXPECT_THAT(line.resolved, Contains("state-dir = /file (" + file.path() + ":1)"));
  EXPECT_THAT(line.resolved, Contains("bulk-port = 2002 (ATOLL_COORDINATOR_BULK_PORT)"));
  EXPECT_THAT(line.resolved, Contains("admin-port = 3003 (flag)"));
  EXPECT_THAT(line.resolved, Contains("listen = 127.0.0.1 (default)"));
}

TEST(CoordinatorOptions, ReportAllErrorsAtOnce) {
  const auto line = Coordinator({"--control-port", "70000", "--log-level=infos", "--threads=x", "extra"});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_THAT(line.text, HasSubstr("--control-port (flag) is '70000'; it must be a whole number from 0 to 65535"));
  EXPECT_THAT(
      line.text,
      HasSubstr("--log-level (flag) is 'infos'; it must be one of debug, info, warning, error; did you mean 'info'?"));
  EXPECT_THAT(line.text, HasSubstr("--threads (flag) is 'x'"));
  EXPECT_THAT(line.text, HasSubstr("unexpected argument 'extra'"));
}

TEST(CoordinatorOptions, TakeTheWordsOfAUserAsTheyAre) {
  const auto empty = Coordinator({"--state-dir=/x", "--trust=", "--insecure"});
  ASSERT_TRUE(empty.options.has_value()) << empty.text;
  EXPECT_EQ(empty.options->trust_dir, "");
  const auto literal = Coordinator({"--insecure", "--state-dir", "[a,b]", "--data-root", "--x", "--ports-file=a=b"});
  ASSERT_TRUE(literal.options.has_value()) << literal.text;
  EXPECT_EQ(literal.options->state_dir, "[a,b]");
  EXPECT_EQ(literal.options->data_root, "--x");
  EXPECT_EQ(literal.options->ports_file, "a=b");
  const auto refuses = [](const std::vector<std::string>& arguments, const std::string& why) {
    const auto line = Coordinator(arguments);
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.text, HasSubstr(why));
    EXPECT_EQ(std::count(line.text.begin(), line.text.end(), '\n'), 2) << line.text;  // one fault, and where help is
  };
  refuses({"--state-dir=/x", "--insecure", "--threads=1", "--threads=2"}, "--threads is given twice");
  refuses({"--state-dir=/x", "--insecure", "--insecure"}, "--insecure is given twice");
  refuses({"--state-dir=/x", "--insecure", "--config=", "--config="}, "--config is given twice");
  refuses({"--state-dir=/x", "--insecure", "--threads"}, "--threads needs a value");
  refuses({"--state-dir=/x", "--insecure", "--thread", "4"}, "unknown option --thread; did you mean --threads?");
  refuses({"--state-dir=/x", "--insecure=maybe"}, "is 'maybe'; it must be true or false");
  refuses({"--state-dir=/x", "--insecure", "--"}, "unexpected argument '--'");
  refuses({"--state-dir=/x", "--insecure", "-s"}, "unexpected argument '-s'");
}

TEST(CoordinatorOptions, UnknownNamesSuggestTheNearest) {
  EXPECT_THAT(Coordinator({"--state-dirs", "/x"}).text,
              HasSubstr("unknown option --state-dirs; did you mean --state-dir?"));
  EXPECT_THAT(Coordinator({"--state-dir=/x"}, {{"ATOLL_COORDINATOR_STATE_DI", "/y"}}).text,
              HasSubstr("ATOLL_COORDINATOR_STATE_DI; did you mean 'ATOLL_COORDINATOR_STATE_DIR'?"));
  const TemporaryFile file("lisen: 127.0.0.1\n");
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--config", file.path()}).text,
              HasSubstr(file.path() + ":1: unknown option 'lisen'; did you mean 'listen'?"));
}

// The variables that Kubernetes sets in every pod of a namespace for a Service with one port per
// protocol, one of them named.
Environment ServiceLinks(const std::string& service) {
  Environment links = {{service + "_SERVICE_HOST", "10.0.0.11"},
                       {service + "_SERVICE_PORT", "7070"},
                       {service + "_SERVICE_PORT_BULK", "7071"},
                       {service + "_PORT", "tcp://10.0.0.11:7070"}};
  for (const char* protocol : {"TCP", "UDP"}) {
    const std::string port = service + "_PORT_7070_" + protocol;
    links[port] = "tcp://10.0.0.11:7070";
    links[port + "_PROTO"] = "tcp";
    links[port + "_PORT"] = "7070";
    links[port + "_ADDR"] = "10.0.0.11";
  }
  return links;
}

TEST(CommonOptions, ServiceLinksOfKubernetesAreNoOptions) {
  for (const char* service : {"ATOLL", "ATOLL_COORDINATOR", "ATOLL_WORKER", "ATOLL_COORDINATOR_HEAD"}) {
    const auto coordinator = Coordinator({"--state-dir=/x", "--insecure"}, ServiceLinks(service));
    EXPECT_TRUE(coordinator.options.has_value()) << coordinator.text;
    const auto worker = Worker({}, ServiceLinks(service));
    EXPECT_TRUE(worker.run.has_value()) << worker.text;
    EXPECT_TRUE(ParseWorkerOptions({"pause"}, ServiceLinks(service), "1", "host").owner.has_value());
  }
  EXPECT_EQ(Worker({}, ServiceLinks("ATOLL_WORKER")).resolved, Worker({}).resolved);
}

TEST(CommonOptions, SimilarToAServiceLinkIsRefused) {
  for (const char* name :
       {"PORT", "SERVICE_HOSTS", "SERVICE_PORTS", "SERVICE_PORT_", "PORT_TCP", "PORT__TCP", "PORT_X_TCP", "PORT_7070",
        "PORT_7070_SCTP", "PORT_7070_TCP_NAME", "PORT_7070_TCP_ADDR_PORT", "ADMN_PORT", "7070_TCP"}) {
    EXPECT_THAT(Coordinator({"--state-dir=/x"}, {{absl::StrCat("ATOLL_COORDINATOR_", name), "7070"}}).text,
                HasSubstr(absl::StrCat("unknown environment variable ATOLL_COORDINATOR_", name)));
  }
  EXPECT_THAT(Worker({}, {{"ATOLL_WORKER_PORT_FILE", "tcp://10.0.0.11:7070"}}).text,
              HasSubstr("did you mean 'ATOLL_WORKER_PORTS_FILE'?"));
  // A Service with an option's name: its variable sets the option.
  const auto taken = Coordinator({"--state-dir=/x"}, ServiceLinks("ATOLL_COORDINATOR_BULK"));
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_THAT(taken.text, HasSubstr("--bulk-port (ATOLL_COORDINATOR_BULK_PORT) is 'tcp://10.0.0.11:7070'"));
  EXPECT_THAT(taken.text, testing::Not(HasSubstr("unknown")));
}

TEST(CoordinatorOptions, RefuseBadFiles) {
  const TemporaryFile twice("listen: 127.0.0.1\nlisten: 127.0.0.2\n");
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--config", twice.path()}).text, HasSubstr(":2: 'listen' is given twice"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--config", "/nowhere"}).text,
              HasSubstr("cannot read the configuration file '/nowhere'"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--config", testing::TempDir()}).text,
              HasSubstr("cannot read the configuration file '" + testing::TempDir() + "'; name an existing file"));
}

// S26
TEST(CoordinatorOptions, PlaintextIsAskedForByName) {
  const std::vector<std::string> state = {"--state-dir=/x"};
  const auto with = [&state](const std::string& option) {
    std::vector<std::string> arguments = state;
    arguments.push_back(option);
    return arguments;
  };
  const auto refuses = [](const CoordinatorCommandLine& line, const std::string& why) {
    EXPECT_FALSE(line.options.has_value());
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.text, HasSubstr(why));
    EXPECT_EQ(std::count(line.text.begin(), line.text.end(), '\n'), 2)
        << line.text;  // one fault, and a pointer to the help
  };
  const std::string missing =
      "--trust is missing; give the directory created by 'atoll ca init DIR', or give --insecure for plaintext without "
      "authentication, on loopback only";
  refuses(Coordinator(state), missing);
  refuses(Coordinator(with("--listen=0.0.0.0")), missing);
  refuses(Coordinator(with("--insecure=false")), missing);
  refuses(Coordinator(with("--trust=")), missing);
  refuses(Coordinator(state, {{"ATOLL_COORDINATOR_INSECURE", "false"}}), missing);
  refuses(Coordinator(with("--insecure"), {{"ATOLL_COORDINATOR_TRUST", "/ca"}}), "cannot be combined");

  const std::vector<CoordinatorCommandLine> plaintext = {Coordinator(with("--insecure")),
                                                         Coordinator(state, {{"ATOLL_COORDINATOR_INSECURE", "true"}})};
  for (const CoordinatorCommandLine& line : plaintext) {
    ASSERT_TRUE(line.options.has_value()) << line.text;
    EXPECT_TRUE(line.options->insecure);
  }
  const std::vector<CoordinatorCommandLine> trusted = {Coordinator(with("--trust=/ca")),
                                                       Coordinator(state, {{"ATOLL_COORDINATOR_TRUST", "/ca"}})};
  for (const CoordinatorCommandLine& line : trusted) {
    ASSERT_TRUE(line.options.has_value()) << line.text;
    EXPECT_FALSE(line.options->insecure);
    EXPECT_EQ(line.options->trust_dir, "/ca");
  }
}

// S26.
TEST(CoordinatorOptions, ListenOnLoopbackOnly) {
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--insecure", "--listen=0.0.0.0"}).text,
              HasSubstr("--insecure allows only loopback: give --trust"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--insecure", "--listen=127.0.0.1.example.com"}).text,
              HasSubstr("--insecure allows only loopback"));
  EXPECT_TRUE(Coordinator({"--state-dir=/x", "--insecure", "--listen=127.0.0.2"}).options.has_value());
  EXPECT_TRUE(Coordinator({"--state-dir=/x", "--listen=0.0.0.0", "--trust=/ca"}).options.has_value());
  EXPECT_EQ(Worker({"--join-token=/t", "--cache-dir=/c"}).run->identity, "/c/identity.pem");
  EXPECT_EQ(Worker({"--coordinator=h:8000"}).run->coordinator_enroll, "h:8003");
  EXPECT_TRUE(Coordinator({"--state-dir=/x", "--insecure", "--listen=::1"}).options.has_value());
}

TEST(WorkerOptions, TheIdentityOfAnEarlierStartIsTaken) {
  const std::string cache = testing::TempDir() + "options_enrolled";
  std::filesystem::create_directories(cache);
  EXPECT_EQ(Worker({"--cache-dir=" + cache}).run->identity, "");
  std::ofstream(cache + "/identity.pem") << "x";
  EXPECT_EQ(Worker({"--cache-dir=" + cache}).run->identity, cache + "/identity.pem");
  EXPECT_EQ(Worker({"--cache-dir=" + cache, "--identity=/i"}).run->identity, "/i");
  std::filesystem::remove_all(cache);
}

TEST(CoordinatorOptions, HoldRelationsBetweenOptions) {
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--heartbeat-interval=15s"}).text,
              HasSubstr("below half of --membership-timeout"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--bulk-port=7070"}).text, HasSubstr("7070 is used twice"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--connections-per-address=0"}).text, HasSubstr("must be 1 to 1024"));
  EXPECT_THAT(Coordinator({"--state-dir=/x", "--disk-budget=1MiB"}).text, HasSubstr("must be at least 64MiB"));
  EXPECT_EQ(Coordinator({"--state-dir=/x", "--insecure", "--disk-budget=64MiB"}).options->disk_budget_bytes,
            uint64_t{64} << 20);
  EXPECT_TRUE(Coordinator({"--state-dir=/x", "--insecure", "--control-port=0", "--bulk-port=0", "--admin-port=0"})
                  .options.has_value());
}

TEST(CoordinatorOptions, HelpAndVersionGoToStandardOutput) {
  const auto help = Coordinator({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("Usage: atoll-coordinator [OPTIONS]"));
  EXPECT_THAT(help.text, HasSubstr("--control-port N"));
  EXPECT_THAT(help.text, HasSubstr("[7070]"));
  size_t begin = 0;
  for (size_t end = help.text.find('\n'); end != std::string::npos;
       begin = end + 1, end = help.text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << help.text.substr(begin, end - begin);
  }
  EXPECT_EQ(Coordinator({"--version"}).text, "atoll-coordinator 1.2.3\n");
}

TEST(WorkerOptions, DefaultsComeFromTheMachine) {
  const auto line = Worker({}, {{"HOME", "/home/a"}});
  ASSERT_TRUE(line.run.has_value()) << line.text;
  EXPECT_EQ(line.run->name, "paris-1");
  EXPECT_EQ(line.run->coordinator_bulk, "127.0.0.1:7071");
  EXPECT_EQ(line.run->cache_dir, "/home/a/.cache/atoll/paris-1");
  EXPECT_THAT(line.resolved, Contains("cache-dir = /home/a/.cache/atoll/paris-1 (default)"));
  EXPECT_EQ(Worker({}, {}, "").run->name, "worker");
}

TEST(WorkerOptions, TakeUnitsAndSwitches) {
  const auto line =
      Worker({"--upload-limit=10Mbit", "--memory-limit", "2GiB", "--evaluate-only", "--device", "cpu", "--no-admin",
              "--drain-timeout=5s", "--form-on", "gpu", "--cuda-graph=auto", "--pass-kernels=auto"});
  ASSERT_TRUE(line.run.has_value()) << line.text;
  EXPECT_EQ(line.run->upload_bytes_per_second, 1'250'000u);
  EXPECT_EQ(line.run->memory_limit_bytes, uint64_t{2} << 30);
  EXPECT_TRUE(line.run->evaluate_only);
  EXPECT_EQ(line.run->device, DeviceChoice::kCpu);
  EXPECT_EQ(line.run->form_on, FormChoice::kGpu);
  EXPECT_EQ(line.run->cuda_graph, GraphChoice::kAuto);
  EXPECT_EQ(line.run->pass_kernels, PassKernelChoice::kAuto);
  EXPECT_EQ(Worker({}).run->pass_kernels, PassKernelChoice::kOff);
  EXPECT_EQ(Worker({}).run->form_on, FormChoice::kHost);
  EXPECT_EQ(Worker({}).run->cuda_graph, GraphChoice::kOff);
  EXPECT_FALSE(line.run->admin);
  EXPECT_EQ(line.run->drain_timeout, Seconds(5));
}

TEST(WorkerOptions, RefuseADownloadLimitThatCoordinatorsRefuse) {
  EXPECT_THAT(Worker({"--download-limit=999B"}).text, HasSubstr("--download-limit must be at least 1kB, or 0"));
  EXPECT_TRUE(Worker({"--download-limit=1kB"}).run.has_value());
  EXPECT_TRUE(Worker({"--download-limit=0"}).run.has_value());
}

TEST(WorkerOptions, RefuseBadNamesAndEndpoints) {
  EXPECT_THAT(Worker({"--name=Big"}).text, HasSubstr("--name is 'Big'"));
  EXPECT_THAT(Worker({"--name=-a"}).text, HasSubstr("1 to 63 of a-z, 0-9 and -, not beginning with -"));
  EXPECT_THAT(Worker({"--coordinator=h:0"}).text,
              HasSubstr("--coordinator 'h:0' is not HOST or HOST:PORT, with a port from 1 to 65535"));
  EXPECT_THAT(Worker({"--coordinator-bulk=h/"}).text, HasSubstr("--coordinator-bulk 'h/' is not HOST or HOST:PORT"));
  EXPECT_THAT(
      Worker({"--coordinator-enroll=::1"}).text,
      HasSubstr("--coordinator-enroll '::1' is not HOST or HOST:PORT: an IPv6 address goes in brackets, [::1]"));
}

TEST(EnvironmentTest, HiddenVariableStaysInTheCopyOnly) {
  ASSERT_EQ(setenv("ATOLL_TEST_HIDDEN", "a secret", 1), 0);
  ASSERT_EQ(setenv("ATOLL_TEST_HIDDEN_NOT", "open", 1), 0);
  const Environment copy = ReadEnvironment();
  HideInEnvironment("ATOLL_TEST_HIDDEN");
  EXPECT_EQ(copy.at("ATOLL_TEST_HIDDEN"), "a secret");
  EXPECT_EQ(ReadEnvironment().at("ATOLL_TEST_HIDDEN"), "");
  EXPECT_EQ(ReadEnvironment().at("ATOLL_TEST_HIDDEN_NOT"), "open");
  std::vector<std::string> lines = LinesOf({{"A", "1"}, {"B", ""}});
  EXPECT_EQ(lines, (std::vector<std::string>{"A=1", "B="}));
  const std::vector<char*> pointers = PointersTo(lines);
  ASSERT_EQ(pointers.size(), 3u);
  EXPECT_STREQ(pointers[1], "B=");
  EXPECT_EQ(pointers[2], nullptr);
}

TEST(WorkerOptions, IslandIsSetByAnOptionOrALauncher) {
  const auto own = Worker({"--island-size=4"});
  ASSERT_TRUE(own.run.has_value()) << own.text;
  EXPECT_EQ(own.run->island.size, 4u);
  EXPECT_EQ(own.run->island.ranks_here, 4u);
  EXPECT_FALSE(own.run->island.launched);
  EXPECT_FALSE(Worker({}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}).run->island.launched);

  Environment environment = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "h"},
                             {"MASTER_PORT", "29500"},
                             {"ATOLL_ISLAND_SECRET", "0123456789abcdef"}};
  const auto told = Worker({}, environment);
  ASSERT_TRUE(told.run.has_value()) << told.text;
  EXPECT_TRUE(told.run->island.launched);
  EXPECT_EQ(told.run->island.size, 4u);
  EXPECT_EQ(told.run->island.rank, 3u);
  EXPECT_EQ(told.run->island.ranks_here, 2u);
  EXPECT_EQ(told.run->island.address, "h");
  EXPECT_EQ(told.run->island.port, 29500u);
  for (const std::string& line : told.resolved) EXPECT_EQ(line.find("0123456789abcdef"), std::string::npos) << line;

  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(Worker({}, environment).run->island.port, 29501u);
  environment["LOCAL_RANK"] = "2";
  EXPECT_THAT(Worker({}, environment).text, HasSubstr("LOCAL_RANK is '2' where WORLD_SIZE is 4; it must be 0 to 1"));
  EXPECT_THAT(Worker({"--island-size=2"}, environment).text, HasSubstr("--island-size is 2 and WORLD_SIZE is 4"));
  environment["LOCAL_RANK"] = "1";
  environment.erase("LOCAL_WORLD_SIZE");
  EXPECT_THAT(Worker({}, environment).text, HasSubstr("LOCAL_WORLD_SIZE is missing, RANK is 3 and LOCAL_RANK is 1"));
  environment["LOCAL_RANK"] = "one";
  EXPECT_EQ(Worker({}, environment).text.find("LOCAL_WORLD_SIZE"), std::string::npos);
  environment["LOCAL_RANK"] = "3";  // all on one machine
  EXPECT_EQ(Worker({}, environment).run->island.ranks_here, 4u);
  const auto bare = Worker({}, {{"WORLD_SIZE", "2"}});
  EXPECT_EQ(bare.exit_code, 2);
  for (const char* part : {"RANK is ''", "MASTER_ADDR is missing", "MASTER_PORT is ''", "has 0 characters"}) {
    EXPECT_THAT(bare.text, HasSubstr(part));
  }
  EXPECT_THAT(Worker({}, {{"WORLD_SIZE", "many"}}).text, HasSubstr("WORLD_SIZE is 'many'"));
}

TEST(WorkerOptions, RefuseWhatNoIslandIs) {
  EXPECT_THAT(Worker({"--island-size=0"}).text, HasSubstr("--island-size is 0"));
  EXPECT_THAT(Worker({"--island-size=65"}).text, HasSubstr("from 0 to 64"));
  EXPECT_THAT(Worker({"--island-size=2", "--evaluate-only"}).text,
              HasSubstr("--evaluate-only cannot be used with an island"));
  EXPECT_THAT(Worker({"--island-size=2", "--synthetic-step-seconds=1"}).text, HasSubstr("cannot be combined"));
}

TEST(WorkerOptions, GenerateIsACommandOfItsOwn) {
  const auto line = Worker({"generate", "--checkpoint", "/c", "--prompt", "Once", "--temperature=0"});
  ASSERT_TRUE(line.generate.has_value()) << line.text;
  EXPECT_EQ(line.generate->prompt, "Once");
  EXPECT_EQ(line.generate->temperature, 0);
  EXPECT_FALSE(line.run.has_value());
  EXPECT_THAT(Worker({"generate"}).text, HasSubstr("--checkpoint is missing"));
  EXPECT_THAT(Worker({"genrate"}).text, HasSubstr("did you mean 'generate'?"));
  EXPECT_THAT(Worker({"generate", "--temperature=-1", "--checkpoint=/c"}).text, HasSubstr("it must be 0 to 100"));
}

TEST(CoordinatorOptions, VerifyAndReplayAreCommandsOfTheirOwn) {
  const auto verify = Coordinator({"verify", "--state", "/s", "-o", "json"});
  ASSERT_TRUE(verify.audit.has_value()) << verify.text;
  EXPECT_FALSE(verify.options.has_value());
  EXPECT_FALSE(verify.audit->replay);
  EXPECT_EQ(verify.audit->state_dir, "/s");
  EXPECT_TRUE(verify.audit->json);
  EXPECT_TRUE(Coordinator({"replay", "--state=/s"}).audit->replay);
  EXPECT_FALSE(Coordinator({"--state-dir=/s", "--insecure"}).audit.has_value());
  EXPECT_THAT(Coordinator({"replay"}).text, HasSubstr("--state is missing"));
  EXPECT_EQ(Coordinator({"replay"}).exit_code, 2);
  EXPECT_THAT(Coordinator({"verfy"}).text, HasSubstr("did you mean 'verify'?"));
}

TEST(CoordinatorOptions, BackupAndRestoreAreCommandsOfTheirOwn) {
  const auto backup = Coordinator({"backup", "--state", "/s", "--to=/b"});
  ASSERT_TRUE(backup.backup.has_value()) << backup.text;
  EXPECT_FALSE(backup.options.has_value() || backup.audit.has_value());
  EXPECT_FALSE(backup.backup->restore);
  EXPECT_EQ(backup.backup->state_dir, "/s");
  EXPECT_EQ(backup.backup->backup, "/b");
  const auto restore = Coordinator({"restore", "--from=/b", "--state=/s"});
  ASSERT_TRUE(restore.backup.has_value()) << restore.text;
  EXPECT_TRUE(restore.backup->restore);
  EXPECT_THAT(Coordinator({"backup", "--state=/s"}).text, HasSubstr("--to is missing"));
  EXPECT_THAT(Coordinator({"restore", "--from=/b"}).text, HasSubstr("--state is missing"));
  EXPECT_EQ(Coordinator({"restore", "--from=/b"}).exit_code, 2);
  EXPECT_FALSE(Coordinator({"restore", "--to=/b", "--state=/s"}).backup.has_value());
  EXPECT_THAT(Coordinator({"bakup"}).text, HasSubstr("did you mean 'backup'?"));
}

TEST(WorkerOptions, EvalLossIsACommandOfItsOwn) {
  const auto line = Worker({"eval-loss", "--checkpoint=/c", "--manifest=/m", "--split=train"});
  ASSERT_TRUE(line.eval_loss.has_value()) << line.text;
  EXPECT_TRUE(line.eval_loss->train_split);
  EXPECT_FALSE(line.eval_loss->separate_documents);
  EXPECT_TRUE(
      Worker({"eval-loss", "--checkpoint=/c", "--manifest=/m", "--separate-documents"}).eval_loss->separate_documents);
  EXPECT_THAT(Worker({"eval-loss"}).text,
              testing::AllOf(HasSubstr("--checkpoint is missing"), HasSubstr("--manifest is missing")));
}

TEST(WorkerOptions, EvalTakesFilesOfExamples) {
  const auto line = Worker({"eval", "--checkpoint=/c", "--task=a.jsonl,b.jsonl", "--limit=5", "--per-example"});
  ASSERT_TRUE(line.eval_task.has_value()) << line.text;
  EXPECT_EQ(line.eval_task->tasks, (std::vector<std::string>{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(line.eval_task->limit, 5u);
  EXPECT_TRUE(line.eval_task->per_example);
  EXPECT_THAT(Worker({"eval", "--task=,"}).text,
              testing::AllOf(HasSubstr("--checkpoint is missing"), HasSubstr("--task is missing")));
}

TEST(WorkerOptionsTest, CheckTakesTheOptionsOfAWorker) {
  const WorkerCommandLine line = ParseWorkerOptions(
      {"check", "--coordinator", "10.0.0.1:9000", "--identity", "a.pem", "--cache-dir", "/c"}, {}, "1", "host");
  ASSERT_TRUE(line.check.has_value()) << line.text;
  EXPECT_FALSE(line.run.has_value());
  EXPECT_EQ(line.check->coordinator_bulk, "10.0.0.1:9001");
  const WorkerCommandLine wrong = ParseWorkerOptions({"check", "--coordinator", "nowhere:"}, {}, "1", "host");
  EXPECT_FALSE(wrong.check.has_value());
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.text.find("atoll-worker check: --coordinator 'nowhere:' is not"), std::string::npos) << wrong.text;
}

TEST(WorkerOptionsTest, AnOwnerNamesTheWorkerAsTheWorkerDoes) {
  const Environment environment = {
      {"ATOLL_WORKER_NAME", "paris-1"}, {"ATOLL_WORKER_COORDINATOR", "10.0.0.1:9000"}, {"XDG_CACHE_HOME", "/cache"}};
  const WorkerCommandLine pause = ParseWorkerOptions({"pause", "--for", "2h"}, environment, "1", "host");
  ASSERT_TRUE(pause.owner.has_value()) << pause.text;
  EXPECT_FALSE(pause.owner->resume);
  EXPECT_EQ(pause.owner->cache_dir, "/cache/atoll/paris-1");
  EXPECT_EQ(pause.owner->length, Seconds(7200));
  EXPECT_TRUE(pause.owner->named);
  EXPECT_FALSE(ParseWorkerOptions({"pause", "--cache-dir", "/d"}, {}, "1", "host").owner->named);
  const WorkerCommandLine resume =
      ParseWorkerOptions({"resume", "--name", "x", "--cache-dir", "/d"}, environment, "1", "host");
  ASSERT_TRUE(resume.owner.has_value()) << resume.text;
  EXPECT_TRUE(resume.owner->resume);
  EXPECT_EQ(resume.owner->name, "x");
  EXPECT_EQ(resume.owner->cache_dir, "/d");
  EXPECT_EQ(ParseWorkerOptions({"resume", "--for", "2h"}, {}, "1", "host").exit_code, 2);
  EXPECT_EQ(ParseWorkerOptions({"pause", "--name", "A B"}, {}, "1", "host").exit_code, 2);
}

TEST(WorkerOptionsTest, AnOwnerMayNameTheWorkersFile) {
  const TemporaryFile file("coordinator: 10.0.0.1:9000\nname: paris-1\ncache_dir: /d\ndevice: cpu\n");
  for (const WorkerCommandLine& pause :
       {ParseWorkerOptions({"pause", "--config", file.path()}, {}, "1", "host"),
        ParseWorkerOptions({"pause"}, {{"ATOLL_WORKER_CONFIG", file.path()}}, "1", "host")}) {
    ASSERT_TRUE(pause.owner.has_value()) << pause.text;
    EXPECT_EQ(pause.owner->name, "paris-1");
    EXPECT_TRUE(pause.owner->named);
    EXPECT_EQ(pause.owner->cache_dir, "/d");
  }
  const WorkerCommandLine flag =
      ParseWorkerOptions({"resume", "--config", file.path(), "--cache-dir", "/e"}, {}, "1", "host");
  ASSERT_TRUE(flag.owner.has_value()) << flag.text;
  EXPECT_EQ(flag.owner->cache_dir, "/e");
  const TemporaryFile wrong("cache-dri: /d\n");
  EXPECT_THAT(ParseWorkerOptions({"pause", "--config", wrong.path()}, {}, "1", "host").text,
              HasSubstr("unknown option 'cache-dri'; did you mean 'cache-dir'?"));
}

}  // namespace
}  // namespace atl
