// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "common/codec/codec.h"
#include "tests/unit/cli/commands/harness.h"

namespace atl::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

// The 1B model of Streaming DiLoCo with the changed flags appended; a repeated flag replaces the
// first.
RunResult Plan(const std::map<std::string, std::string>& changed) {
  std::map<std::string, std::string> flags = {
      {"--params", "1e9"},      {"--layers", "24"},       {"--step-seconds", "0.1"},
      {"--workers", "8"},       {"--inner-steps", "100"}, {"--method", "streaming"},
      {"--overlap-steps", "1"}, {"--codec", "mxfp4"},     {"--bandwidth", "1Gbps"}};
  for (const auto& [flag, value] : changed) flags[flag] = value;
  std::vector<std::string> arguments = {"plan"};
  for (const auto& [flag, value] : flags) {
    arguments.push_back(flag);
    arguments.push_back(value);
  }
  return Harness().Run(arguments);
}

Json PlanJson(std::map<std::string, std::string> changed) {
  changed["-o"] = "json";
  const RunResult result = Plan(changed);
  EXPECT_EQ(result.code, 0) << result.talk;
  EXPECT_EQ(result.talk, "");
  return Json::parse(result.out);
}

TEST(Plan, AWorkersMemoryIsThatOfItsOptions) {
  Harness harness;
  const auto memory = [&harness](std::vector<std::string> more) {
    std::vector<std::string> words{"plan", "--params",    "1e9",   "--layers", "24",  "--step-seconds",
                                   "0.1",  "--bandwidth", "1Gbps", "-o",       "json"};
    words.insert(words.end(), more.begin(), more.end());
    const RunResult result = harness.Run(words);
    EXPECT_EQ(result.code, 0) << result.talk;
    return Json::parse(result.out)["worker"]["gpu_memory_bytes"].get<uint64_t>();
  };
  EXPECT_EQ(memory({"--precision", "bf16"}), memory({}) + 2'000'000'000u);
  EXPECT_GT(memory({"--form-on", "gpu"}), memory({}) + 1'000'000'000u);
  const RunResult wrong = harness.Run({"plan", "--params", "1e9", "--layers", "24", "--step-seconds", "0.1",
                                       "--bandwidth", "1Gbps", "--form-on", "cpu"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.talk, "atoll: --form-on is 'cpu'; it must be host, gpu\n") << "gpu is what is not meant";
}

TEST(Plan, JsonHasWhatScriptsReadAndAsksNoCoordinator) {
  Harness harness;
  harness.fake.error = absl::UnavailableError("no coordinator here");
  const RunResult result = harness.Run(
      {"plan", "--params", "1e9", "--layers", "24", "--step-seconds", "0.1", "--bandwidth", "1Gbps", "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.talk;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["method"], "streaming");
  EXPECT_EQ(json["codec"], "mxfp4");
  EXPECT_EQ(json["inner_steps"], 100);
  EXPECT_EQ(json["overlap_steps"], 1);
  EXPECT_EQ(json["fragments"], 8);
  EXPECT_EQ(json["bytes_per_period"], 8 * EncodedSize(CodecKind::kMxfp4, 125'000'000));
  EXPECT_GT(json["compute_utilization_ratio"], 0.7);
  EXPECT_LT(json["coordinator_utilization_ratio"], json["compute_utilization_ratio"]);
  EXPECT_NEAR(json["peak_bits_per_second"].get<double>(), 8 * 66.4e6 / 0.1, 1e8);
  EXPECT_NEAR(json["mean_bits_per_second"].get<double>(), 0.425e9, 1e6);
  EXPECT_GT(json["worker"]["memory_bytes"], 20e9);
  EXPECT_EQ(json["worker"]["gpu_memory_bytes"], 16'000'000'000u);
  EXPECT_GT(json["worker"]["gpu_host_bytes"], 8e9);
  EXPECT_GT(json["coordinator"]["memory_bytes"], 20e9);
  EXPECT_FALSE(json.contains("token_budget"));
  EXPECT_EQ(json["recommended"]["target_utilization_ratio"], 0.95);
  for (const char* key : {"method", "codec", "inner_steps", "overlap_steps", "compute_utilization_ratio",
                          "coordinator_utilization_ratio", "bandwidth_bits_per_second", "reached"}) {
    EXPECT_TRUE(json["recommended"].contains(key)) << key;
  }
  EXPECT_EQ(json["utilization"].size(), 6u * (5 + 5 + 5 + 4));
}

TEST(Plan, EveryMethodTakesTheSameFlags) {
  const Json data_parallel = PlanJson({{"--method", "data-parallel"}, {"--codec", "bf16"}});
  EXPECT_EQ(data_parallel["inner_steps"], 1);
  EXPECT_EQ(data_parallel["bytes_per_round"], 2'000'000'000u);
  EXPECT_LT(data_parallel["compute_utilization_ratio"], 0.01);
  const Json diloco = PlanJson({{"--method", "diloco"}, {"--codec", "bf16"}});
  EXPECT_EQ(diloco["fragments"], 1);
  EXPECT_EQ(diloco["bytes_per_round"], diloco["bytes_per_period"]);
  EXPECT_GT(diloco["compute_utilization_ratio"], data_parallel["compute_utilization_ratio"]);
  EXPECT_GT(PlanJson({})["compute_utilization_ratio"], diloco["compute_utilization_ratio"]);
}

TEST(Plan, CodecsOverlapAndPeriodsMoveItAsTheyShould) {
  const auto ratio = [](std::map<std::string, std::string> changed) {
    return PlanJson(std::move(changed))["coordinator_utilization_ratio"].get<double>();
  };
  const double given = ratio({});
  EXPECT_LT(ratio({{"--codec", "fp32"}}), given);
  EXPECT_LT(ratio({{"--download-codec", "bf16"}}), given);
  EXPECT_LT(ratio({{"--download-bandwidth", "100Mbit/s"}}), given);
  EXPECT_LT(ratio({{"--latency", "500ms"}}), given);
  EXPECT_LT(ratio({{"--round-time", "500ms"}}), given);
  EXPECT_LT(ratio({{"--inner-steps", "50"}}), given);
  EXPECT_LT(ratio({{"--overlap-steps", "0"}}), given);
  EXPECT_GT(ratio({{"--overlap-steps", "5"}}), given);
  EXPECT_DOUBLE_EQ(ratio({{"--bandwidth", "125MB/s"}}), given);
}

TEST(Plan, HoursForATokenBudget) {
  const Json json = PlanJson({{"--tokens", "25e9"}, {"--tokens-per-step", "131072"}});
  EXPECT_NEAR(json["token_budget"]["hours_without_link"].get<double>(), 0.6623, 1e-3);
  EXPECT_GT(json["token_budget"]["hours_through_coordinator"], json["token_budget"]["hours"]);
}

TEST(Plan, OtherFormats) {
  EXPECT_THAT(Plan({{"-o", "yaml"}}).out, AllOf(StartsWith("method: "), HasSubstr("\nutilization:\n  - codec: ")));
  const std::string line = Plan({{"-o", "jsonl"}}).out;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(Plan({{"--tokens", "25e9"}, {"--tokens-per-step", "131072"}}).out,
              AllOf(StartsWith("PLAN "), HasSubstr("through a coordinator"), HasSubstr("for 95.0 %"),
                    HasSubstr("H=100"), HasSubstr("1.00 Gbit/s up"), HasSubstr("hours")));
}

TEST(Plan, NothingReachesAnExtremeTarget) {
  const RunResult result = Plan({{"--bandwidth", "1Mbit/s"}});
  EXPECT_THAT(result.out, HasSubstr("no value up to H 1000 reaches it; best: "));
  const Json json = PlanJson({{"--latency", "100s"}});
  EXPECT_FALSE(json["recommended"]["reached"]);
  EXPECT_TRUE(json["recommended"]["bandwidth_bits_per_second"].is_null());
}

struct Wrong {
  const char* flag;
  const char* value;
  const char* says;
};

TEST(Plan, EachWrongFlagIsOneSentenceAndUsage) {
  const Wrong cases[] = {
      {"--params", "-5", "--params is '-5'; it must be a whole number"},
      {"--params", "0", "--params is '0'; it must be a whole number from 1 to 1099511627776"},
      {"--params", "", "--params is ''; it must be a whole number from 1 to 1099511627776"},
      {"--params", "nan", "--params is 'nan'; it must be a whole number"},
      {"--params", "1.5", "--params is '1.5'; it must be a whole number"},
      {"--params", "1e30", "--params is '1e30'; it must be a whole number"},
      {"--params", "5", "--params leaves less than one parameter for each of 24 layers"},
      {"--layers", "0", "--layers is '0'; it must be a whole number from 1 to 1024"},
      {"--layers", "x", "--layers is 'x'; it must be a whole number from 1 to 1024"},
      {"--layers", "1025", "--layers is '1025'; it must be a whole number from 1 to 1024"},
      {"--step-seconds", "0", "--step-seconds is 0; it must be from"},
      {"--step-seconds", "-1", "--step-seconds is -1; it must be from"},
      {"--step-seconds", "nan", "--step-seconds is 'nan'; it must be a number"},
      {"--step-seconds", "inf", "--step-seconds is 'inf'; it must be a number"},
      {"--workers", "0", "--workers is '0'; it must be a whole number from 1 to 1024"},
      {"--workers", "1e4", "--workers is '1e4'; it must be a whole number from 1 to 1024"},
      {"--inner-steps", "0", "--inner-steps is '0'; it must be a whole number from 1 to 1000000"},
      {"--inner-steps", "1e7", "--inner-steps is '1e7'; it must be a whole number from 1 to 1000000"},
      {"--overlap-steps", "100", "--overlap-steps is 100; it must be below --inner-steps (100)"},
      {"--overlap-steps", "-1", "--overlap-steps is '-1'; it must be a whole number"},
      {"--codec", "mxfp5", "--codec is 'mxfp5'; it must be fp32, fp16, bf16, int8, mxfp4, e3m0"},
      {"--codec", "mxfp5", "; did you mean 'mxfp4'?"},
      {"--method", "stream", "--method is 'stream'; it must be data-parallel, diloco, streaming"},
      {"--bandwidth", "fast", "--bandwidth is 'fast'; it must be a rate from 1B/s to 1000TB/s with its unit, as 1Gbps"},
      {"--bandwidth", "-1Gbps", "--bandwidth is '-1Gbps'"},
      {"--bandwidth", "0Gbps", "--bandwidth is '0Gbps'"},
      {"--bandwidth", "1000", "--bandwidth is '1000'; it must be a rate from 1B/s to 1000TB/s with its unit"},
      {"--bandwidth", "8001Tbps", "--bandwidth is '8001Tbps'; it must be a rate from 1B/s to 1000TB/s"},
      {"--bandwidth", "10000000000000Gbps", "it must be a rate from 1B/s to 1000TB/s"},
      {"--download-bandwidth", "nan", "--download-bandwidth is 'nan'"},
      {"--latency", "5", "--latency is '5'; it must be a time"},
      {"--latency", "1000h", "--latency is '1000h'; it must be a time from 0s to 3600s"},
      {"--round-time", "61m", "--round-time is '61m'; it must be a time from 0s to 3600s"},
      {"--target-utilization", "1", "--target-utilization is 1; it must be above 0 and below 1"},
      {"--upload-error-memory", "on", "--upload-error-memory is 'on'; it must be off, feedback, loco"},
      {"--embedding-params", "1e9", "--embedding-params is 1000000000; it must be below --params"},
      {"--layers-per-fragment", "0", "--layers-per-fragment is '0'; it must be a whole number from 1 to 1024"},
      {"--tokens", "1e9", "--tokens-per-step is 0 or missing; give both --tokens and --tokens-per-step"},
      {"--tokens-per-step", "1e6", "--tokens is 0 or missing; give both --tokens and --tokens-per-step"},
  };
  for (const Wrong& wrong : cases) {
    const RunResult result = Plan({{wrong.flag, wrong.value}});
    EXPECT_EQ(result.code, 2) << wrong.flag << " " << wrong.value;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.talk, AllOf(StartsWith("atoll: "), HasSubstr(wrong.says)));
    EXPECT_EQ(std::count(result.talk.begin(), result.talk.end(), '\n'), 1) << result.talk;
  }
}

TEST(Plan, EveryCountMayBeWrittenWithAnExponent) {
  EXPECT_EQ(
      PlanJson({{"--workers", "1e3"}, {"--layers", "1e2"}, {"--inner-steps", "1e6"}, {"--overlap-steps", "1e1"}}),
      PlanJson({{"--workers", "1000"}, {"--layers", "100"}, {"--inner-steps", "1000000"}, {"--overlap-steps", "10"}}));
}

TEST(Plan, RequiredOptionsAreNamed) {
  const RunResult result = Harness().Run({"plan", "--params", "1e9", "--layers", "24", "--step-seconds", "0.1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.talk, HasSubstr("--bandwidth is required"));
}

TEST(Plan, IsInTheCompletionAndSuggested) {
  EXPECT_THAT(Harness().Run({"completion", "bash"}).out, HasSubstr("--target-utilization"));
  EXPECT_THAT(Harness().Run({"plna"}).talk, HasSubstr("did you mean 'plan'?"));
}

}  // namespace
}  // namespace atl::cli
