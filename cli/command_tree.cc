// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>

#include "cli/checkpoint_commands.h"
#include "cli/completion.h"
#include "cli/data_commands.h"
#include "cli/job_commands.h"
#include "cli/linked_libraries.h"
#include "cli/number_options.h"
#include "cli/output.h"
#include "common/base/utf8.h"
#include "common/format/token_shard.h"
#include "common/text/sentencepiece_model.h"
#include "common/text/tokenizer.h"

namespace atl::cli {
namespace {

// Options of a subcommand. Its callback must hold the pointer, because CLI11 writes through it
// while parsing.
template <typename Options>
std::shared_ptr<Options> MakeOptions() {
  return std::make_shared<Options>();
}

void AddSubmit(CLI::App& parent, Command& command) {
  CLI::App& app = *parent.add_subcommand("submit", "upload a job's files and queue the job");
  const auto o = MakeOptions<SubmitOptions>();
  const auto dry_run = std::make_shared<std::string>();
  const auto flags = std::make_shared<std::array<bool, 2>>();
  app.add_option("file", o->file, "job file; - is standard input")->required()->type_name("FILE");
  app.add_option("--set", o->sets, "override one field, such as sync.inner_steps=50")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->take_all();
  app.add_option("--name", o->name, "the job's name, instead of metadata.name")->type_name("NAME");
  app.add_option("--request-id", o->request_id, "UUID; a repeated submission with the same UUID creates no second job")
      ->type_name("UUID");
  app.add_option("--dry-run", *dry_run, "client: check only here; server: let the coordinator check too")
      ->check(CLI::IsMember({"client", "server"}))
      ->type_name("WHERE");
  app.add_flag("--wait", (*flags)[0], "wait until the job has ended");
  app.add_flag("--watch", (*flags)[1], "follow the job until it has ended; without both, submit returns at once")
      ->excludes("--wait");
  app.callback([=, &command] {
    o->dry_run = *dry_run == "client" ? DryRun::kClient : *dry_run == "server" ? DryRun::kServer : DryRun::kNone;
    o->after = (*flags)[0] ? AfterSubmit::kWait : (*flags)[1] ? AfterSubmit::kWatch : AfterSubmit::kDetach;
    command = [o](Session& s) { return SubmitJob(s, *o); };
  });
}

void AddList(CLI::App& parent, Command& command) {
  CLI::App& app = *parent.add_subcommand("list", "list jobs, newest first");
  const auto o = MakeOptions<ListOptions>();
  app.add_option("--state", o->state, "only jobs in this state")->type_name("STATE");
  app.add_option("-l,--label", o->labels, "only jobs with this label")->type_name("KEY=VALUE")->expected(1)->take_all();
  AddWhole(app, "--limit", o->limit, "largest number of results")->type_name("N");
  app.callback([=, &command] { command = [o](Session& s) { return ListJobs(s, *o); }; });
}

// Adds a command with a job as its only argument.
void AddOfJob(CLI::App& parent, const char* name, const char* help, std::span<const OutputFormat> forms,
              int (*run)(Session&, const std::string&), Command& command) {
  CLI::App& app = *parent.add_subcommand(name, help);
  const auto job = MakeOptions<std::string>();
  app.add_option("job", *job, "name of the job")->required()->type_name("JOB");
  app.callback([=, &command] { command = Takes(forms, [=](Session& s) { return run(s, *job); }); });
}

void AddGet(CLI::App& parent, Command& command) {
  AddOfJob(parent, "get", "show a job; -o yaml prints it as a job file", kAllForms, &GetJob, command);
}
void AddWatch(CLI::App& parent, Command& command) {
  AddOfJob(parent, "watch", "follow a job: live in a terminal, otherwise one line per event", kLineForms, &WatchJob,
           command);
}

void AddCancel(CLI::App& parent, Command& command) {
  struct Options {
    std::string job;
    bool drain = false;
    bool now = false;
  };
  CLI::App& app = *parent.add_subcommand("cancel", "end a job before its stop rule");
  const auto o = MakeOptions<Options>();
  app.add_option("job", o->job, "name of the job")->required()->type_name("JOB");
  app.add_flag("--drain", o->drain, "after a closing round, a last evaluation and a checkpoint");
  app.add_flag("--now", o->now, "at once; the newest snapshot is kept (default)")->excludes("--drain");
  app.callback(
      [=, &command] { command = Takes(kNamedForms, [o](Session& s) { return CancelJob(s, o->job, o->drain); }); });
}

void AddLogs(CLI::App& parent, Command& command) {
  CLI::App& app = *parent.add_subcommand("logs", "print the coordinator's log lines about a job or a worker");
  const auto o = MakeOptions<LogsOptions>();
  app.add_option("job", o->job, "name of the job")->required()->type_name("JOB");
  app.add_option("--worker", o->worker, "lines about this worker")->type_name("WORKER");
  AddWhole(app, "--tail", o->tail, "number of newest lines to print first")->type_name("N");
  app.add_flag("-f,--follow", o->follow, "keep printing new lines");
  app.callback([=, &command] { command = Takes(kLineForms, [o](Session& s) { return JobLogs(s, *o); }); });
}

void AddMetrics(CLI::App& parent, Command& command) {
  CLI::App& app = *parent.add_subcommand("metrics", "print curves of a job");
  const auto o = MakeOptions<MetricsOptions>();
  app.add_option("job", o->job, "name of the job")->required()->type_name("JOB");
  app.add_option("--metric", o->metrics, "loss, evaluation_loss, perplexity, tokens_per_second, ...; default: all")
      ->type_name("METRIC")
      ->expected(1)
      ->take_all();
  AddWhole(app, "--since-step", o->since_step, "only points at or after this step")->type_name("STEP");
  app.add_flag("--csv", o->csv, "comma-separated values with a header; not with -o");
  app.callback([=, &command] { command = Takes(kDocumentForms, [o](Session& s) { return JobMetrics(s, *o); }); });
}

void AddUpdateAndRollback(CLI::App& parent, Command& command) {
  CLI::App& update = *parent.add_subcommand("update", "change a running job, effective from its next round");
  const auto options = MakeOptions<UpdateOptions>();
  update.add_option("job", options->job, "name of the job")->required()->type_name("JOB");
  update.add_option("--set", options->sets, "the new value, such as inner_optimizer.learning_rate=1e-4")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->take_all();
  update.add_option("--set-label", options->set_labels, "add a label, or change its value")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  update.add_option("--remove-label", options->remove_labels, "remove a label")
      ->type_name("KEY")
      ->expected(1)
      ->take_all();
  update.add_option("--etag", options->etag, "fail if the job has changed since it had this etag")->type_name("ETAG");
  update.add_flag("--force", options->force, "even if a new stop rule ends the job at once");
  update.callback([=, &command] { command = Takes(kNamedForms, [=](Session& s) { return UpdateJob(s, *options); }); });

  CLI::App& rollback = *parent.add_subcommand("rollback", "roll a paused job back to one of its checkpoints");
  const auto back_job = MakeOptions<std::string>(), to = MakeOptions<std::string>();
  rollback.add_option("job", *back_job, "name of the job")->required()->type_name("JOB");
  rollback.add_option("--to", *to, "step of the checkpoint, its name, or latest")->required()->type_name("CHECKPOINT");
  rollback.callback(
      [=, &command] { command = Takes(kNamedForms, [=](Session& s) { return RollbackJob(s, *back_job, *to); }); });
}

void AddFileCommands(CLI::App& parent, Command& command) {
  CLI::App& validate =
      *parent.add_subcommand("validate", "check a job file without a coordinator; -o yaml prints all defaults");
  const auto file = MakeOptions<std::string>();
  const auto sets = MakeOptions<std::vector<std::string>>();
  validate.add_option("file", *file, "job file; - is standard input")->required()->type_name("FILE");
  validate.add_option("--set", *sets, "override one field")->type_name("PATH=VALUE")->expected(1)->take_all();
  validate.callback(
      [=, &command] { command = Takes(kDocumentForms, [=](Session& s) { return ValidateJob(s, *file, *sets); }); });

  CLI::App& schema = *parent.add_subcommand("schema", "print the JSON Schema of job files, for editors");
  schema.callback([&command] { command = TextOnly(&PrintJobSchema, OutputFormat::kJson); });

  CLI::App& init = *parent.add_subcommand("init", "print a commented job file as a starting point");
  const auto name = std::make_shared<std::string>("tiny-llama");
  init.add_option("--template", *name, "tiny-llama or llama-150m")->type_name("NAME")->capture_default_str();
  init.callback([=, &command] {
    command = TextOnly([=](Session& s) { return PrintJobTemplate(s, *name); }, OutputFormat::kYaml);
  });
}

CLI::App& Group(CLI::App& root, const char* name, const char* help) {
  CLI::App& app = *root.add_subcommand(name, help);
  app.require_subcommand(1);
  return app;
}

void AddExport(CLI::App& parent, Command& command) {
  struct Options {
    ExportOptions exporting;
    std::string format = "hf";
  };
  CLI::App& app = *parent.add_subcommand("export", "write a checkpoint as a Hugging Face directory");
  const auto o = MakeOptions<Options>();
  app.add_option("checkpoint", o->exporting.checkpoint, "JOB (the newest), JOB/STEP or the full name")
      ->required()
      ->type_name("CHECKPOINT");
  app.add_option("directory", o->exporting.directory, "directory that does not exist or is empty")
      ->required()
      ->type_name("DIR");
  app.add_option("--format", o->format, "hf: Hugging Face")
      ->check(CLI::IsMember({"hf"}))
      ->type_name("hf")
      ->capture_default_str();
  app.add_option("--dtype", o->exporting.dtype, "number format of the weights")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->type_name("fp32|fp16|bf16")
      ->capture_default_str();
  app.callback([=, &command] {
    command = Takes(kDocumentForms, [o](Session& s) { return ExportCheckpoint(s, o->exporting); });
  });
}

// Runs a data command in the session's format. Sets `json`, the flag in the command's options, before `run`.
int RunData(Session& session, bool& json, const std::function<absl::Status(std::ostream&)>& run) {
  json = session.format != OutputFormat::kTable;
  std::ostringstream text;
  const absl::Status status = run(json ? text : session.out);
  if (!status.ok()) return Fail(session, status);
  if (json) PrintJson(session, text.str());
  return kExitOk;
}

void AddPrepare(CLI::App& data, Command& command) {
  CLI::App& app = *data.add_subcommand("prepare", "create token shards and a manifest from text");
  const auto o = MakeOptions<DataPrepareOptions>();
  const auto no_eot = MakeOptions<bool>();
  app.add_option("inputs", o->inputs, ".txt and .jsonl files, also .gz or .zst; - for standard input")
      ->required()
      ->type_name("FILE...");
  app.add_option("--out", o->output, "directory of the new corpus")->required()->type_name("DIR");
  app.add_option("--name", o->name, "name of the corpus; default: the directory's name")->type_name("NAME");
  app.add_option("--tokenizer", o->tokenizer, "bytes, or a SentencePiece model file")->type_name("bytes|FILE");
  AddWhole(app, "--train-tokenizer", o->train_tokenizer, "train a SentencePiece model with this vocabulary size",
           kLeastTrainedVocabulary, static_cast<uint32_t>(kSentencePieces))
      ->type_name("VOCAB");
  app.add_option("--format", o->format, "format of inputs without a known file name extension, such as pipes")
      ->check(CLI::IsMember({"auto", "txt", "jsonl"}))
      ->type_name("auto|txt|jsonl")
      ->capture_default_str();
  app.add_option("--field", o->field, "field of .jsonl objects that contains the text; a.b for a nested field")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--skip-bad", o->skip_bad, "skip bad documents and count them");
  app.add_option("--text-split", o->text_split, "unit of a .txt file that becomes one document")
      ->check(CLI::IsMember({"pieces", "file", "paragraphs", "lines"}))
      ->type_name("pieces|file|paragraphs|lines")
      ->capture_default_str();
  app.add_flag("--no-eot", *no_eot, "no end-of-text token after each document");
  AddShare(app, "--held-out", o->held_out, "share of documents kept for evaluation")
      ->type_name("SHARE")
      ->capture_default_str();
  AddWhole(app, "--split-seed", o->split_seed, "seed for the choice of held-out documents")->type_name("N");
  AddWhole(app, "--shard-tokens", o->shard_tokens, "largest number of tokens per shard", 1, kShardTokens)
      ->type_name("N");
  app.add_flag("--force", o->force, "replace an existing corpus in this directory");
  app.add_flag("-q,--quiet", o->quiet, "no progress");
  app.callback([=, &command] {
    o->append_eot = !*no_eot;
    command = Takes(kDocumentForms, [o](Session& s) {
      o->talk_is_terminal = s.terminal.talk;
      return RunData(s, o->json, [&](std::ostream& out) { return RunDataPrepare(*o, s.files, out, s.talk); });
    });
  });
}

// While a corpus is read, an invalid argument means a damaged corpus, not a wrong use of the
// command.
absl::Status OfCorpus(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(std::string(status.message())) : status;
}

void AddInspectAndVerify(CLI::App& data, Command& command) {
  CLI::App& inspect = *data.add_subcommand("inspect", "show the contents of a corpus");
  const auto i = MakeOptions<DataInspectOptions>();
  inspect.add_option("directory", i->directory, "directory of the corpus")->required()->type_name("DIR");
  AddWhole(inspect, "--sample", i->sample_tokens, "number of tokens to show from each split; 0: none")
      ->type_name("N")
      ->capture_default_str();
  inspect.callback([=, &command] {
    command = Takes(kDocumentForms, [i](Session& s) {
      return RunData(s, i->json, [&](std::ostream& out) { return OfCorpus(RunDataInspect(*i, s.files, out, s.talk)); });
    });
  });

  CLI::App& verify = *data.add_subcommand("verify", "check every file and block of a corpus against its manifest");
  const auto v = MakeOptions<DataVerifyOptions>();
  verify.add_option("directory", v->directory, "directory of the corpus")->required()->type_name("DIR");
  verify.add_flag("-q,--quiet", v->quiet, "no progress");
  verify.callback([=, &command] {
    command = Takes(kDocumentForms, [v](Session& s) {
      v->talk_is_terminal = s.terminal.talk;
      return RunData(s, v->json, [&](std::ostream& out) { return OfCorpus(RunDataVerify(*v, s.files, out, s.talk)); });
    });
  });
}

int PrintVersion(Session& session, const std::string& version, bool server) {
  Fields fields = {
      {"version", version}, {"grpc_version", LoadedGrpcVersion()}, {"openssl_version", LoadedOpensslVersion()}};
  const std::string own =
      absl::StrCat("atoll ", version, " (gRPC ", LoadedGrpcVersion(), ", OpenSSL ", LoadedOpensslVersion(), ")\n");
  if (!server) {
    if (!PrintFields(session, fields)) session.out << own;
    return kExitOk;
  }
  const auto info = session.api.GetServerInfo({});
  if (!info.ok()) return Fail(session, info.status());
  fields.insert(fields.end(), {{"coordinator_version", info->version()},
                               {"protocol_revision", absl::StrCat(info->protocol_revision())},
                               {"boot_number", absl::StrCat(info->boot_number())}});
  if (PrintFields(session, fields)) return kExitOk;
  session.out << own;
  session.out << "atoll-coordinator " << Printable(info->version()) << " (protocol " << info->protocol_revision()
              << ", boot " << info->boot_number() << ")\n";
  return kExitOk;
}

}  // namespace

Command TextOnly(Command run, OutputFormat form) {
  return [run = std::move(run), form](Session& session) {
    if (session.format == OutputFormat::kTable || session.format == form) return run(session);
    return FailUsage(session, "-o cannot be used with this command, because its result has only one form; omit it");
  };
}

Command Takes(std::span<const OutputFormat> forms, Command run) {
  return [run = std::move(run), forms](Session& session) {
    const std::string wrong = WrongForm(session, forms);
    return wrong.empty() ? run(session) : FailUsage(session, wrong);
  };
}

void AddJobCommands(CLI::App& root, Command& command) {
  CLI::App& job = Group(root, "job", "submit, follow and control jobs");
  AddSubmit(job, command);
  AddFileCommands(job, command);
  AddList(job, command);
  AddGet(job, command);
  AddOfJob(job, "describe", "show a job with its workers, fragments, evaluations and events", kWideForms, &DescribeJob,
           command);
  AddWatch(job, command);
  AddOfJob(job, "wait", "wait until a job has ended; the exit code shows the outcome", kDocumentForms, &WaitForJob,
           command);
  AddCancel(job, command);
  AddOfJob(job, "purge", "delete an ended job's checkpoints, parameters and round log for good, to free disk space",
           kNamedForms, &PurgeJob, command);
  AddOfJob(job, "pause", "pause a job; its state is kept and its workers become free", kNamedForms, &PauseJob, command);
  AddOfJob(job, "resume", "resume a paused job", kNamedForms, &ResumeJob, command);
  AddUpdateAndRollback(job, command);
  AddLogs(job, command);
  AddMetrics(job, command);
  AddSubmit(root, command);
  AddList(root, command);
  AddGet(root, command);
  AddWatch(root, command);
  AddCancel(root, command);
  AddLogs(root, command);
  AddMetrics(root, command);
}

// Adds a command with a worker as its only argument.
void AddOfWorker(CLI::App& parent, const char* name, const char* help, int (*run)(Session&, const std::string&),
                 Command& command) {
  CLI::App& app = *parent.add_subcommand(name, help);
  const auto worker = MakeOptions<std::string>();
  app.add_option("worker", *worker, "name of the worker")->required()->type_name("WORKER");
  app.callback([=, &command] { command = Takes(kNamedForms, [=](Session& s) { return run(s, *worker); }); });
}

void AddWorkerCommands(CLI::App& root, Command& command) {
  CLI::App& worker = Group(root, "worker", "list and control workers");
  CLI::App& list = *worker.add_subcommand("list", "list workers");
  const auto job = MakeOptions<std::string>();
  const auto all = MakeOptions<bool>();
  list.add_option("--job", *job, "only workers of this job")->type_name("JOB");
  list.add_flag("--all", *all, "include workers that are lost or have left");
  list.callback([=, &command] { command = [=](Session& s) { return ListWorkers(s, *job, *all); }; });
  AddOfWorker(worker, "drain", "ask a worker to finish its step, send its contributions and leave", &DrainWorker,
              command);
  AddOfWorker(worker, "cordon", "give a worker no further jobs; it keeps its present job", &CordonWorker, command);
  AddOfWorker(worker, "evict", "remove a worker from all jobs at once, and refuse it from then on", &EvictWorker,
              command);
  AddOfWorker(worker, "readmit", "end a worker's quarantine, eviction or cordon", &ReadmitWorker, command);
}

void AddCheckpointCommands(CLI::App& root, Command& command) {
  CLI::App& checkpoint = Group(root, "checkpoint", "list, download, export and delete checkpoints");
  AddOfJob(checkpoint, "list", "list the checkpoints of a job, oldest first", kNamedForms, &ListCheckpoints, command);
  CLI::App& download = *checkpoint.add_subcommand("download", "write a checkpoint's fragments as raw fp32");
  const auto which = MakeOptions<std::string>(), directory = MakeOptions<std::string>();
  download.add_option("checkpoint", *which, "JOB (the newest), JOB/STEP or the full name")
      ->required()
      ->type_name("CHECKPOINT");
  download.add_option("directory", *directory, "directory that does not exist or is empty")
      ->required()
      ->type_name("DIR");
  download.callback([=, &command] {
    command = Takes(kDocumentForms, [=](Session& s) { return DownloadCheckpoint(s, *which, *directory); });
  });
  AddExport(checkpoint, command);
  CLI::App& removal = *checkpoint.add_subcommand("delete", "delete a checkpoint, except its job's newest");
  const auto unwanted = MakeOptions<std::string>();
  removal.add_option("checkpoint", *unwanted, "JOB/STEP or the full name")->required()->type_name("CHECKPOINT");
  removal.callback(
      [=, &command] { command = Takes(kDocumentForms, [=](Session& s) { return DeleteCheckpoint(s, *unwanted); }); });
  AddOfJob(root, "checkpoints", "list the checkpoints of a job", kNamedForms, &ListCheckpoints, command);
}

void AddDataCommands(CLI::App& root, Command& command) {
  CLI::App& data = Group(root, "data", "prepare and check corpora");
  AddPrepare(data, command);
  AddInspectAndVerify(data, command);
}

void AddOtherCommands(CLI::App& root, const std::string& version, Command& command) {
  CLI::App& app = *root.add_subcommand("version", "print the version");
  const auto server = std::make_shared<bool>(false);
  app.add_flag("--server", *server, "include the coordinator's version");
  app.callback([=, &command] {
    command = Takes(kDocumentForms, [=](Session& s) { return PrintVersion(s, version, *server); });
  });

  CLI::App& completion = *root.add_subcommand("completion", "print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  completion.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  completion.callback([=, &root, &command] {
    command = TextOnly([=, &root](Session& s) {
      s.out << CompletionScript(root, *shell);
      return static_cast<int>(kExitOk);
    });
  });
}

void BuildCommandTree(CLI::App& root, GlobalOptions& global, const std::string& version, Command& command) {
  root.fallthrough();
  root.add_option("--endpoint", global.endpoint, "the coordinator's control port [$ATOLL_ENDPOINT or 127.0.0.1:7070]")
      ->type_name("HOST[:PORT]");
  root.add_option("--identity", global.identity,
                  "file with your key and certificate [$ATOLL_IDENTITY; if unset: plaintext, loopback only]")
      ->type_name("FILE");
  root.add_option("--passphrase-file", global.passphrase_file,
                  "file with the passphrase of an identity [$ATOLL_PASSPHRASE_FILE; if unset: asked at the terminal]")
      ->type_name("FILE");
  root.add_option("-o,--output", global.output, "output format")->type_name("table|wide|json|jsonl|yaml|name");
  root.add_option("--timeout", global.timeout, "stop after this time with exit code 124, such as 30s or 10m")
      ->type_name("TIME");
  root.add_flag("--no-color", global.no_color, "no colours; the same as NO_COLOR in the environment");
  root.add_flag("--version", global.version, "print the version");
  root.require_subcommand(0, 1);
  AddJobCommands(root, command);
  AddWorkerCommands(root, command);
  AddCheckpointCommands(root, command);
  AddDataCommands(root, command);
  AddPlanCommand(root, command);
  AddCaCommands(root, command);
  AddTokenCommands(root, command);
  AddDoctorCommand(root, version, command);
  AddOtherCommands(root, version, command);
  root.footer(
      "Exit codes: 0 ok, 1 job failed, 2 usage or invalid file, 3 not found or refused, 4 not allowed,\n"
      "5 unreachable, 6 job cancelled, 70 bug, 124 --timeout, 130 interrupted.");
}

}  // namespace atl::cli
