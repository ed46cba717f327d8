// SPDX-License-Identifier: Apache-2.0
#include "common/format/eval_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/plan/limits.h"

namespace atl {
namespace {

using ::testing::HasSubstr;

TEST(EvalTask, ReadsMinimalPairs) {
  const auto task = ParseEvalTask(
      "{\"sentence_good\":\"A b.\",\"sentence_bad\":\"B a.\",\"UID\":\"x\",\"simple_LM_method\":true}\n\n"
      "{\"sentence_good\":\"C\",\"sentence_bad\":\"D\"}");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->kind, EvalTaskKind::kMinimalPairs);
  ASSERT_EQ(task->examples.size(), 2u);
  EXPECT_EQ(task->examples[0].choices, (std::vector<std::string>{"A b.", "B a."}));
  EXPECT_EQ(task->examples[0].label, 0u);
  EXPECT_EQ(task->examples[0].context, "");
}

TEST(EvalTask, ReadsMultipleChoice) {
  const auto task = ParseEvalTask(
      "{\"ind\":4,\"ctx\":\"A man\",\"endings\":[\"runs.\",\" sits.\",\"flies.\"],\"label\":2}\n"
      "{\"ctx\":\"\",\"endings\":[\"a\",\"b\"],\"label\":\"1\"}\n");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->kind, EvalTaskKind::kMultipleChoice);
  EXPECT_EQ(task->examples[0].context, "A man");
  EXPECT_EQ(task->examples[0].choices, (std::vector<std::string>{" runs.", " sits.", " flies."}));
  EXPECT_EQ(task->examples[0].label, 2u);
  EXPECT_EQ(task->examples[1].label, 1u);
}

TEST(EvalTask, ReadsWhatPythonWrites) {
  const auto task = ParseEvalTask(
      "\xef\xbb\xbf{\"ctx\":\"half \\ud83d\",\"endings\":[\"a\",\"b\"],\"label\":1,\"score\":NaN,\"limit\":1e400}\r\n");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->examples[0].context, "half \xef\xbf\xbd");
  EXPECT_THAT(std::string(ParseEvalTask("{\"ctx\":\"\",\"endings\":[\"a\",\"b\"],\"label\":NaN}").status().message()),
              HasSubstr("line 1: label must be a whole number"));
}

// S39.
TEST(EvalTask, ReadsNoMoreThanItsLimits) {
  const std::string pair = "{\"sentence_good\":\"C\",\"sentence_bad\":\"D\"}\n";
  const std::string at_most = std::string(kEvalLineBytes + 1 - pair.size(), ' ') + pair;
  EXPECT_TRUE(ParseEvalTask(at_most).ok());
  EXPECT_EQ(ParseEvalTask(pair + " " + at_most).status(),
            absl::InvalidArgumentError("line 2: has 1048577 bytes; at most 1048576 are read"));
  std::string many;
  for (uint64_t i = 0; i <= limits::kEvalExamples; ++i) many += pair;
  const auto task = ParseEvalTask(many + "{}");
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->examples.size(), limits::kEvalExamples + 1);
}

TEST(EvalTask, SaysWhichLineIsWrongAndWhy) {
  const char pair[] = "{\"sentence_good\":\"C\",\"sentence_bad\":\"D\"}\n";
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "contains no example"},
      {"\n \n", "contains no example"},
      {std::string(pair) + "{", "line 2: "},
      {std::string(pair) + "[]", "line 2: "},
      {std::string(pair) + "{\"text\":\"a\"}", "line 2: has neither"},
      {std::string(pair) + "{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":0}", "line 2: has another form"},
      {"{\"sentence_good\":\"C\"}", "sentence_bad"},
      {"{\"sentence_good\":\"C\",\"sentence_bad\":\"\"}", "sentence_bad is empty"},
      {"{\"sentence_good\":\"C\",\"sentence_bad\":3}", "sentence_bad"},
      {"{\"ctx\":\"a\",\"endings\":[\"b\"],\"label\":0}", "at least 2"},
      {"{\"ctx\":\"a\",\"endings\":[\"b\",\"\"],\"label\":0}", "not empty"},
      {"{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":2}", "label is 2, but there are 2 endings"},
      {"{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":\"\"}", "label must be"},
      {"{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"]}", "label"},
      {"{\"endings\":[\"b\",\"c\"],\"label\":0}", "ctx"},
  };
  for (const auto& c : cases) {
    const auto task = ParseEvalTask(c.text);
    ASSERT_FALSE(task.ok()) << c.text;
    EXPECT_EQ(task.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(task.status().message()), HasSubstr(c.message)) << c.text;
  }
}

}  // namespace
}  // namespace atl
