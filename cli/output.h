// SPDX-License-Identifier: Apache-2.0
// Results in the form given with -o: tables for people, protobuf JSON and YAML for programs.
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

// Returns the format named by -o; nullopt for any other word.
std::optional<OutputFormat> FormatOf(const std::string& word);
// Sets of forms that commands support: a table or a document; also names; lines printed one by one.
inline constexpr OutputFormat kDocumentForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl,
                                                  OutputFormat::kYaml};
inline constexpr OutputFormat kNamedForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl,
                                               OutputFormat::kYaml, OutputFormat::kName};
inline constexpr OutputFormat kWideForms[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                              OutputFormat::kJsonl, OutputFormat::kYaml};
inline constexpr OutputFormat kAllForms[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                             OutputFormat::kJsonl, OutputFormat::kYaml, OutputFormat::kName};
inline constexpr OutputFormat kLineForms[] = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonl};
// "-o is name; this command takes table, json or jsonl" for a format that is not in `forms`;
// otherwise empty.
std::string WrongForm(const Session& session, std::span<const OutputFormat> forms,
                      const std::string& what = "this command");

// Columns padded to their widest cell, two spaces between, no trailing blanks. Callers make the cells Printable.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Number of terminal columns of the text: one per code point, also for combining and for wide characters.
size_t DisplayWidth(const std::string& utf8);
// Cuts the text to `width` columns, with an ellipsis if anything was cut.
std::string Clip(const std::string& utf8, size_t width);
// The last part of a resource's name ("jobs/llama"), printable.
std::string ShortName(const std::string& resource);

// protobuf's JSON mapping with the proto's field names; `one_line` for jsonl.
std::string ToJson(const google::protobuf::Message& message, bool one_line);

// Prints a JSON text as json, jsonl or yaml, in its order; as json when the format is a table or a
// name.
void PrintJson(Session& session, const std::string& json);

using Fields = std::vector<std::pair<std::string, std::string>>;
// Prints the fields as one json, jsonl or yaml object; returns false when the format is a table or
// a name.
bool PrintFields(Session& session, const Fields& fields);

// Prints `message` as json, jsonl or yaml; returns false when the format is a table or a name.
bool PrintMessage(Session& session, const google::protobuf::Message& message);

void PrintJobs(Session& session, const v1::ListJobsResponse& jobs);
void PrintJob(Session& session, const v1::Job& job);
void PrintWorkers(Session& session, const v1::ListWorkersResponse& workers);
void PrintCheckpoints(Session& session, const v1::ListCheckpointsResponse& checkpoints);

// "team=a,user=b", sorted; "-" without labels.
std::string LabelsText(const v1::Job& job);
// ", pool of 4" with the number of workers that experiment.pool lets take part now; empty without
// it.
std::string PoolText(const v1::Job& job);
// "running", "succeeded".
std::string StateText(v1::JobState state);
bool IsTerminal(v1::JobState state);

// "1.20k", "34.5M": three digits, or a whole number below 1000. "-" for 0, negative and not finite values.
std::string HumanNumber(double value);
// "3 s", "2 m 5 s", "1 h 4 m", "2 d 3 h".
std::string HumanTime(double seconds);
// "12.3 MB".
std::string HumanSize(double bytes);
// "3.1415", or "-" without a loss.
std::string LossText(double loss);
// "87.5 %" for 0.875.
std::string PercentText(double ratio);

}  // namespace atl::cli

#endif  // ATOLL_CLI_OUTPUT_H_
