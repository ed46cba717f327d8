// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/queued_writer.h"

namespace atl {
namespace {

constexpr int64_t kWallNanos = 1'767'225'600'123'456'789;  // 2026-01-01 00:00:00.123 UTC

LogLine Line(std::string event, std::vector<LogField> fields) {
  LogLine line;
  line.wall_nanos = kWallNanos;
  line.event = std::move(event);
  line.fields = std::move(fields);
  return line;
}

TEST(LogLine, Text) {
  EXPECT_EQ(Line("round committed", {{"job", "tiny"}, {"version", 3}}).ToText(),
            "2026-01-01T00:00:00.123Z INFO round committed job=tiny version=3");
}

TEST(LogLine, TextQuotesWhatWouldBeReadAsSomethingElse) {
  EXPECT_EQ(Line("x", {{"why", "disk is full"}, {"none", ""}, {"eq", "a=b"}, {"q", "say \"hi\""}}).ToText(),
            "2026-01-01T00:00:00.123Z INFO x why=\"disk is full\" none=\"\" eq=\"a=b\" q=\"say \\\"hi\\\"\"");
}

// S23. A peer's text must not add a line, move the cursor or colour a terminal.
TEST(LogLine, ControlCharactersNeverComeThrough) {
  std::string hostile;
  for (int c = 0; c < 256; ++c) hostile += static_cast<char>(c);
  const LogLine line = Line(hostile, {{"name", "evil\n2026 INFO all is well\x1b[2J"}, {"bytes", hostile}});
  for (const std::string& text : {line.ToText(), line.ToJson()}) {
    for (const char c : text) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << static_cast<int>(c) << " in " << text;
    }
  }
}

TEST(LogLine, JsonIsReadBackByAParser) {
  const auto json = nlohmann::json::parse(Line("a \"b\"\\\n", {{"tab", "\t"}, {"n", 5}, {"utf8", "æ–‡"}}).ToJson());
  EXPECT_EQ(json["time"], "2026-01-01T00:00:00.123Z");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["event"], "a \"b\"\\\n");
  EXPECT_EQ(json["tab"], "\t");
  EXPECT_EQ(json["n"], "5");
  EXPECT_EQ(json["utf8"], "æ–‡");
}

// As on old disks.
TEST(LogLine, NamesThatAreNoUtf8AreMarked) {
  const LogLine line = Line("x", {{"latin", "zustand-\xfc-\xff"},
                                  {"good", "\xc3\xbc\xe7\x8a\xb6\xf0\x9f\x9a\x80"},
                                  {"cut", "\xe7\x8a"},
                                  {"overlong", "\xc0\xaf"},
                                  {"surrogate", "\xed\xa0\x80"},
                                  {"c1",
                                   "\xc2\x9b"
                                   "2J"}});
  EXPECT_EQ(
      line.ToText(),
      "2026-01-01T00:00:00.123Z INFO x latin=\"zustand-\\ufffd-\\ufffd\" good=\xc3\xbc\xe7\x8a\xb6\xf0\x9f\x9a\x80 "
      "cut=\"\\ufffd\\ufffd\" overlong=\"\\ufffd\\ufffd\" surrogate=\"\\ufffd\\ufffd\\ufffd\" c1=\"\\u009b2J\"");
  const auto json = nlohmann::json::parse(line.ToJson());
  EXPECT_EQ(json["latin"], "zustand-\xef\xbf\xbd-\xef\xbf\xbd");
  EXPECT_EQ(json["good"], "\xc3\xbc\xe7\x8a\xb6\xf0\x9f\x9a\x80");
}

LogOptions Quiet(size_t ring_lines) { return {.ring_lines = ring_lines, .to_stderr = false}; }

TEST(Log, TheRingKeepsTheNewest) {
  Log log(Quiet(3));
  for (int i = 0; i < 10; ++i) log.Info("event", {{"i", i}});
  const auto lines = log.Recent(100);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].fields[0].value, "7");
  EXPECT_EQ(lines[2].fields[0].value, "9");
}

TEST(Log, RecentIsBoundedByCountAndTime) {
  Log log(Quiet(100));
  for (int i = 0; i < 10; ++i) log.Warn("event", {{"i", i}});
  const auto two = log.Recent(2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].fields[0].value, "9");
  EXPECT_TRUE(log.Recent(100, INT64_MAX).empty());
  EXPECT_EQ(log.Recent(100, two[0].wall_nanos).back().fields[0].value, "9");
}

TEST(Log, LevelsBelowTheMinimumAreDropped) {
  LogOptions options = Quiet(10);
  options.minimum = LogLevel::kWarning;
  Log log(options);
  log.Debug("d");
  log.Info("i");
  log.Warn("w");
  log.Error("e");
  const auto lines = log.Recent(10);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].event, "w");
  EXPECT_EQ(lines[1].level, LogLevel::kError);
}

TEST(Log, WritesOneLineToStderr) {
  testing::internal::CaptureStderr();
  Log log({});
  log.Info("ready", {{"port", 7070}, {"note", "two\nlines"}});
  ASSERT_TRUE(StandardError().Flush());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find(" INFO ready port=7070 note=\"two\\u000alines\""), std::string::npos) << text;
}

}  // namespace
}  // namespace atl
