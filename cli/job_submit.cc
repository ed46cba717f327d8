// SPDX-License-Identifier: Apache-2.0
// submit, validate: from a job file to a job.
#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "cli/job/job_file.h"
#include "cli/job_commands.h"
#include "cli/output.h"
#include "cli/stage_files.h"
#include "common/base/utf8.h"
#include "common/plan/limits.h"
#include "common/rpc/rpc_status.h"

namespace atl::cli {
namespace {

constexpr int kSubmitAttempts = 4;
constexpr Duration kSubmitPause = Seconds(1);

struct Input {
  std::string source;     // name in faults
  std::string directory;  // base of relative paths
  std::string text;
};

// Base of the relative paths in `file`: its directory, or the working directory when the name is
// that of an open file, such as `<(command)`.
std::string BaseOf(const std::string& file) {
  std::string directory = DirectoryOf(file);
  const bool is_open =
      file == "/dev/stdin" || directory == "/dev/fd" || (directory.starts_with("/proc/") && directory.ends_with("/fd"));
  return is_open ? "." : directory;
}

absl::StatusOr<Input> ReadInput(Session& session, const std::string& file) {
  if (file != "-") {
    ATOLL_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(session.files, file, limits::kJobFileBytes));
    return Input{.source = file, .directory = BaseOf(file), .text = std::move(text)};
  }
  Input input{.source = "<stdin>", .directory = ".", .text = std::string(limits::kJobFileBytes + 1, '\0')};
  session.in.read(input.text.data(), static_cast<std::streamsize>(input.text.size()));
  input.text.resize(static_cast<size_t>(session.in.gcount()));
  return input;
}

// A missing or unreadable file gets the exit code of its error; one that is too long is no job file, and wrong usage.
int FailInput(Session& session, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return Fail(session, status);
  return FailUsage(session, std::string(status.message()));
}

bool IsUuid(const std::string& text) {
  constexpr size_t kDigits = 36;
  if (text.size() != kDigits) return false;
  for (size_t i = 0; i < kDigits; ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return true;
}

void PrintFaults(Session& session, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) session.talk << fault.ToString() << "\n";
  session.talk << "atoll: the job file has " << faults.size() << (faults.size() == 1 ? " fault" : " faults") << "\n";
}

struct Loaded {
  JobFile file;                    // file references replaced by hashes
  std::string defaulted;           // YAML of the file with every default, and with paths instead of hashes
  std::vector<StagedFile> staged;  // files that the job file names
};

// Finds bytes that are not UTF-8, which would be changed or dropped.
std::vector<Fault> FindWrongBytes(const Input& input, const std::vector<std::string>& sets) {
  const std::string problem = "contains bytes that are not UTF-8; save it as UTF-8";
  std::vector<Fault> faults;
  if (const size_t at = FirstInvalidUtf8(input.text); at < input.text.size()) {
    const std::string before = input.text.substr(0, at);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    faults.push_back(
        {absl::StrCat(input.source, ":", line, ":", at - (before.rfind('\n') + 1) + 1), "", problem});  // npos + 1 is 0
  }
  for (const std::string& set : sets) {
    if (FirstInvalidUtf8(set) < set.size()) faults.push_back({"--set " + Printable(set), "", problem});
  }
  return faults;
}

// A model from a directory has the sizes of its config.json; other sizes would be refused.
void TakeSizes(const v1::JobSpec& staged, v1::JobSpec& written) {
  v1::ModelSpec model = staged.model();
  *model.mutable_init() = written.model().init();
  *written.mutable_model() = std::move(model);
}

// Parses and checks the job file and the files that it names, and prints all faults at once, or the notes if there is
// none. Returns false if there is a fault.
bool Load(Session& session, const Input& input, const std::vector<std::string>& sets, const std::string& name,
          Loaded& out) {
  std::vector<Fault> faults = FindWrongBytes(input, sets);
  if (!faults.empty()) {
    PrintFaults(session, faults);
    return false;
  }
  out.file = ParseJobFile(input.source, input.text, sets, faults);
  if (!name.empty()) {
    out.file.name = name;
    out.file.positions["metadata.name"] = "--name " + name;
  }
  CheckBeside(out.file, faults);
  JobFile written = out.file;
  std::vector<std::string> notes;
  Staged staged = StageFiles(session.files, input.directory, out.file, faults, notes);
  out.staged = std::move(staged.files);
  if (faults.empty()) faults = CheckJobFile(out.file);  // including facts from the files
  if (faults.empty()) faults = CheckCorpora(out.file, staged.manifests);
  if (!faults.empty()) PrintFaults(session, faults);
  if (faults.empty()) {
    if (!written.spec.model().init().directory().empty()) TakeSizes(out.file.spec, written.spec);
    out.defaulted = DefaultedYaml(written);
    for (const std::string& note : notes) session.talk << Printable(note) << "\n";
  }
  return faults.empty();
}

// Prints the coordinator's violations at their positions in the file.
int FailSubmit(Session& session, const JobFile& file, const absl::Status& status) {
  const std::vector<FieldViolation> violations = ViolationsOf(status);
  if (violations.empty()) return Fail(session, status);
  std::vector<Fault> faults;
  for (const FieldViolation& v : violations) {
    const std::string path = v.field.compare(0, 5, "spec.") == 0 ? v.field.substr(5) : v.field;
    faults.push_back({PlaceOf(file, path), path, Printable(v.description)});
  }
  PrintFaults(session, faults);
  return ExitCodeOf(status);
}

// A lost answer does not lose the job: the same request id returns the same job.
absl::StatusOr<v1::SubmitJobResponse> Send(Session& session, const v1::SubmitJobRequest& request) {
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<v1::SubmitJobResponse> response = session.api.SubmitJob(request);
    const bool lost = absl::IsUnavailable(response.status()) || absl::IsDeadlineExceeded(response.status());
    if (!lost || attempt == kSubmitAttempts) return response;
    ATOLL_RETURN_IF_ERROR(PauseBeforeRetry(session, kSubmitPause));
  }
}

// A dry run creates no job to wait for, and with =client there is nothing for a request id to
// protect.
std::string WrongDryRun(const SubmitOptions& options) {
  if (options.dry_run == DryRun::kNone) return "";
  const bool client = options.dry_run == DryRun::kClient;
  if (options.after != AfterSubmit::kDetach) {
    return absl::StrCat(options.after == AfterSubmit::kWait ? "--wait" : "--watch",
                        " cannot be used with --dry-run=", client ? "client" : "server",
                        ", which creates no job; omit one of the two");
  }
  if (!client || options.request_id.empty()) return "";
  return "--request-id cannot be used with --dry-run=client, which does not contact the coordinator; omit one of the "
         "two";
}

// Returns an error message if the command cannot print in the form of -o. --dry-run and --watch allow other forms.
std::string WrongSubmitForm(const Session& session, const SubmitOptions& options) {
  if (options.dry_run == DryRun::kClient && session.format != OutputFormat::kTable)
    return "-o cannot be used with --dry-run=client, which has no result to print; omit it";
  if (options.dry_run == DryRun::kServer) return WrongForm(session, kDocumentForms, "--dry-run=server");
  if (options.after == AfterSubmit::kWatch) return WrongForm(session, kLineForms, "--watch");
  return WrongForm(session, kNamedForms);
}

// In a form for programs, --wait prints the job once, after its end (WaitForJob), and --watch prints it on one line
// now, like the following events.
void PrintSubmitted(Session& session, const v1::SubmitJobResponse& response, const SubmitOptions& options) {
  for (const std::string& note : response.notes()) session.talk << Printable(note) << "\n";
  const v1::Job& job = response.job();
  const bool dry_run = options.dry_run == DryRun::kServer;
  const bool text = session.format == OutputFormat::kTable || session.format == OutputFormat::kWide ||
                    session.format == OutputFormat::kName;
  if (text && dry_run) {
    session.talk << "the coordinator would accept this job: " << CoordinatorShareText(job) << "\n";
  } else if (text) {
    session.out << job.name() << "\n" << std::flush;
  } else if (dry_run || options.after == AfterSubmit::kDetach) {
    PrintMessage(session, job);
  } else if (options.after == AfterSubmit::kWatch) {
    session.out << ToJson(job, true) << std::flush;
  } else {
    session.talk << "waiting for " << job.name() << "\n";
  }
}

}  // namespace

int SubmitJob(Session& session, const SubmitOptions& options) {
  if (const std::string wrong = WrongDryRun(options); !wrong.empty()) return FailUsage(session, wrong);
  if (const std::string wrong = WrongSubmitForm(session, options); !wrong.empty()) return FailUsage(session, wrong);
  if (!options.request_id.empty() && !IsUuid(options.request_id)) {
    return FailUsage(session, absl::StrCat("--request-id is '", Printable(options.request_id.substr(0, 64)),
                                           "'; it must be a UUID: 32 hexadecimal digits in groups of 8-4-4-4-12"));
  }
  const absl::StatusOr<Input> input = ReadInput(session, options.file);
  if (!input.ok()) return FailInput(session, input.status());
  Loaded loaded;
  if (!Load(session, *input, options.sets, options.name, loaded)) return kExitUsage;
  if (options.dry_run == DryRun::kClient) {
    session.talk << "the job file is valid\n";
    return kExitOk;
  }
  if (const absl::Status status = UploadFiles(session, loaded.staged); !status.ok()) return Fail(session, status);

  const JobFile& file = loaded.file;
  v1::SubmitJobRequest request;
  request.set_job_id(file.name);
  *request.mutable_spec() = file.spec;
  request.mutable_labels()->insert(file.labels.begin(), file.labels.end());
  request.set_request_id(options.request_id.empty() ? session.new_request_id()
                                                    : absl::AsciiStrToLower(options.request_id));
  request.set_validate_only(options.dry_run == DryRun::kServer);
  const absl::StatusOr<v1::SubmitJobResponse> response = Send(session, request);
  if (!response.ok()) return FailSubmit(session, file, response.status());
  PrintSubmitted(session, *response, options);
  if (request.validate_only()) return kExitOk;
  switch (options.after) {
    case AfterSubmit::kWait: return WaitForJob(session, response->job().name());
    case AfterSubmit::kWatch: return WatchJob(session, response->job().name());
    case AfterSubmit::kDetach:
      session.talk << "follow it with: atoll watch " << response->job().name().substr(5) << "\n";
      return kExitOk;
  }
  return kExitBug;
}

int ValidateJob(Session& session, const std::string& path, const std::vector<std::string>& sets) {
  const absl::StatusOr<Input> input = ReadInput(session, path);
  if (!input.ok()) return FailInput(session, input.status());
  Loaded loaded;
  if (!Load(session, *input, sets, "", loaded)) return kExitUsage;
  if (session.format == OutputFormat::kYaml) {
    session.out << loaded.defaulted;
  } else if (session.format == OutputFormat::kJson || session.format == OutputFormat::kJsonl) {
    session.out << ToJson(loaded.file.spec, session.format == OutputFormat::kJsonl);
  }
  session.talk << "the job file is valid\n";
  return kExitOk;
}

}  // namespace atl::cli
