// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/job/job_file.h"
#include "cli/job/yaml_message.h"
#include "common/base/utf8.h"

namespace atl::cli {
namespace {

constexpr std::pair<const char*, OutputFormat> kFormats[] = {
    {"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide}, {"json", OutputFormat::kJson},
    {"jsonl", OutputFormat::kJsonl}, {"yaml", OutputFormat::kYaml}, {"name", OutputFormat::kName}};

std::string WordOf(OutputFormat format) {
  for (const auto& [word, known] : kFormats) {
    if (known == format) return word;
  }
  return "";
}

bool StartsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::string AgeText(const Session& session, const google::protobuf::Timestamp& from) {
  if (from.seconds() == 0) return "-";
  const double now = static_cast<double>(session.clock.WallNanos()) * 1e-9;
  return HumanTime(std::max(0.0, now - static_cast<double>(from.seconds())));
}

std::string StepText(const v1::Job& job) {
  return job.stop_step() == 0 ? absl::StrCat(job.step()) : absl::StrCat(job.step(), "/", job.stop_step());
}

// Appends a value after "key:": a scalar on the same line, anything else on separate lines. The first line of a list
// item follows its "-" on the same line.
void AppendYaml(const nlohmann::ordered_json& value, const std::string& indent, std::string& out) {
  if (value.is_object() && !value.empty()) {
    out += "\n";
    for (const auto& [key, item] : value.items()) {
      absl::StrAppend(&out, indent, YamlText(key), ":");
      AppendYaml(item, indent + "  ", out);
    }
  } else if (value.is_array() && !value.empty()) {
    out += "\n";
    for (const auto& item : value) {
      std::string text;
      AppendYaml(item, indent + "  ", text);
      const bool lines = text.front() == '\n';
      absl::StrAppend(&out, indent, "-", lines ? " " + text.substr(1 + indent.size() + 2) : text);
    }
  } else {
    absl::StrAppend(&out, " ", value.is_string() ? YamlText(value.get<std::string>()) : value.dump(), "\n");
  }
}

// A job that has ended waits for no worker.
std::string WorkersText(const v1::Job& job) {
  if (IsTerminal(job.state())) return "-";
  return absl::StrCat(job.workers_alive(), "/", job.workers_training(), "/", job.workers_participating());
}

}  // namespace

std::optional<OutputFormat> FormatOf(const std::string& word) {
  for (const auto& [known, format] : kFormats) {
    if (word == known) return format;
  }
  return std::nullopt;
}

std::string WrongForm(const Session& session, std::span<const OutputFormat> forms, const std::string& what) {
  if (std::find(forms.begin(), forms.end(), session.format) != forms.end()) return "";
  std::vector<std::string> words;
  for (const OutputFormat form : forms) words.push_back(WordOf(form));
  return absl::StrCat("-o is ", WordOf(session.format), "; ", what, " takes ",
                      absl::StrJoin(words.begin(), words.end() - 1, ", "), " or ", words.back());
}

size_t DisplayWidth(const std::string& utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), StartsCodePoint));
}

std::string Clip(const std::string& utf8, size_t width) {
  if (DisplayWidth(utf8) <= width) return utf8;
  if (width == 0) return "";
  size_t columns = 0, end = 0;
  while (end < utf8.size()) {
    if (StartsCodePoint(utf8[end]) && columns++ == width - 1) break;
    ++end;
  }
  return utf8.substr(0, end) + "…";
}

std::string ShortName(const std::string& resource) { return Printable(resource.substr(resource.rfind('/') + 1)); }

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - DisplayWidth(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string ToJson(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !one_line;
  options.preserve_proto_field_names = true;
  std::string out;
  if (!google::protobuf::util::MessageToJsonString(message, &out, options).ok()) return "{}\n";
  if (one_line) out += "\n";
  return out;
}

void PrintJson(Session& session, const std::string& json) {
  const auto value = nlohmann::ordered_json::parse(json);
  if (session.format == OutputFormat::kYaml) {
    std::string out;
    AppendYaml(value, "", out);
    session.out << out.substr(out.find_first_not_of(" \n"));
    return;
  }
  session.out << value.dump(session.format == OutputFormat::kJsonl ? -1 : 2) << "\n";
}

bool PrintFields(Session& session, const Fields& fields) {
  if (session.format != OutputFormat::kJson && session.format != OutputFormat::kJsonl &&
      session.format != OutputFormat::kYaml) {
    return false;
  }
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : fields) object[key] = value;
  PrintJson(session, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return true;
}

bool PrintMessage(Session& session, const google::protobuf::Message& message) {
  switch (session.format) {
    case OutputFormat::kJson: session.out << ToJson(message, false); return true;
    case OutputFormat::kJsonl: session.out << ToJson(message, true); return true;
    case OutputFormat::kYaml: session.out << MessageToYaml(message); return true;
    default: return false;
  }
}

void PrintJobs(Session& session, const v1::ListJobsResponse& jobs) {
  if (session.format == OutputFormat::kJsonl) {
    for (const v1::Job& job : jobs.jobs()) session.out << ToJson(job, true);
    return;
  }
  if (PrintMessage(session, jobs)) return;
  if (session.format == OutputFormat::kName) {
    for (const v1::Job& job : jobs.jobs()) session.out << job.name() << "\n";
    return;
  }
  const bool wide = session.format == OutputFormat::kWide;
  std::vector<std::string> header = {"NAME", "STATE", "STEP", "ROUND", "LOSS", "TOKENS/S", "WORKERS", "AGE"};
  if (wide) header.insert(header.end(), {"PARAMETERS", "TOKENS", "UPLOADED", "DOWNLOADED", "LABELS", "REASON"});
  Table table(header);
  for (const v1::Job& job : jobs.jobs()) {
    std::vector<std::string> row = {ShortName(job.name()), StateText(job.state()),
                                    StepText(job),         absl::StrCat(job.round()),
                                    LossText(job.loss()),  HumanNumber(job.tokens_per_second()),
                                    WorkersText(job),      AgeText(session, job.create_time())};
    if (wide) {
      row.insert(
          row.end(),
          {HumanNumber(static_cast<double>(job.parameters())), HumanNumber(static_cast<double>(job.tokens())),
           HumanSize(static_cast<double>(job.uploaded_bytes())), HumanSize(static_cast<double>(job.downloaded_bytes())),
           LabelsText(job), job.reason().empty() ? "-" : Printable(job.reason())});
    }
    table.Add(std::move(row));
  }
  session.out << table.ToString();
  if (jobs.jobs_size() == 0) session.talk << "no jobs\n";
}

void PrintJob(Session& session, const v1::Job& job) {
  if (session.format == OutputFormat::kYaml) {
    session.out << JobFileYaml(ShortName(job.name()), {job.labels().begin(), job.labels().end()}, job.spec());
    return;
  }
  if (session.format == OutputFormat::kTable || session.format == OutputFormat::kWide) {
    v1::ListJobsResponse one;
    *one.add_jobs() = job;
    PrintJobs(session, one);
    if (!job.reason().empty()) session.out << StateText(job.state()) << ": " << Printable(job.reason()) << "\n";
    return;
  }
  if (session.format == OutputFormat::kName) {
    session.out << job.name() << "\n";
    return;
  }
  PrintMessage(session, job);
}

void PrintWorkers(Session& session, const v1::ListWorkersResponse& workers) {
  if (session.format == OutputFormat::kJsonl) {
    for (const auto& worker : workers.workers()) session.out << ToJson(worker, true);
    return;
  }
  if (PrintMessage(session, workers)) return;
  if (session.format == OutputFormat::kName) {
    for (const auto& worker : workers.workers()) session.out << worker.name() << "\n";
    return;
  }
  const bool wide = session.format == OutputFormat::kWide;
  std::vector<std::string> header = {"NAME",     "STATE", "JOB",       "ACTIVITY", "STEP",
                                     "TOKENS/S", "LOSS",  "HEARTBEAT", "DEVICE"};
  if (wide) header.insert(header.end(), {"COMPUTING", "PLAN", "INCARNATION", "UPLOADED", "DOWNLOADED", "WAITING FOR"});
  Table table(header);
  for (const auto& w : workers.workers()) {
    std::vector<std::string> row = {
        ShortName(w.name()),
        Printable(w.state()),
        w.job().empty() ? "-" : ShortName(w.job()),
        w.activity().empty() ? "-" : Printable(w.activity()),
        absl::StrCat(w.step()),
        HumanNumber(w.tokens_per_second()),
        LossText(w.loss()),
        absl::StrFormat("%.1f s", static_cast<double>(w.heartbeat_age().seconds()) + w.heartbeat_age().nanos() * 1e-9),
        w.device().empty() ? "-" : Printable(w.device())};
    if (wide) {
      row.insert(row.end(), {w.has_compute_utilization_ratio() ? PercentText(w.compute_utilization_ratio()) : "-",
                             w.has_planned_utilization_ratio() ? PercentText(w.planned_utilization_ratio()) : "-",
                             absl::StrCat(w.incarnation()), HumanSize(static_cast<double>(w.uploaded_bytes())),
                             HumanSize(static_cast<double>(w.downloaded_bytes())),
                             w.waiting_for().empty() ? "-" : Printable(w.waiting_for())});
    }
    table.Add(std::move(row));
  }
  session.out << table.ToString();
  for (const auto& w : workers.workers()) {
    const std::string name = ShortName(w.name());
    if (w.state() == "quarantined") {
      session.out << name << ": quarantined, since " << Printable(w.screened())
                  << "; look at its machine, then 'atoll worker readmit " << name << "'\n";
    } else if (!w.screened().empty()) {
      session.out << name << ": " << Printable(w.screened()) << "\n";
    } else if (w.cordoned()) {
      session.out << name << ": cordoned, so it gets no other job; 'atoll worker readmit " << name
                  << "' ends the cordon\n";
    } else if (!wide && (w.job().empty() || w.state() == "silent") && !w.waiting_for().empty()) {
      session.out << name << ": " << Printable(w.waiting_for()) << "\n";
    }
  }
  if (workers.workers_size() == 0) session.talk << "no workers\n";
}

void PrintCheckpoints(Session& session, const v1::ListCheckpointsResponse& checkpoints) {
  if (session.format == OutputFormat::kJsonl) {
    for (const auto& c : checkpoints.checkpoints()) session.out << ToJson(c, true);
    return;
  }
  if (PrintMessage(session, checkpoints)) return;
  if (session.format == OutputFormat::kName) {
    for (const auto& c : checkpoints.checkpoints()) session.out << c.name() << "\n";
    return;
  }
  Table table({"NAME", "STEP", "SIZE", "LOSS", "AGE"});
  for (const auto& c : checkpoints.checkpoints()) {
    table.Add({Printable(c.name()), absl::StrCat(c.step()), HumanSize(static_cast<double>(c.bytes())),
               c.has_evaluation_loss() ? LossText(c.evaluation_loss()) : "-", AgeText(session, c.create_time())});
  }
  session.out << table.ToString();
  if (checkpoints.checkpoints_size() == 0) session.talk << "no checkpoints\n";
}

std::string PoolText(const v1::Job& job) {
  return job.workers_pool() == 0 ? "" : absl::StrCat(", pool of ", job.workers_pool());
}

std::string LabelsText(const v1::Job& job) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : job.labels()) pairs.push_back(Printable(absl::StrCat(key, "=", value)));
  std::sort(pairs.begin(), pairs.end());
  return pairs.empty() ? "-" : absl::StrJoin(pairs, ",");
}

std::string StateText(v1::JobState state) { return ShortEnumName(*v1::JobState_descriptor(), state); }

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

std::string HumanNumber(double value) {
  if (!std::isfinite(value) || value <= 0) return "-";
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 && value == std::floor(value) ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f%s", digits, value, kUnits[unit]);
}

std::string HumanSize(double bytes) {
  if (!(bytes > 0)) return "0 B";
  const std::string number = HumanNumber(bytes);
  const char last = number.back();
  if (last >= '0' && last <= '9') return number + " B";
  return number.substr(0, number.size() - 1) + " " + last + "B";
}

std::string HumanTime(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const int64_t s = std::llround(seconds);
  if (s < 60) return absl::StrCat(s, " s");
  if (s < 3600) return absl::StrCat(s / 60, " m ", s % 60, " s");
  if (s < 86'400) return absl::StrCat(s / 3600, " h ", s / 60 % 60, " m");
  return absl::StrCat(s / 86'400, " d ", s / 3600 % 24, " h");
}

std::string PercentText(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

std::string LossText(double loss) {
  if (loss == 0 || !std::isfinite(loss)) return "-";
  return absl::StrFormat("%.4f", loss);
}

}  // namespace atl::cli
