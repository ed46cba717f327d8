// SPDX-License-Identifier: Apache-2.0
#include "common/format/eval_task.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/format/json_object.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr size_t kDepth = 16, kChoices = 64;

uint32_t Label(const json::Value& root, json::Reader& reader, size_t choices) {
  uint64_t label = 0;
  if (reader.Has("label") && root["label"].is_string()) {
    if (!absl::SimpleAtoi(reader.String("label"), &label)) reader.Fail("label", "must be the number of an ending");
  } else {
    label = reader.Unsigned("label");
  }
  if (reader.ok() && label >= choices) {
    reader.Fail("label", absl::StrCat("is ", label, ", but there are ", choices, " endings, counted from 0"));
  }
  return static_cast<uint32_t>(label);
}

EvalExample ReadPair(json::Reader& reader) {
  EvalExample out;
  for (const char* key : {"sentence_good", "sentence_bad"}) {
    out.choices.push_back(reader.String(key));
    if (reader.ok() && out.choices.back().empty()) reader.Fail(key, "is empty");
  }
  return out;
}

EvalExample ReadChoice(const json::Value& root, json::Reader& reader) {
  EvalExample out;
  out.context = reader.String("ctx");
  const json::Value& endings = reader.Array("endings", kChoices);
  if (!reader.ok()) return out;
  for (const json::Value& ending : endings) {
    if (!ending.is_string() || ending.get<std::string>().empty()) {
      reader.Fail("endings", "must contain texts that are not empty");
      return out;
    }
    const auto text = ending.get<std::string>();
    out.choices.push_back(text.front() == ' ' ? text : " " + text);
  }
  if (out.choices.size() < 2) reader.Fail("endings", "must contain at least 2");
  out.label = Label(root, reader, out.choices.size());
  return out;
}

absl::Status ReadLine(const std::string& line, EvalTask& task) {
  ATOLL_ASSIGN_OR_RETURN(const json::Value root, json::Parse(line, kDepth));
  absl::Status status;
  json::Reader reader(root, "", status);
  ATOLL_RETURN_IF_ERROR(status);
  const bool pair = reader.Has("sentence_good") || reader.Has("sentence_bad");
  if (!pair && !reader.Has("endings")) {
    return absl::InvalidArgumentError("has neither sentence_good and sentence_bad nor ctx, endings and label");
  }
  const EvalTaskKind kind = pair ? EvalTaskKind::kMinimalPairs : EvalTaskKind::kMultipleChoice;
  if (!task.examples.empty() && kind != task.kind) {
    return absl::InvalidArgumentError("has another form than the previous lines; use a separate file for each form");
  }
  task.kind = kind;
  EvalExample example = pair ? ReadPair(reader) : ReadChoice(root, reader);
  ATOLL_RETURN_IF_ERROR(status);
  task.examples.push_back(std::move(example));
  return absl::OkStatus();
}

}  // namespace

const char* EvalTaskKindName(EvalTaskKind kind) {
  return kind == EvalTaskKind::kMinimalPairs ? "minimal_pairs" : "multiple_choice";
}

double AccuracyOf(uint64_t correct, uint64_t examples) {
  return static_cast<double>(correct) / static_cast<double>(examples);
}

double StandardErrorOf(uint64_t correct, uint64_t examples) {
  const double share = AccuracyOf(correct, examples);
  return std::sqrt(share * (1 - share) / static_cast<double>(examples));
}

std::string EvalTaskName(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.substr(0, file.rfind('.'));
}

absl::StatusOr<EvalTask> ParseEvalTask(const std::string& jsonl) {
  EvalTask task;
  size_t number = 0;
  for (size_t at = 0; at < jsonl.size() && task.examples.size() <= limits::kEvalExamples;) {
    const size_t end = std::min(jsonl.find('\n', at), jsonl.size());
    if (end - at > kEvalLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number + 1, ": has ", end - at, " bytes; at most ", kEvalLineBytes, " are read"));
    }
    const std::string line = jsonl.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (const absl::Status read = ReadLine(line, task); !read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", std::string(read.message())));
    }
  }
  if (task.examples.empty()) return absl::InvalidArgumentError("contains no example");
  return task;
}

}  // namespace atl
