// SPDX-License-Identifier: Apache-2.0
// The configuration of a daemon: flags, environment and an optional file, merged into one validated
// struct. Precedence: flag, then environment (ATOLL_COORDINATOR_STATE_DIR for --state-dir), then
// the file of --config, then the default. Only this room reads the environment. Plain values; no
// thread rule.
#ifndef ATOLL_COMMON_CONFIG_OPTIONS_H_
#define ATOLL_COMMON_CONFIG_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/host_port.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/trust/join_token.h"

namespace atl {

using Environment = std::map<std::string, std::string>;
// The process's environment, read once in main and passed on.
Environment ReadEnvironment();

// The default address of a further port of the coordinator: "host:7071" from "host:7070" and 1. The
// port is at most 65535.
std::string PortAfter(const std::string& address, uint32_t by);

struct CoordinatorOptions {
  std::string state_dir;                     // --state-dir: ledger, round log, snapshots, blobs; required
  std::string listen_address = "127.0.0.1";  // --listen: with --insecure loopback only
  uint32_t control_port = kControlPort;      // --control-port: users and workers; 0: any free port
  uint32_t bulk_port = kBulkPort;            // --bulk-port: the same services, for bulk connections; 0: any free port
  std::string admin_address = "127.0.0.1";   // --admin-address: others than loopback only with admin_token
  uint32_t admin_port = kAdminPort;          // --admin-port: /metrics, /livez, /readyz; 0: any free port
  std::string admin_token;                   // --admin-token: file with the token of its readers; empty: none
  uint32_t enroll_port = kEnrollPort;  // --enroll-port: enrolment with join tokens, with --trust; 0: any free port
  std::string trust_dir;               // --trust: an authority made by `atoll ca init`; empty: `insecure`
  bool insecure = false;               // --insecure: plaintext on loopback; exactly one of this and --trust
  std::string ports_file;              // --ports-file: written once all ports are open, as JSON; empty: none
  std::string data_root;               // --data-root: corpora that workers stream from here; empty: none
  uint32_t threads = 0;                // --threads for aggregation; 0: one per core, or as many as a CPU quota allows
  Duration membership_timeout = limits::kMembershipTimeout;  // --membership-timeout
  Duration heartbeat_interval = limits::kHeartbeatInterval;  // --heartbeat-interval, below half of the timeout
  uint32_t connections_per_address = 512;                    // --connections-per-address, for each port
  bool proxied = false;  // --proxied: each connection starts with a load balancer's PROXY header
  uint64_t disk_budget_bytes =
      0;           // --disk-budget for the state directory, at least kLeastDiskBudget; 0: the whole disk
  LogOptions log;  // --log-level, --log-format
};
constexpr uint64_t kLeastDiskBudget = uint64_t{64} << 20;

enum class DeviceChoice { kAuto, kCpu, kGpu };
enum class FormChoice { kHost, kGpu };
enum class GraphChoice { kOff, kAuto };
enum class PassKernelChoice { kOff, kAuto };

// The processes of one worker. torchrun and other launchers set RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT, and the daemon sets them for the followers that it starts.
struct IslandOptions {
  uint32_t size = 1;                   // --island-size, or WORLD_SIZE
  bool launched = false;               // a launcher has set the variables and starts the other ranks
  uint32_t rank = 0;                   // RANK; rank 0 is the leader and the daemon
  uint32_t ranks_here = 1;             // ranks on this machine: LOCAL_WORLD_SIZE, or all ranks if it is not set
  uint32_t rank_here = 0;              // LOCAL_RANK; if it is not set, RANK modulo ranks_here
  std::string address = "127.0.0.1";   // MASTER_ADDR: where rank 0 listens
  uint32_t port = 0;                   // MASTER_PORT, or the next port under torchrun; 0: any free port
  std::string secret;                  // ATOLL_ISLAND_SECRET; empty: generated
  std::vector<std::string> arguments;  // of the program, for the ranks that the leader starts
};

struct WorkerOptions {
  std::string coordinator = "127.0.0.1:7070";  // --coordinator HOST[:PORT]
  std::string coordinator_bulk;                // --coordinator-bulk; empty: the coordinator's host, its port + 1
  std::string coordinator_enroll;              // --coordinator-enroll; empty: the coordinator's host, its port + 3
  std::string identity;                        // --identity FILE: key and certificate; empty: plaintext, loopback only
  std::string join_token;                      // --join-token FILE: used to enrol if no identity exists
  std::optional<JoinToken> join;               // of `atoll-worker join`: used as join_token is
  std::string name;                            // --name, [a-z0-9-]{1,63}; default: the host's name
  std::string name_stem;                       // of `join` without a name: joining.h completes it
  std::string data_root;                       // --data-root: local corpora; empty: blocks are streamed
  std::string cache_dir;                       // --cache-dir; default: atoll/NAME in $XDG_CACHE_HOME or ~/.cache
  uint64_t cache_bytes = uint64_t{4} << 30;    // --cache-limit: the oldest blocks are dropped above it
  uint32_t threads = 0;                        // --threads for training; 0: one per core
  DeviceChoice device = DeviceChoice::kAuto;   // --device auto|cpu|gpu
  FormChoice form_on = FormChoice::kHost;      // --form-on host|gpu: where contributions are encoded
  GraphChoice cuda_graph = GraphChoice::kOff;  // --cuda-graph off|auto: passes are captured as CUDA graphs and replayed
  // --pass-kernels off|auto: Atoll's own kernels for the operations between matrix products
  PassKernelChoice pass_kernels = PassKernelChoice::kOff;
  uint64_t memory_limit_bytes = 0;             // --memory-limit: larger models are refused; 0: the device's memory
  bool evaluate_only = false;                  // --evaluate-only
  uint32_t overlap_steps = 0;                  // --overlap-steps of this worker; 0: the job's value
  uint64_t upload_bytes_per_second = 0;        // --upload-limit; 0: none
  uint64_t download_bytes_per_second = 0;      // --download-limit; 0: none
  std::string admin_address = "127.0.0.1";     // --admin-address: others than loopback only with admin_token
  uint32_t admin_port = 0;                     // --admin-port: /metrics, /livez, /readyz; 0: any free port
  std::string admin_token;                     // --admin-token: file with the token of its readers; empty: none
  bool admin = true;                           // --no-admin: without this endpoint
  std::string ports_file;                      // --ports-file: written once the admin port is open; empty: none
  Duration drain_timeout = Seconds(30);        // --drain-timeout: grace period after SIGTERM
  Duration optimizer_snapshot = Seconds(600);  // --optimizer-snapshot: shortest time between two; zero: none
  IslandOptions island;
  double synthetic_step_seconds = 0;  // --synthetic-step-seconds: for benchmarks, nothing is trained; 0: off
  LogOptions log;                     // --log-level, --log-format
};

// `atoll-worker generate`: prints text from an exported checkpoint.
struct GenerateCommand {
  std::string checkpoint;     // --checkpoint DIR: a Hugging Face directory; required
  std::string prompt;         // --prompt TEXT
  uint32_t max_tokens = 200;  // --max-tokens, at most 65,536
  double temperature = 0.8;   // --temperature; 0: always the most likely token
  uint32_t top_k = 50;        // --top-k; 0: all
  uint64_t seed = 0;          // --seed
  uint32_t threads = 0;       // --threads; 0: the library's default
};

// `atoll-worker eval-loss`: the loss of an exported checkpoint on a corpus.
struct EvalLossCommand {
  std::string checkpoint;           // --checkpoint DIR; required
  std::string manifest;             // --manifest: directory of the corpus, or its manifest.json; required
  bool train_split = false;         // --split train|held-out
  uint32_t sequence_length = 256;   // --sequence-length
  bool separate_documents = false;  // --separate-documents
  uint64_t max_tokens = 65536;      // --max-tokens; 0: the whole split
  uint32_t threads = 0;             // --threads
};

// `atoll-worker eval`: the share of a task's examples that an exported checkpoint answers
// correctly.
struct EvalTaskCommand {
  std::string checkpoint;          // --checkpoint DIR; required
  std::vector<std::string> tasks;  // --task FILE[,FILE...]; required
  uint32_t limit = 0;              // --limit; 0: all examples
  bool per_example = false;        // --per-example
  uint32_t threads = 0;            // --threads
};

// `atoll-coordinator verify` and `atoll-coordinator replay`: an audit of a state directory.
struct AuditCommand {
  bool replay = false;    // recompute the rounds; otherwise check hashes
  std::string state_dir;  // --state DIR; required
  bool json = false;      // -o, --output text|json
};

// `atoll-coordinator backup` and `atoll-coordinator restore`: copies a state directory to a backup,
// or a backup to a state directory.
struct BackupCommand {
  bool restore = false;   // from a backup to a state directory; otherwise to a backup
  std::string state_dir;  // --state DIR; required
  std::string backup;     // --to PATH, or --from PATH of restore; required
};

// `atoll-worker pause` and `atoll-worker resume`: the owner of a machine stops training on it for a
// while.
struct OwnerCommand {
  bool resume = false;
  std::string name;       // --name of the worker
  bool named = false;     // `name` differs from the one that is derived from the host's name
  std::string cache_dir;  // --cache-dir of the worker
  Duration length{};      // --for; 0: until `resume`
};

// What main does next. Without a command, main prints `text` and exits: to standard output if
// exit_code is 0 (--help or --version), otherwise to standard error.
struct CommandLine {
  std::vector<std::string> resolved;  // "state-dir = /srv/atoll (flag)": one line per option, logged at start
  std::string text;
  int exit_code = 0;  // 2: usage
};

struct CoordinatorCommandLine : CommandLine {
  std::optional<CoordinatorOptions> options;  // at most one of these three
  std::optional<AuditCommand> audit;
  std::optional<BackupCommand> backup;
};

struct WorkerCommandLine : CommandLine {
  std::optional<WorkerOptions> run;    // at most one of these six; also `atoll-worker join`
  std::optional<WorkerOptions> check;  // `atoll-worker check`: the options to join with
  std::optional<GenerateCommand> generate;
  std::optional<EvalLossCommand> eval_loss;
  std::optional<EvalTaskCommand> eval_task;
  std::optional<OwnerCommand> owner;
};

// `arguments` are without the program's name. Reads only the file that --config or its environment variable names.
CoordinatorCommandLine ParseCoordinatorOptions(const std::vector<std::string>& arguments,
                                               const Environment& environment, const std::string& version);
// `host_name`, changed to a valid name, is the default of --name; empty if unknown.
WorkerCommandLine ParseWorkerOptions(const std::vector<std::string>& arguments, const Environment& environment,
                                     const std::string& version, const std::string& host_name);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_OPTIONS_H_
