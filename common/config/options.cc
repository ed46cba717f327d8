// SPDX-License-Identifier: Apache-2.0
#include "common/config/options.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/host_port.h"
#include "common/base/names.h"
#include "common/base/secret.h"
#include "common/config/island_environment.h"
#include "common/config/nearest_word.h"
#include "common/config/option_table.h"
#include "common/plan/island_limits.h"
#include "common/plan/paced_clock.h"

namespace atl {
namespace {

std::string NameFromHost(const std::string& host) {
  std::string name;
  for (const char c : host.substr(0, host.find('.'))) {
    const bool upper = c >= 'A' && c <= 'Z';
    const char low = upper ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fits = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (fits || !name.empty()) name.push_back(fits ? low : '-');
  }
  name.resize(std::min(name.size(), limits::kNameBytes));
  return name.empty() ? "worker" : name;
}

// 0 if `endpoint` has no port.
uint32_t PortOf(const std::string& endpoint) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  return parsed.ok() ? parsed->port : 0;
}

void AddLogOptions(OptionTable& table, LogOptions& log) {
  table.OneOf("log-level", {"debug", "info", "warning", "error"}, log.minimum,
              "lowest level of log lines written to standard error");
  table.OneOf("log-format", {"text", "json"}, log.json, "format of log lines");
}

void CheckLoopback(const std::string& option, const std::string& host, std::vector<std::string>& faults) {
  if (IsLoopbackHost(host)) return;
  faults.push_back(
      absl::StrCat("--", option, " is '", host, "'; without encryption only loopback is allowed: use 127.0.0.1"));
}

// Requires exactly one of --trust and --insecure: plaintext must be requested by name, and is limited to loopback.
void CheckTrust(const CoordinatorOptions& o, std::vector<std::string>& faults) {
  if (!o.trust_dir.empty()) {
    if (o.insecure) faults.emplace_back("--insecure and --trust cannot be combined; give one");
  } else if (!o.insecure) {
    faults.emplace_back(
        "--trust is missing; give the directory created by 'atoll ca init DIR', or give --insecure for plaintext "
        "without authentication, on loopback only");
  } else if (!IsLoopbackHost(o.listen_address)) {
    faults.push_back(absl::StrCat("--listen is '", o.listen_address,
                                  "'; --insecure allows only loopback: give --trust with the directory created by "
                                  "'atoll ca init', or use 127.0.0.1"));
  }
}

std::vector<std::string> FaultsOf(const CoordinatorOptions& o) {
  std::vector<std::string> faults;
  CheckTrust(o, faults);
  if (o.membership_timeout < Seconds(1) || o.membership_timeout > Seconds(3600)) {
    faults.emplace_back("--membership-timeout must be 1s to 1h");
  }
  if (o.heartbeat_interval < Milliseconds(10) || o.heartbeat_interval * 2 >= o.membership_timeout) {
    faults.emplace_back("--heartbeat-interval must be at least 10ms and below half of --membership-timeout");
  }
  if (o.connections_per_address == 0) faults.emplace_back("--connections-per-address must be 1 to 1024");
  if (o.disk_budget_bytes != 0 && o.disk_budget_bytes < kLeastDiskBudget) {
    faults.emplace_back("--disk-budget must be at least 64MiB, or 0 for the whole disk");
  }
  if (o.control_port != 0 && (o.control_port == o.bulk_port || o.control_port == o.admin_port)) {
    faults.push_back(absl::StrCat("--control-port, --bulk-port, --admin-port and --enroll-port must differ; ",
                                  o.control_port, " is used twice"));
  } else if (o.bulk_port != 0 && o.bulk_port == o.admin_port) {
    faults.push_back(absl::StrCat("--bulk-port and --admin-port must differ; ", o.bulk_port, " is used twice"));
  }
  return faults;
}

std::vector<std::string> NameFaults(const std::string& name) {
  if (IsName(name)) return {};
  return {absl::StrCat("--name is '", name.substr(0, 64), "'; it must be ", kNameRule)};
}

// Appends default ports. Addresses left out become the other ports of the coordinator's host.
std::vector<std::string> CompleteEndpoints(WorkerOptions& o) {
  std::vector<std::string> faults;
  const auto complete = [&](const char* option, std::string& endpoint, uint32_t port) {
    if (port != kControlPort && endpoint.empty()) {
      endpoint = PortAfter(o.coordinator, port - kControlPort);
    } else if (const absl::Status status = CompleteEndpoint(endpoint, port); !status.ok()) {
      faults.push_back(absl::StrCat(option, " ", status.message()));
    }
  };
  complete("--coordinator", o.coordinator, kControlPort);
  complete("--coordinator-bulk", o.coordinator_bulk, kBulkPort);
  complete("--coordinator-enroll", o.coordinator_enroll, kEnrollPort);
  return faults;
}

std::vector<std::string> FaultsOf(WorkerOptions& o) {
  std::vector<std::string> faults = CompleteEndpoints(o);
  if (o.join_token.rfind(kJoinTokenPrefix, 0) == 0) {
    faults.emplace_back(kTokenInPlaceOfItsFile);
  }
  for (std::string& fault : NameFaults(o.name)) faults.push_back(std::move(fault));
  if (o.download_bytes_per_second != 0 && o.download_bytes_per_second < 1000)
    faults.emplace_back(
        "--download-limit must be at least 1kB, or 0 for no limit: coordinators refuse slower downloads");
  if (o.admin) CheckLoopback("admin-address", o.admin_address, faults);
  if (o.island.size == 0) faults.emplace_back("--island-size is 0; 1 is a worker of one process");
  if (o.island.size > 1 && o.synthetic_step_seconds > 0) {
    faults.emplace_back("--synthetic-step-seconds and an island cannot be combined; give one");
  }
  if (o.island.size > 1 && o.evaluate_only) {
    faults.emplace_back("--evaluate-only cannot be used with an island; omit --island-size");
  }
  if (o.drain_timeout > Seconds(3600)) faults.emplace_back("--drain-timeout must be at most 1h");
  return faults;
}

std::string DefaultCache(const std::string& name, const Environment& environment) {
  const auto value = [&](const char* variable) {
    const auto found = environment.find(variable);
    return found == environment.end() ? std::string() : found->second;
  };
  const std::string cache = value("XDG_CACHE_HOME"), home = value("HOME");
  return (!cache.empty() ? cache : !home.empty() ? home + "/.cache" : std::string("/tmp")) + "/atoll/" + name;
}

void FillWorkerDefaults(WorkerOptions& o, const Environment& environment) {
  if (o.cache_dir.empty()) o.cache_dir = DefaultCache(o.name, environment);
  const std::string enrolled = o.cache_dir + "/identity.pem";  // written at enrolment, by this or an earlier start
  if (o.identity.empty() && (!o.join_token.empty() || access(enrolled.c_str(), F_OK) == 0)) o.identity = enrolled;
}

constexpr char kWorkerAbout[] =
    "Trains the jobs assigned by the coordinator on this machine.\n\nOther commands: 'atoll-worker check' with the "
    "same options checks whether this machine can join;\n'atoll-worker pause --help' stops the worker of this machine "
    "for a while, 'atoll-worker resume' continues it;\n'atoll-worker generate --help' prints text from an exported "
    "checkpoint, 'atoll-worker eval-loss --help' its\n"
    "loss on a corpus, 'atoll-worker eval --help' its accuracy on a task (BLiMP, HellaSwag).";
constexpr char kCheckAbout[] =
    "Checks whether this machine can join with these options, without joining: directories, device,\nidentity (with "
    "--join-token it enrols if there is none), reachability, TLS, clocks, bandwidth both ways, and\nfor each job the "
    "memory and bandwidth that it needs. Exit code 3 if a check has failed.";

OptionTable WorkerTable(const std::string& program, const char* about, WorkerOptions& o) {
  OptionTable table(program, about, "ATOLL_WORKER_");
  table.Text("coordinator", o.coordinator, "HOST[:PORT]", "control port of the coordinator");
  table.Text("coordinator-bulk", o.coordinator_bulk, "HOST[:PORT]",
             "bulk port of the coordinator (default: the same host, the next port)");
  table.Text("identity", o.identity, "FILE",
             "this worker's key and certificate, for mutual TLS; renewed automatically (default: identity.pem in the "
             "cache directory if it exists; otherwise plaintext on loopback)");
  table.Text("join-token", o.join_token, "FILE",
             "a join token, used to enrol if there is no identity (default: identity.pem in the cache directory)");
  table.Text("coordinator-enroll", o.coordinator_enroll, "HOST[:PORT]",
             "enrolment port of the coordinator (default: the same host, the control port + 3)");
  table.Text("name", o.name, "NAME", "name of this worker, unique at its coordinator; a-z, 0-9 and -");
  table.Text("data-root", o.data_root, "DIR",
             "directory of corpora on this machine; other corpora are streamed from the coordinator");
  table.Text("cache-dir", o.cache_dir, "DIR", "directory for streamed blocks (default: ~/.cache/atoll/NAME)");
  table.Size("cache-limit", o.cache_bytes, "size limit of the cache; the oldest blocks are removed first");
  table.Number("threads", o.threads, 4096,
               "threads for training, and for synchronisation between training steps; 0: one per core, or as many as a "
               "CPU quota allows");
  table.OneOf("device", {"auto", "cpu", "gpu"}, o.device, "auto: a GPU if there is one");
  table.OneOf("form-on", {"host", "gpu"}, o.form_on,
              "where contributions are encoded: on the host, or by kernels on the GPU, which are first checked against "
              "the host");
  table.OneOf("cuda-graph", {"off", "auto"}, o.cuda_graph,
              "auto: training passes on a GPU run as one CUDA graph, if its results equal those of single launches");
  table.OneOf("pass-kernels", {"off", "auto"}, o.pass_kernels,
              "auto: on a GPU, compute losses, SwiGLU and the rotary embedding with the worker's own kernels, if their "
              "results equal those of LibTorch");
  table.Number("island-size", o.island.size, limits::kIslandRanks,
               "number of processes of this machine that train as one worker; a launcher may start them instead (RANK, "
               "WORLD_SIZE)");
  table.Size("memory-limit", o.memory_limit_bytes, "memory limit; larger models are refused; 0: the device's memory");
  table.Switch("evaluate-only", o.evaluate_only, true, "run evaluations only, never train");
  table.Number("overlap-steps", o.overlap_steps, kLongestPeriodSteps,
               "steps trained between a send and its update, if this worker's link is slower or faster than the job's "
               "sync.overlap_steps assumes; 0: the job's value");
  table.Rate("upload-limit", o.upload_bytes_per_second, "limit on the rate of bulk uploads; 0: none");
  table.Rate("download-limit", o.download_bytes_per_second,
             "limit on the rate of bulk downloads, enforced by the coordinator; 0: none");
  table.Text("admin-address", o.admin_address, "HOST", "address for /metrics, /healthz and /readyz; loopback only");
  table.Number("admin-port", o.admin_port, kHighestPort, "port for /metrics, /healthz and /readyz; 0: any free port");
  table.Switch("no-admin", o.admin, false, "disable /metrics, /healthz and /readyz");
  table.Text("ports-file", o.ports_file, "FILE", "file to write the ports to as JSON, once the admin port is open");
  table.Time("drain-timeout", o.drain_timeout, "grace period after SIGTERM for sending finished contributions");
  table.Time("optimizer-snapshot", o.optimizer_snapshot,
             "how often the state of the inner optimizer is saved in the cache for a restart, besides when the worker "
             "leaves; 0s: never");
  table.Real("synthetic-step-seconds", o.synthetic_step_seconds, 0, 3600,
             "for benchmarks of synchronisation: each step waits this time instead of training, which ruins the job's "
             "model; 0: off");
  AddLogOptions(table, o.log);
  return table;
}

// The input of a daemon's commands.
struct Given {
  const std::vector<std::string>& arguments;  // after the name of the command
  const Environment& environment;
  const std::string& version;
  const std::string& host_name;
};

std::optional<WorkerOptions> ParseWorkerRun(const std::string& program, const char* about, const Given& given,
                                            CommandLine& out) {
  WorkerOptions o;
  o.name = NameFromHost(given.host_name);
  const auto check = [&] {
    std::vector<std::string> faults = ReadIslandEnvironment(given.environment, o.island);
    for (std::string& fault : FaultsOf(o)) faults.push_back(std::move(fault));
    return faults;
  };
  if (!WorkerTable(program, about, o).Parse(given.arguments, given.environment, given.version, out, check)) {
    return std::nullopt;
  }
  FillWorkerDefaults(o, given.environment);
  for (std::string& line : out.resolved) {
    if (line == "cache-dir = (none) (default)") line = "cache-dir = " + o.cache_dir + " (default)";
    if (line == "coordinator-bulk = (none) (default)") line = "coordinator-bulk = " + o.coordinator_bulk + " (default)";
  }
  return o;
}

void ParseCheck(const Given& given, WorkerCommandLine& out) {
  out.check = ParseWorkerRun("atoll-worker check", kCheckAbout, given, out);
}

// Reads --name and --cache-dir as the worker does, from the same environment variables and the same
// file.
void ParseOwnerCommand(bool resume, const Given& given, WorkerCommandLine& out) {
  WorkerOptions worker;
  worker.name = NameFromHost(given.host_name);
  OwnerCommand o;
  o.resume = resume;
  const std::string program = resume ? "atoll-worker resume" : "atoll-worker pause";
  OptionTable table(
      program,
      resume ? "Ends the pause of this machine's worker, which then joins again by itself."
             : "Pauses the worker of this machine: it finishes its step, sends its contributions, leaves\nand waits.",
      "ATOLL_WORKER_");
  table.Text("name", worker.name, "NAME", "name of the worker");
  table.Text("cache-dir", worker.cache_dir, "DIR", "cache directory of the worker (default: ~/.cache/atoll/NAME)");
  OptionTable whole = WorkerTable(program, "", worker);
  table.TakeFileOf(whole);
  if (!resume) table.Time("for", o.length, "length of the pause, such as 30m or 2h; 0s: until 'atoll-worker resume'");
  Environment own;  // without the worker's other variables
  for (const char* name : {"ATOLL_WORKER_NAME", "ATOLL_WORKER_CACHE_DIR", "ATOLL_WORKER_CONFIG"}) {
    if (const auto found = given.environment.find(name); found != given.environment.end()) own.insert(*found);
  }
  if (!table.Parse(given.arguments, own, given.version, out, [&] { return NameFaults(worker.name); })) return;
  o.name = worker.name;
  o.named = o.name != NameFromHost(given.host_name);
  o.cache_dir = worker.cache_dir.empty() ? DefaultCache(o.name, given.environment) : worker.cache_dir;
  out.owner = o;
}
void ParsePause(const Given& given, WorkerCommandLine& out) { ParseOwnerCommand(false, given, out); }
void ParseResume(const Given& given, WorkerCommandLine& out) { ParseOwnerCommand(true, given, out); }

void AddCheckpoint(OptionTable& table, std::string& directory) {
  table.Text("checkpoint", directory, "DIR", "a Hugging Face directory written by 'atoll checkpoint export'",
             "name an exported directory");
}

void ParseGenerate(const Given& given, WorkerCommandLine& out) {
  GenerateCommand o;
  OptionTable table("atoll-worker generate", "Prints text from an exported checkpoint.", "");
  AddCheckpoint(table, o.checkpoint);
  table.Text("prompt", o.prompt, "TEXT", "start of the text");
  table.Number("max-tokens", o.max_tokens, 65536, "number of tokens to print after the prompt");
  table.Real("temperature", o.temperature, 0, 100, "sampling temperature; 0: always the most likely token");
  table.Number("top-k", o.top_k, UINT32_MAX, "sample from the k most likely tokens; 0: from all");
  table.Number64("seed", o.seed, "random seed; the same seed gives the same text");
  table.Number("threads", o.threads, 4096, "number of threads; 0: the library's default");
  if (table.Parse(given.arguments, {}, given.version, out)) out.generate = o;
}

void ParseEvalLoss(const Given& given, WorkerCommandLine& out) {
  EvalLossCommand o;
  OptionTable table("atoll-worker eval-loss", "Prints the loss of an exported checkpoint on a corpus, as JSON.", "");
  AddCheckpoint(table, o.checkpoint);
  table.Text("manifest", o.manifest, "DIR", "directory of the corpus, or its manifest.json",
             "name the manifest.json of a corpus");
  table.OneOf("split", {"held-out", "train"}, o.train_split, "split of the corpus");
  table.Number("sequence-length", o.sequence_length, 1'048'576, "tokens per sample");
  table.Switch("separate-documents", o.separate_documents, true,
               "mask attention between documents, like data.separate_documents of a job");
  table.Number64("max-tokens", o.max_tokens, "largest number of tokens to read; 0: the whole split");
  table.Number("threads", o.threads, 4096, "number of threads; 0: the library's default");
  const auto check = [&o] {
    return o.sequence_length > 0 ? std::vector<std::string>()
                                 : std::vector<std::string>{"--sequence-length is 0; it must be at least 1"};
  };
  if (table.Parse(given.arguments, {}, given.version, out, check)) out.eval_loss = o;
}

void ParseEvalTask(const Given& given, WorkerCommandLine& out) {
  EvalTaskCommand o;
  std::string tasks;
  OptionTable table("atoll-worker eval",
                    "Scores an exported checkpoint on minimal pairs or multiple choice, as JSON lines.", "");
  AddCheckpoint(table, o.checkpoint);
  table.Text("task", tasks, "FILE[,FILE...]",
             "files of examples, one JSON object per line, in the form of BLiMP or HellaSwag");
  table.Number("limit", o.limit, UINT32_MAX, "number of examples from each file; 0: all");
  table.Switch("per-example", o.per_example, true, "print the scores of each example as well");
  table.Number("threads", o.threads, 4096, "number of threads; 0: the library's default");
  const auto check = [&] {
    o.tasks = absl::StrSplit(tasks, ',', absl::SkipEmpty());
    return o.tasks.empty() ? std::vector<std::string>{"--task is missing; name a file of examples"}
                           : std::vector<std::string>();
  };
  if (table.Parse(given.arguments, {}, given.version, out, check)) out.eval_task = o;
}

void ParseAudit(bool replay, const Given& given, CoordinatorCommandLine& out) {
  AuditCommand o;
  o.replay = replay;
  OptionTable table(replay ? "atoll-coordinator replay" : "atoll-coordinator verify",
                    replay ? "Recomputes every stored committed round from its contributions, and compares\nevery bit "
                             "with the published update. The coordinator must not run. Changes nothing."
                           : "Checks the ledger, the round log, snapshots, checkpoints and stored files of a state\n"
                             "directory. The coordinator must not run. Changes nothing.",
                    "");
  table.Text("state", o.state_dir, "DIR", "the coordinator's --state-dir (required)",
             "name the directory with the coordinator's jobs and checkpoints");
  table.OneOf("output", {"text", "json"}, o.json, "format of the report; short: -o");
  std::vector<std::string> flags = given.arguments;
  for (std::string& flag : flags) {
    if (flag == "-o") flag = "--output";
  }
  if (table.Parse(flags, {}, given.version, out)) out.audit = o;
}
void ParseVerify(const Given& given, CoordinatorCommandLine& out) { ParseAudit(false, given, out); }
void ParseReplay(const Given& given, CoordinatorCommandLine& out) { ParseAudit(true, given, out); }

constexpr char kBackupAbout[] =
    "Copies the state directory of a coordinator, which may keep running undisturbed, flushes the copy and\nverifies "
    "it. PATH must not exist. After an interruption the same command resumes.";
constexpr char kRestoreAbout[] =
    "Creates a state directory from a backup, flushes and verifies it. DIR must not exist. Workers with newer\nstate "
    "than the backup start again from the backup. After an interruption the same command goes on where it\n"
    "stopped.";

void ParseBackup(const Given& given, CoordinatorCommandLine& out) {
  BackupCommand o;
  OptionTable table("atoll-coordinator backup", kBackupAbout, "");
  table.Text("state", o.state_dir, "DIR", "the coordinator's --state-dir (required)", "name the directory to copy");
  table.Text("to", o.backup, "PATH", "the directory to create (required)", "name the directory to create");
  if (table.Parse(given.arguments, {}, given.version, out)) out.backup = o;
}

void ParseRestore(const Given& given, CoordinatorCommandLine& out) {
  BackupCommand o;
  o.restore = true;
  OptionTable table("atoll-coordinator restore", kRestoreAbout, "");
  table.Text("state", o.state_dir, "DIR", "the state directory to create (required)", "name the directory to create");
  table.Text("from", o.backup, "PATH", "a directory created by 'atoll-coordinator backup' (required)",
             "name the backup");
  if (table.Parse(given.arguments, {}, given.version, out)) out.backup = o;
}

// Parses the options of the command named by the first argument, and refuses an unknown command. Returns false, and
// parses nothing, if there is no argument or the first one is an option: the line then starts the daemon.
template <typename Line>
bool ParseSubcommand(const std::string& program, const Given& given,
                     const std::map<std::string, void (*)(const Given&, Line&)>& commands, Line& out) {
  if (given.arguments.empty() || absl::StartsWith(given.arguments[0], "-")) return false;
  const std::string& word = given.arguments[0];
  if (const auto found = commands.find(word); found != commands.end()) {
    const std::vector<std::string> rest(given.arguments.begin() + 1, given.arguments.end());
    found->second({rest, given.environment, given.version, given.host_name}, out);
    return true;
  }
  std::vector<std::string> known;
  for (const auto& [name, parse] : commands) known.push_back(name);
  Refuse(program, {absl::StrCat("unknown command '", word.substr(0, 64), "'", DidYouMean(word, known))}, out);
  return true;
}

}  // namespace

std::string PortAfter(const std::string& address, uint32_t by) {
  const uint32_t port = std::min(PortOf(address) + by, kHighestPort);
  return absl::StrCat(WithoutPort(address), ":", port);
}

Environment ReadEnvironment() {
  Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string line(*entry);
    const size_t equals = line.find('=');
    if (equals != std::string::npos && equals != 0) out.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return out;
}

CoordinatorCommandLine ParseCoordinatorOptions(const std::vector<std::string>& arguments,
                                               const Environment& environment, const std::string& version) {
  CoordinatorCommandLine out;
  if (ParseSubcommand<CoordinatorCommandLine>(
          "atoll-coordinator", {arguments, environment, version, ""},
          {{"verify", &ParseVerify}, {"replay", &ParseReplay}, {"backup", &ParseBackup}, {"restore", &ParseRestore}},
          out)) {
    return out;
  }
  CoordinatorOptions o;
  OptionTable table("atoll-coordinator",
                    "Manages the global model, the ledger and the job queue, and serves workers and users.\n\nOther "
                    "commands: 'atoll-coordinator verify --help' checks a state directory, 'atoll-coordinator\n"
                    "replay --help' recomputes its rounds; 'atoll-coordinator backup --help' and 'restore --help'\n"
                    "copy it.",
                    "ATOLL_COORDINATOR_");
  table.Text("state-dir", o.state_dir, "DIR",
             "directory of the ledger, round logs, snapshots and stored files (required)",
             "name the directory with the coordinator's jobs and checkpoints");
  table.Text("trust", o.trust_dir, "DIR",
             "directory created by 'atoll ca init': all connections use mutual TLS (this or --insecure)");
  table.Switch("insecure", o.insecure, true, "plaintext without authentication; loopback only");
  table.Text("listen", o.listen_address, "HOST",
             "address of all ports but the admin port, which stays on loopback; with --insecure loopback only");
  table.Number("control-port", o.control_port, kHighestPort, "port for users and workers; 0: any free port");
  table.Number("bulk-port", o.bulk_port, kHighestPort, "port for bulk connections; 0: any free port");
  table.Number("admin-port", o.admin_port, kHighestPort, "port for /metrics, /healthz and /readyz; 0: any free port");
  table.Number("enroll-port", o.enroll_port, kHighestPort,
               "port for enrolment with join tokens, with --trust; 0: any free port");
  table.Text("ports-file", o.ports_file, "FILE", "file to write the ports to as JSON, once all ports are open");
  table.Text("data-root", o.data_root, "DIR", "directory of corpora that are streamed to workers without a copy");
  table.Number("threads", o.threads, 4096,
               "threads for aggregation; 0: one per core, or as many as a CPU quota allows");
  table.Time("membership-timeout", o.membership_timeout, "time without a heartbeat after which a worker is lost");
  table.Time("heartbeat-interval", o.heartbeat_interval, "interval between a worker's heartbeats");
  table.Number("connections-per-address", o.connections_per_address, 1024,
               "largest number of connections from one address to each port");
  table.Switch(
      "proxied", o.proxied, true,
      "every connection starts with a load balancer's PROXY header (version 1 or 2), which has the client's address");
  table.Size("disk-budget", o.disk_budget_bytes, "disk space that the state directory may use; 0: the whole disk");
  AddLogOptions(table, o.log);
  if (table.Parse(arguments, environment, version, out, [&o] { return FaultsOf(o); })) out.options = o;
  return out;
}

WorkerCommandLine ParseWorkerOptions(const std::vector<std::string>& arguments, const Environment& environment,
                                     const std::string& version, const std::string& host_name) {
  WorkerCommandLine out;
  const Given given{arguments, environment, version, host_name};
  if (!ParseSubcommand<WorkerCommandLine>("atoll-worker", given,
                                          {{"check", &ParseCheck},
                                           {"pause", &ParsePause},
                                           {"resume", &ParseResume},
                                           {"generate", &ParseGenerate},
                                           {"eval-loss", &ParseEvalLoss},
                                           {"eval", &ParseEvalTask}},
                                          out)) {
    out.run = ParseWorkerRun("atoll-worker", kWorkerAbout, given, out);
  }
  return out;
}

}  // namespace atl
