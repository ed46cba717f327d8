// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/telemetry/catalogue.h"
#include "common/telemetry/event_log.h"
#include "common/telemetry/metrics.h"

namespace atl {
namespace {

std::string FreshDirectory(const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("atoll-" + name + "-" + std::to_string(::getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// ---- catalogue ------------------------------------------------------------------------------------------------------

TEST(CatalogueTest, NamesFollowTheRules) {
  std::set<std::string> names;
  for (const MetricInfo& info : MetricCatalogue()) {
    const std::string name = info.name, unit = info.unit;
    EXPECT_EQ(name.rfind("atoll_", 0), 0u) << name;
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
    EXPECT_EQ(info.type == MetricType::kCounter, total) << name << ": _total is for counters, and only for them";
    const std::string stem = total ? name.substr(0, name.size() - 6) : name;
    if (!unit.empty()) {
      EXPECT_EQ(stem.substr(stem.size() - unit.size()), unit) << name;
    }
    EXPECT_EQ(info.type == MetricType::kHistogram, !info.buckets.empty()) << name;
    EXPECT_TRUE(std::is_sorted(info.buckets.begin(), info.buckets.end())) << name;
    EXPECT_EQ(std::string(info.help).back(), '.') << name;
    if (info.home == MetricHome::kWorker) {
      EXPECT_EQ(FindWorkerMetric(HeartbeatName(info.metric)), &info);
    }
  }
  EXPECT_EQ(FindWorkerMetric("jobs"), nullptr);
}

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kHistogram: return "histogram";
  }
  return "gauge";
}

// The whole of docs/metrics.md.
std::string CatalogueAsMarkdown() {
  std::string out =
      "# Metrics\n\nMade from `common/telemetry/catalogue.cc`; a test compares the two. To renew this page:\n"
      "`ATOLL_WRITE_DOCS=1 build/dev/bin/telemetry_test --gtest_filter='MetricsPageTest.*'`.\n\n"
      "The coordinator serves its own under `/metrics` of its admin port. Metrics of a worker are served by the worker "
      "itself\n"
      "and, all but histograms, from its heartbeats by the coordinator too, with the labels `job` and `worker`, until "
      "the worker\n"
      "is gone or leaves the job. Both programs add those of their process (`process_resident_memory_bytes` and so "
      "on).\n";
  for (const MetricHome home : {MetricHome::kCoordinator, MetricHome::kWorker}) {
    out += home == MetricHome::kCoordinator ? "\n## Coordinator\n\n" : "\n## Worker\n\n";
    out += "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
    for (const MetricInfo& info : MetricCatalogue()) {
      if (info.home != home) continue;
      out += absl::StrCat("| `", info.name, "` | ", TypeName(info.type), " | ", info.unit, " | ",
                          absl::StrJoin(info.labels, ", "), " | ", info.help, " |\n");
    }
  }
  return out;
}

TEST(MetricsPageTest, MatchesTheCatalogue) {
  const std::string path = std::string(ATOLL_SOURCE_DIR) + "/docs/metrics.md";
  if (std::getenv("ATOLL_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << CatalogueAsMarkdown();
  EXPECT_EQ(ReadText(path), CatalogueAsMarkdown()) << "the page says how to renew it";
}

// ---- metrics --------------------------------------------------------------------------------------------------------

// One value of every metric, as in a busy coordinator.
void FillEverything(Metrics& metrics) {
  for (const MetricInfo& info : MetricCatalogue()) {
    const Metrics::Labels labels(info.labels.size(), "a");
    if (info.type == MetricType::kCounter) metrics.Add(info.metric, 2.5, labels);
    if (info.type == MetricType::kGauge) metrics.Set(info.metric, -1.5, labels);
    if (info.type == MetricType::kHistogram) metrics.Observe(info.metric, 0.3, labels);
  }
}

TEST(MetricsTest, ExposesEveryMetricOfTheCatalogue) {
  Metrics metrics;
  FillEverything(metrics);
  const std::string text = metrics.Expose();
  for (const MetricInfo& info : MetricCatalogue())
    EXPECT_NE(text.find(std::string("# HELP ") + info.name + " "), std::string::npos) << info.name;
  EXPECT_NE(text.find("atoll_transfer_bytes_total{direction=\"a\",job=\"a\",kind=\"a\",worker=\"a\"} 2.5"),
            std::string::npos)
      << text;
}

TEST(MetricsTest, PromtoolAcceptsTheExposition) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "promtool is not installed";
  Metrics metrics;
  FillEverything(metrics);
  Heartbeat heartbeat;
  heartbeat.job = {"tiny"};
  heartbeat.metrics = {{HeartbeatName(Metric::kTrainLoss), 2.0}, {HeartbeatName(Metric::kTokens), 10.0}};
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  const std::string path = FreshDirectory("promtool") + "/metrics.txt";
  std::ofstream(path, std::ios::binary) << metrics.Expose();
  const std::string command = "promtool check metrics < '" + path + "' > '" + path + ".out' 2>&1";
  const int rc = std::system(command.c_str());
  EXPECT_EQ(rc, 0) << ReadText(path + ".out");
  EXPECT_EQ(ReadText(path + ".out"), "");
}

TEST(MetricsTest, ShowsWorkersUntilTheyAreGone) {
  Metrics metrics;
  Heartbeat heartbeat;
  heartbeat.job = {"tiny"};
  heartbeat.metrics = {
      {HeartbeatName(Metric::kTrainLoss), 2.25}, {HeartbeatName(Metric::kTokens), 100}, {"unknown", 1}, {"jobs", 1}};
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  heartbeat.metrics[1].value = 160;
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  metrics.SetFromHeartbeat({"rome-1"}, heartbeat);
  std::string text = metrics.Expose();
  EXPECT_NE(text.find("atoll_train_loss_nats{job=\"tiny\",worker=\"paris-1\"} 2.25"), std::string::npos) << text;
  EXPECT_NE(text.find("atoll_trained_tokens_total{job=\"tiny\",worker=\"paris-1\"} 160"), std::string::npos) << text;
  metrics.ForgetWorker({"paris-1"});
  text = metrics.Expose();
  EXPECT_EQ(text.find("paris-1"), std::string::npos);
  EXPECT_NE(text.find("rome-1"), std::string::npos);
  metrics.ForgetJob({"tiny"});
  EXPECT_EQ(metrics.Expose().find("rome-1"), std::string::npos);
}

TEST(MetricsTest, ShowsTheEndOfACertificateWhateverTheWorkerIsAt) {
  Metrics metrics;
  const char* const told = "atoll_certificate_end_timestamp_seconds{worker=\"paris-1\"} 1700000000";
  for (const char* job : {"", "first", "", "second"}) {
    Heartbeat heartbeat;
    heartbeat.job = {job};
    heartbeat.metrics = {{HeartbeatName(Metric::kCertificateEnd), 1.7e9}, {HeartbeatName(Metric::kInnerStep), 7}};
    metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
    EXPECT_NE(metrics.Expose().find(told), std::string::npos) << metrics.Expose();
  }
  metrics.ForgetWorker({"paris-1"});
  EXPECT_EQ(metrics.Expose().find("paris-1"), std::string::npos);
}

TEST(MetricsTest, ShowsAWorkerUnderTheJobItIsAt) {
  Metrics metrics;
  Heartbeat heartbeat;
  heartbeat.job = {"first"};
  heartbeat.metrics = {{HeartbeatName(Metric::kInnerStep), 7}};
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  metrics.Add(Metric::kTransferBytes, 5, {"first", "paris-1", "download", "block"});
  heartbeat.job = {};
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  EXPECT_EQ(metrics.Expose().find("atoll_inner_step{"), std::string::npos) << metrics.Expose();
  heartbeat.job = {"second"};
  metrics.SetFromHeartbeat({"paris-1"}, heartbeat);
  const std::string text = metrics.Expose();
  EXPECT_NE(text.find("atoll_inner_step{job=\"second\",worker=\"paris-1\"} 7"), std::string::npos) << text;
  EXPECT_NE(text.find("atoll_transfer_bytes_total{"), std::string::npos) << "what the coordinator counted stays\n"
                                                                         << text;
}

TEST(MetricsTest, OneSeriesCanBeForgotten) {
  Metrics metrics;
  metrics.Set(Metric::kParticipation, 0.5, {"tiny", "a"});
  metrics.Set(Metric::kParticipation, 0.75, {"tiny", "b"});
  metrics.Forget(Metric::kParticipation, {"tiny", "a"});
  metrics.Forget(Metric::kParticipation, {"tiny", "nobody"});
  EXPECT_EQ(metrics.Expose().find("worker=\"a\""), std::string::npos);
  EXPECT_NE(metrics.Expose().find("worker=\"b\"} 0.75"), std::string::npos);
}

TEST(MetricsTest, SeriesAreBounded) {
  Metrics metrics(10);
  for (int i = 0; i < 30; ++i) metrics.Set(Metric::kHeartbeatAge, 1, {"w" + std::to_string(i)});
  EXPECT_NE(metrics.Expose().find("atoll_metric_series_dropped_total 20"), std::string::npos) << metrics.Expose();
}

TEST(MetricsTest, CountersNeverFall) {
  Metrics metrics;
  metrics.Add(Metric::kTokens, 5);
  metrics.Add(Metric::kTokens, -3);
  metrics.Add(Metric::kTokens, std::nan(""));
  ASSERT_EQ(metrics.HeartbeatSamples().size(), 1u);
  EXPECT_EQ(metrics.HeartbeatSamples()[0].value, 5);
  EXPECT_EQ(metrics.HeartbeatSamples()[0].name, HeartbeatName(Metric::kTokens));
}

// ---- event log ------------------------------------------------------------------------------------------------------

LoggedEvent MakeEvent(uint64_t revision) {
  return {{"tiny"},
          revision,
          1'700'000'000'000'000'000,
          "round committed",
          "version 3 with \"2\" workers\n",
          {{"members", "a,b"}, {"bad", "\xFF"}},
          {{"loss", 50, 2.5}, {"evaluation_loss", 50, std::numeric_limits<double>::infinity()}},
          {}};
}

TEST(EventLogTest, GoldenLine) {
  EXPECT_EQ(EventToJson(MakeEvent(7)),
            "{\"job\":\"tiny\",\"revision\":7,\"time_ns\":1700000000000000000,\"kind\":\"round "
            "committed\",\"text\":\"version 3 with \\\"2\\\" workers\\n\","
            "\"fields\":{\"bad\":\"\xEF\xBF\xBD\",\"members\":\"a,b\"},\"points\":[{\"curve\":\"loss\",\"step\":50,"
            "\"value\":2.5},"
            "{\"curve\":\"evaluation_loss\",\"step\":50,\"value\":\"inf\"}]}");
  LoggedEvent moved = MakeEvent(7);
  moved.transfers = {{{"a"}, 12, 34}};
  const std::string line = EventToJson(moved);
  const std::string end = ",\"transfers\":[{\"worker\":\"a\",\"uploaded_bytes\":12,\"downloaded_bytes\":34}]}";
  EXPECT_EQ(line.substr(line.size() - std::min(line.size(), end.size())), end) << line;
}

TEST(EventLogTest, LinesComeBackAndForeignOnesDoNot) {
  const LoggedEvent event = *EventFromJson(EventToJson(MakeEvent(7)));
  EXPECT_EQ(event.revision, 7u);
  EXPECT_EQ(event.fields.at("members"), "a,b");
  EXPECT_TRUE(std::isinf(event.points[1].value));
  EXPECT_TRUE(event.transfers.empty());
  LoggedEvent moved = MakeEvent(7);
  moved.transfers = {{{"a"}, 12, 34}, {{"b"}, 0, 1}};
  const LoggedEvent back = *EventFromJson(EventToJson(moved));
  ASSERT_EQ(back.transfers.size(), 2u);
  EXPECT_EQ(back.transfers[0].worker, WorkerId{"a"});
  EXPECT_EQ(back.transfers[0].uploaded_bytes, 12u);
  EXPECT_EQ(back.transfers[1].downloaded_bytes, 1u);
  for (const char* line :
       {"", "{", "[]", "{\"job\":1}",
        "{\"job\":\"a\",\"revision\":\"x\",\"time_ns\":1,\"kind\":\"\",\"text\":\"\",\"fields\":{},\"points\":[]}",
        "{\"job\":\"a\",\"revision\":1,\"time_ns\":1,\"kind\":\"\",\"text\":\"\",\"fields\":{\"a\":1},\"points\":[]}",
        "{\"job\":\"a\",\"revision\":1,\"time_ns\":1,\"kind\":\"\",\"text\":\"\",\"fields\":{},\"points\":[{\"curve\":"
        "\"l\"}]}",
        "{\"job\":\"a\",\"revision\":1,\"time_ns\":1,\"kind\":\"\",\"text\":\"\",\"fields\":{},\"points\":[],"
        "\"transfers\":[{\"worker\":\"a\"}]}"}) {
    EXPECT_FALSE(EventFromJson(line).ok()) << line;
  }
}

std::vector<uint64_t> Revisions(const EventLog& log, uint64_t& skipped) {
  std::vector<uint64_t> out;
  skipped = *log.Read({"tiny"}, [&](const LoggedEvent& event) { out.push_back(event.revision); });
  return out;
}

TEST(EventLogTest, SurvivesATornLine) {
  const auto files = MakePosixFiles();
  const EventLogOptions options{.directory = FreshDirectory("events")};
  uint64_t skipped = 0;
  {
    auto log = *EventLog::Open(*files, options);
    ASSERT_EQ(log->Append(MakeEvent(1)), absl::OkStatus());
    ASSERT_EQ(log->Append(MakeEvent(2)), absl::OkStatus());
  }
  const std::string path = options.directory + "/tiny.jsonl";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  auto log = *EventLog::Open(*files, options);
  ASSERT_EQ(log->Append(MakeEvent(3)), absl::OkStatus());
  EXPECT_EQ(Revisions(*log, skipped), (std::vector<uint64_t>{1, 3})) << "what follows a torn line is whole";
  EXPECT_EQ(skipped, 1u);
}

TEST(EventLogTest, LinesAreReadWhereverTheyLie) {
  const auto files = MakePosixFiles();
  const EventLogOptions options{.directory = FreshDirectory("pieces")};
  auto log = *EventLog::Open(*files, options);
  std::vector<uint64_t> expected;
  for (uint64_t i = 1; i <= 300; ++i) {  // about 300 kB, more than one read returns
    expected.push_back(i);
    LoggedEvent event = MakeEvent(i);
    event.text.assign(i * 7, 'x');
    EXPECT_TRUE(log->Append(event).ok());
  }
  LoggedEvent longer = MakeEvent(301);
  longer.text.assign(200'000, 'y');
  EXPECT_TRUE(log->Append(longer).ok());
  expected.push_back(301);
  longer.revision = 302;
  longer.text.assign(1'000'000, 'z');
  EXPECT_TRUE(log->Append(longer).ok()) << "written, and too long to be read";
  EXPECT_TRUE(log->Append(MakeEvent(303)).ok());
  expected.push_back(303);
  uint64_t skipped = 0;
  EXPECT_EQ(Revisions(*log, skipped), expected);
  EXPECT_EQ(skipped, 1u);
}

TEST(EventLogTest, AJobNamedFleetDoesNotShareTheFleetsFile) {
  const auto files = MakePosixFiles();
  const EventLogOptions options{.directory = FreshDirectory("fleet")};
  auto log = *EventLog::Open(*files, options);
  LoggedEvent of_job = MakeEvent(1), of_fleet = MakeEvent(2);
  of_job.job = {"fleet"};
  of_fleet.job = {};
  ASSERT_EQ(log->Append(of_job), absl::OkStatus());
  ASSERT_EQ(log->Append(of_fleet), absl::OkStatus());
  for (const LoggedEvent& wanted : {of_job, of_fleet}) {
    std::vector<uint64_t> revisions;
    ASSERT_TRUE(log->Read(wanted.job, [&](const LoggedEvent& event) { revisions.push_back(event.revision); }).ok());
    EXPECT_EQ(revisions, std::vector<uint64_t>{wanted.revision});
  }
  EXPECT_TRUE(files->Exists(options.directory + "/_fleet.jsonl"));
}

TEST(EventLogTest, HoldsFewFilesOpen) {
  const auto files = MakePosixFiles();
  auto log = *EventLog::Open(*files, {.directory = FreshDirectory("many")});
  const auto open = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open();
  for (uint64_t i = 1; i <= 400; ++i) {
    LoggedEvent event = MakeEvent(i);
    event.job = {"job-" + std::to_string(i % 200)};
    ASSERT_EQ(log->Append(event), absl::OkStatus());
  }
  EXPECT_LE(open(), before + 40);
  uint64_t lines = 0;
  ASSERT_TRUE(log->Read({"job-7"}, [&lines](const LoggedEvent&) { ++lines; }).ok());
  EXPECT_EQ(lines, 2u);
}

TEST(EventLogTest, RotatesAndKeepsTheNewest) {
  const auto files = MakePosixFiles();
  const EventLogOptions options{.directory = FreshDirectory("rotate"), .rotate_bytes = 1000, .keep_rotated = 2};
  auto log = *EventLog::Open(*files, options);
  for (uint64_t i = 1; i <= 40; ++i) ASSERT_EQ(log->Append(MakeEvent(i)), absl::OkStatus());
  uint64_t skipped = 0;
  const std::vector<uint64_t> kept = Revisions(*log, skipped);
  EXPECT_EQ(skipped, 0u);
  ASSERT_FALSE(kept.empty());
  EXPECT_LT(kept.size(), 15u);
  EXPECT_EQ(kept.back(), 40u);
  for (size_t i = 1; i < kept.size(); ++i) EXPECT_EQ(kept[i], kept[i - 1] + 1);
  EXPECT_LE(std::distance(std::filesystem::directory_iterator(options.directory), {}), 3);
}

TEST(EventLogTest, TheEndIsReadInWholeLinesWhateverFilesItLiesIn) {
  const auto files = MakePosixFiles();
  const EventLogOptions options{.directory = FreshDirectory("ends"), .rotate_bytes = 1000, .keep_rotated = 2};
  auto log = *EventLog::Open(*files, options);
  uint64_t skipped = 0;
  for (uint64_t i = 1; i <= 12; ++i) {
    ASSERT_EQ(log->Append(MakeEvent(i)), absl::OkStatus());
    const std::vector<uint64_t> kept = Revisions(*log, skipped);
    const uint64_t line = EventToJson(MakeEvent(i)).size() + 1;
    for (uint64_t bytes = 0; bytes < 4000; bytes += 37) {
      std::vector<uint64_t> read;
      const auto all = log->ReadEnd({"tiny"}, bytes, [&](const LoggedEvent& event) { read.push_back(event.revision); });
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_EQ(*all, read.size() == kept.size());
      ASSERT_LE(read.size(), kept.size());
      EXPECT_TRUE(std::equal(read.rbegin(), read.rend(), kept.rbegin()));
      EXPECT_GE((read.size() + 2) * line, std::min<uint64_t>(bytes, kept.size() * line));
    }
  }
  EXPECT_TRUE(*log->ReadEnd({"nobody"}, 100, [](const LoggedEvent&) {}));
}

}  // namespace
}  // namespace atl
