// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/host_port.h"
#include "common/base/names.h"
#include "common/base/secret.h"
#include "common/config/island_environment.h"
#include "common/config/option_table.h"
#include "common/config/options.h"
#include "common/config/subcommand.h"
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
  if (o.join && !o.join_token.empty())
    faults.emplace_back("--join-token and a join string cannot be combined; give one");
  if (!o.join || !o.name.empty()) {
    for (std::string& fault : NameFaults(o.name)) faults.push_back(std::move(fault));
  }
  if (o.download_bytes_per_second != 0 && o.download_bytes_per_second < 1000)
    faults.emplace_back(
        "--download-limit must be at least 1kB, or 0 for no limit: coordinators refuse slower downloads");
  if (o.admin) CheckAdminAddress(o.admin_address, o.admin_token, faults);
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
  if (o.cache_dir.empty())
    o.cache_dir = DefaultCache(o.name.empty() ? absl::StrCat(o.name_stem, "-", o.join->id) : o.name, environment);
  const std::string enrolled = o.cache_dir + "/identity.pem";  // written at enrolment, by this or an earlier start
  if (o.identity.empty() && (o.join || !o.join_token.empty() || access(enrolled.c_str(), F_OK) == 0))
    o.identity = enrolled;
}

constexpr char kWorkerAbout[] =
    "Trains the jobs assigned by the coordinator on this machine.\n\nOther commands: 'atoll-worker join --help' joins "
    "with a join string; 'atoll-worker check' with the\nsame options checks whether this machine can join; "
    "'atoll-worker pause --help' stops the worker of this\nmachine for a while, 'atoll-worker resume' continues it; "
    "'atoll-worker generate --help' prints text from an\nexported checkpoint, 'atoll-worker eval-loss --help' its loss "
    "on a corpus, 'atoll-worker eval --help' its\naccuracy on a task (BLiMP, HellaSwag).";
constexpr char kJoinAbout[] =
    "Joins a coordinator and trains: atoll-worker join STRING [OPTIONS]. STRING is a join string of 'atoll token\n"
    "create', or a file that holds it. The first start enrols this machine; later starts use its identity. Unless\n"
    "--name is given, the name has the host's name and digits of the identity's key. Default of --cache-dir:\n"
    "~/.cache/atoll/HOST-ID with the id of the token, or ~/.cache/atoll/NAME with a name.";
constexpr char kCheckAbout[] =
    "Checks whether this machine can join with these options, without joining: directories, device,\nidentity (with "
    "--join-token it enrols if there is none), reachability, TLS, clocks, bandwidth both ways, and\nfor each job the "
    "memory and bandwidth that it needs. The first argument may be a join string. Exit code 3 if a check has failed.";

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
  AddAdminOptions(table, o.admin_address, o.admin_port, o.admin_token);
  table.Switch("no-admin", o.admin, false, "disable /metrics, /livez and /readyz");
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

// Errors do not repeat the text, which may be a mistyped join string.
absl::StatusOr<JoinToken> ReadJoinString(const std::string& text) {
  if (absl::StartsWith(text, kJoinTokenPrefix)) return ParseJoinToken(text);
  if (access(text.c_str(), R_OK) == 0) return ReadJoinTokenFile(text);
  return absl::InvalidArgumentError(absl::StrCat("the first argument is neither a join string, which begins with ",
                                                 kJoinTokenPrefix, ", nor a readable file that holds one: copy it as ",
                                                 "printed by 'atoll token create'"));
}

// Sets defaults to what the join string holds, if it is the first of the arguments.
absl::Status TakeJoinString(std::vector<std::string>& arguments, WorkerOptions& o) {
  if (arguments.empty() || absl::StartsWith(arguments[0], "-")) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(o.join, ReadJoinString(arguments[0]));
  arguments.erase(arguments.begin());
  o.coordinator = o.join->coordinator;
  o.coordinator_bulk = o.join->bulk;
  o.coordinator_enroll = o.join->enroll;
  absl::string_view named = o.join->name;
  const bool has_name = !named.empty() && !absl::ConsumeSuffix(&named, "*");
  o.name_stem = has_name ? "" : absl::StrCat(named, o.name);
  o.name = has_name ? o.join->name : "";
  return absl::OkStatus();
}

std::optional<WorkerOptions> ParseWorkerRun(const std::string& program, const char* about, const Given& given,
                                            CommandLine& out) {
  WorkerOptions o;
  o.name = NameFromHost(given.host_name);
  std::vector<std::string> arguments = given.arguments;
  if (const absl::Status taken = TakeJoinString(arguments, o); !taken.ok()) {
    Refuse(program, {std::string(taken.message())}, out);
    return std::nullopt;
  }
  const auto check = [&] {
    std::vector<std::string> faults = ReadIslandEnvironment(given.environment, o.island);
    for (std::string& fault : FaultsOf(o)) faults.push_back(std::move(fault));
    return faults;
  };
  if (!WorkerTable(program, about, o).Parse(arguments, given.environment, given.version, out, check)) {
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

void ParseJoin(const Given& given, WorkerCommandLine& out) {
  constexpr char kProgram[] = "atoll-worker join";
  out.run = ParseWorkerRun(kProgram, kJoinAbout, given, out);
  if (!out.run || out.run->join) return;
  out.run.reset();
  Refuse(kProgram, {"the join string is missing; give it, or a file that holds it, as the first argument"}, out);
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

}  // namespace

WorkerCommandLine ParseWorkerOptions(const std::vector<std::string>& arguments, const Environment& environment,
                                     const std::string& version, const std::string& host_name) {
  WorkerCommandLine out;
  const Given given{arguments, environment, version, host_name};
  if (!ParseSubcommand<WorkerCommandLine>("atoll-worker", given,
                                          {{"join", &ParseJoin},
                                           {"check", &ParseCheck},
                                           {"pause", &ParsePause},
                                           {"resume", &ParseResume},
                                           {"generate", &ParseGenerate},
                                           {"eval-loss", &ParseEvalLoss},
                                           {"eval", &ParseEvalTask}},
                                          out)) {
    out.run = ParseWorkerRun("atoll-worker", kWorkerAbout, given, out);
  }
  if (out.run) out.run->island.arguments = arguments;
  return out;
}

}  // namespace atl
