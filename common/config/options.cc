// SPDX-License-Identifier: Apache-2.0
#include "common/config/options.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/config/option_table.h"
#include "common/config/subcommand.h"

namespace atl {
namespace {

// 0 if `endpoint` has no port.
uint32_t PortOf(const std::string& endpoint) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  return parsed.ok() ? parsed->port : 0;
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
  CheckAdminAddress(o.admin_address, o.admin_token, faults);
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

}  // namespace

void AddAdminOptions(OptionTable& table, std::string& address, uint32_t& port, std::string& token) {
  table.Text("admin-address", address, "HOST",
             "address for /metrics, /livez and /readyz, without encryption; beyond loopback only with --admin-token");
  table.Number("admin-port", port, kHighestPort, "port for /metrics, /livez and /readyz; 0: any free port");
  table.Text("admin-token", token, "FILE",
             "file with the token that /metrics demands (Authorization: Bearer); the probes need none");
}

void CheckAdminAddress(const std::string& address, const std::string& token, std::vector<std::string>& faults) {
  if (IsLoopbackHost(address) || !token.empty()) return;
  faults.push_back(
      absl::StrCat("--admin-address is '", address,
                   "': others could read the names of jobs and workers; give --admin-token, or use 127.0.0.1"));
}

void AddLogOptions(OptionTable& table, LogOptions& log) {
  table.OneOf("log-level", {"debug", "info", "warning", "error"}, log.minimum,
              "lowest level of log lines written to standard error");
  table.OneOf("log-format", {"text", "json"}, log.json, "format of log lines");
}

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
             "address of all ports but the admin port; with --insecure loopback only");
  table.Number("control-port", o.control_port, kHighestPort, "port for users and workers; 0: any free port");
  table.Number("bulk-port", o.bulk_port, kHighestPort, "port for bulk connections; 0: any free port");
  AddAdminOptions(table, o.admin_address, o.admin_port, o.admin_token);
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

}  // namespace atl
