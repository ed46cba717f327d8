// SPDX-License-Identifier: Apache-2.0
// Results in the form asked for with -o: tables for people, protobuf JSON and YAML for programs.
#ifndef ATOLL_CLI_OUTPUT_H_
#define ATOLL_CLI_OUTPUT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/job.pb.h"
#include "cli/session.h"

namespace atl::cli {

// By the word of -o; none for any other word.
std::optional<OutputFormat> FormatOf(const std::string& word);
// What commands take: a table or one document; also the names alone; lines as they come.
inline constexpr OutputFormat kDocumentForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl,
                                                  OutputFormat::kYaml};
inline constexpr OutputFormat kNamedForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl,
                                               OutputFormat::kYaml, OutputFormat::kName};
inline constexpr OutputFormat kWideForms[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                              OutputFormat::kJsonl, OutputFormat::kYaml};
inline constexpr OutputFormat kAllForms[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                             OutputFormat::kJsonl, OutputFormat::kYaml, OutputFormat::kName};
inline constexpr OutputFormat kLineForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl};
// "-o is name; this command takes table, json or jsonl" of a format that is not among `forms`; else empty.
std::string WrongForm(const Session& session, std::span<const OutputFormat> forms,
                      const std::string& what = "this command");

// Columns padded to their widest cell, two spaces between, no trailing blanks. Control characters become '?'.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Columns that a terminal gives the text: code points, combining ones not looked at.
size_t DisplayWidth(const std::string& utf8);
// Cut to `width` columns, with an ellipsis when something was cut.
std::string Clip(const std::string& utf8, size_t width);
// Control characters replaced by '?': text from workers must not steer the terminal.
std::string Printable(const std::string& text);

// protobuf's own JSON mapping with the proto's field names; `one_line` for jsonl.
std::string ToJson(const google::protobuf::Message& message, bool one_line);

// Prints a valid JSON text as json, jsonl or yaml, in its order; as json when the format asks for a table or a name.
void PrintJson(Session& session, const std::string& json);

using Fields = std::vector<std::pair<std::string, std::string>>;
// Prints the fields as one json, jsonl or yaml object; false when the format asks for a table or a name.
bool PrintFields(Session& session, const Fields& fields);

// Prints `message` as json, jsonl or yaml; false when the format asks for a table or a name.
bool PrintMessage(Session& session, const google::protobuf::Message& message);

void PrintJobs(Session& session, const v1::ListJobsResponse& jobs);
void PrintJob(Session& session, const v1::Job& job);
void PrintWorkers(Session& session, const v1::ListWorkersResponse& workers);
void PrintCheckpoints(Session& session, const v1::ListCheckpointsResponse& checkpoints);

// "team=a,user=b", sorted; "-" when there are none.
std::string LabelsText(const v1::Job& job);
// ", pool of 4" where experiment.pool lets so many workers take part now; empty without it.
std::string PoolText(const v1::Job& job);
// "running", "succeeded".
std::string StateText(v1::JobState state);
bool IsTerminal(v1::JobState state);

// "1.2k", "34.5M": three digits. "-" for 0 when `dash`.
std::string HumanNumber(double value);
// "3 s", "2 m 5 s", "1 h 4 m", "2 d 3 h".
std::string HumanTime(double seconds);
// "12.3 MB".
std::string HumanSize(double bytes);
// "3.1415", or "-" when there is none.
std::string LossText(double loss);
// "87.5 %" of 0.875.
std::string PercentText(double ratio);

}  // namespace atl::cli

#endif  // ATOLL_CLI_OUTPUT_H_
