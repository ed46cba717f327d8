// SPDX-License-Identifier: Apache-2.0
// atoll-coordinator: the composition root. Builds all parts, runs the engine, stops in reverse order.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/advice.h"
#include "common/base/executor.h"
#include "common/base/files.h"
#include "common/base/host_cores.h"
#include "common/base/host_memory.h"
#include "common/base/host_port.h"
#include "common/base/log.h"
#include "common/base/output_buffer.h"
#include "common/base/private_memory.h"
#include "common/base/process.h"
#include "common/base/queued_writer.h"
#include "common/base/service_manager.h"
#include "common/base/stop_wait.h"
#include "common/base/system_random.h"
#include "common/base/wall_time.h"
#include "common/config/environment.h"
#include "common/config/options.h"
#include "common/guard/guard.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/channel.h"
#include "common/rpc/control_stream.h"
#include "common/rpc/enroll_server.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_log.h"
#include "common/telemetry/event_log.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/queued_event_log.h"
#include "common/trust/handshake.h"
#include "coordinator/audit/audit_command.h"
#include "coordinator/backup/backup_command.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/engine/engine.h"
#include "coordinator/engine/last_snapshots.h"
#include "coordinator/service/api_service.h"
#include "coordinator/service/bulk_sessions.h"
#include "coordinator/service/call_guard.h"
#include "coordinator/service/control_sessions.h"
#include "coordinator/service/executors.h"
#include "coordinator/service/job_api.h"
#include "coordinator/service/own_trust.h"
#include "coordinator/service/ports.h"
#include "coordinator/service/vitals.h"
#include "coordinator/store/background_free.h"
#include "coordinator/store/disk_budget.h"
#include "coordinator/store/flush_watch.h"
#include "coordinator/store/opening_checks.h"
#include "coordinator/store/purged_files.h"
#include "coordinator/store/rounds_at_start.h"
#include "coordinator/store/sqlite_ledger.h"
#include "coordinator/web/web_server.h"

namespace atl {
namespace {

constexpr char kVersion[] = ATOLL_VERSION;

// Exit codes beyond those of the command line (docs/formats/exit-codes.md).
constexpr int kExitOk = 0;
constexpr int kExitStart = 1;     // could not start: port in use, state directory locked or damaged
constexpr int kExitStorage = 74;  // the disk can no longer be written; nothing acknowledged is lost

// An enrolment request is a few kilobytes and is answered at once.
constexpr guard::ConnectionLimits kEnrollConnections = {
    .connections = 256, .per_address = 128, .without_call = Seconds(10)};

constexpr Duration kDiskCheckInterval = Seconds(5);
constexpr Duration kShutdownLimit = Seconds(2);
constexpr Duration kStoppingAtMost = Seconds(60);  // the time that each message asks of the service manager
constexpr Duration kSameSignal = Seconds(5);       // a second signal within this time may be a copy of the first

// Runs verify, replay, backup or restore; no value for any other command line.
std::optional<int> RunOnState(const CoordinatorCommandLine& line, std::ostream& out) {
  if (line.audit) return audit::RunAudit({line.audit->replay, line.audit->state_dir, line.audit->json}, out, std::cerr);
  if (!line.backup) return std::nullopt;
  const int64_t now_s = WallSeconds(SystemClock());
  return backup::RunBackup({line.backup->restore, line.backup->state_dir, line.backup->backup, now_s}, out, std::cerr);
}

// Runs a command that ends by itself; no value if the coordinator is to serve.
std::optional<int> RunCommand(const CoordinatorCommandLine& line) {
  if (line.options.has_value()) return std::nullopt;
  UnblockStopSignals();
  OutputBuffer buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  const std::optional<int> ended = RunOnState(line, out);
  if (!ended) (line.exit_code == 0 ? out : std::cerr) << line.text;
  return FinishOutput(out, std::cerr, "atoll-coordinator", ended.value_or(line.exit_code), kExitStorage);
}

int Fail(const absl::Status& status) {
  std::cerr << absl::StrCat("atoll-coordinator: ", WithAdvice(status.message()), "\n");
  return kExitStart;
}

// Everything of one running coordinator, in the order of construction.
class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, ServiceManager manager)
      : options_(options), manager_(std::move(manager)), log_(options.log), directory_(options.state_dir) {}

  absl::Status Start();
  void WaitForSignal();
  void Close();  // stops the parts that serve and decide
  // For a coordinator that has started: writes the snapshots that spare the next start a
  // recomputation, until a second stop signal asks for haste (MeansHaste).
  void SaveAll();
  void Stop();  // stops the rest; called after Close
  Log& log() { return log_; }

 private:
  std::unique_ptr<Files> OpenFiles();
  absl::Status OpenState();
  std::string OwnIdentityPath() const;
  absl::StatusOr<ServerSecurity> OpenTrust();
  absl::Status OpenEnrollPort();
  absl::Status OpenPorts();
  absl::StatusOr<std::unique_ptr<Server>> Listen(const char* option, uint32_t port, const ServerSecurity& security,
                                                 const std::vector<grpc::Service*>& services) const;
  absl::Status WritePortsFile();
  void WatchDiskAndCertificate(std::stop_token stop);
  void Opened(const std::string& port, guard::Guard& door);
  // Logs the error, if there is one, of a message to the service manager.
  void Tell(const absl::Status& told) {
    if (!told.ok()) log_.Warn("service manager", {{"reason", std::string(told.message())}});
  }
  CoordinatorCapacity Capacity() const;
  std::function<CorpusCopy(const CorpusManifest&, const Sha256&)> CorpusCopies() const;
  [[noreturn]] void Die(const absl::Status& status);

  const CoordinatorOptions options_;
  const uint64_t port_quota_bytes_ = PortQuotaBytes(MemoryLimitBytes());
  const ServiceManager manager_;
  SystemClock clock_;
  Instant signalled_{};
  Log log_;
  DataDirectory directory_;
  FlushWatch flushes_{clock_, log_};
  ThreadExecutor freeing_{1};
  std::unique_ptr<Files> files_ = OpenFiles();
  Metrics metrics_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<RoundLog> rounds_;
  std::unique_ptr<SnapshotStore> snapshots_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<EventLog> events_;
  RecoveredState recovered_;
  std::vector<TokenRecord> tokens_;  // as read from the ledger at start
  std::vector<RevocationRecord> revocations_;
  RoundsAtStart rounds_found_;
  std::unique_ptr<DataPlane> data_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<JobApi> api_;
  std::unique_ptr<ControlSessions> controls_;
  std::unique_ptr<BulkSessions> bulk_;
  AuditTrail trail_{log_, clock_};
  CallGuard guard_{trail_, clock_};
  Ports ports_{log_};
  Vitals vitals_{{[this](std::function<void()> answer) { engine_->Probe(std::move(answer)); }, ports_, manager_, log_}};
  std::unique_ptr<OwnTrust> own_trust_;     // with --trust
  std::unique_ptr<Enrollment> enrollment_;  // with --trust
  std::vector<std::unique_ptr<grpc::Service>> services_;
  // Executors end before the objects that their jobs use, so they are declared after these objects.
  std::unique_ptr<Executors> executors_;
  std::unique_ptr<Server> control_server_, bulk_server_;
  std::unique_ptr<guard::Guard> enroll_door_;
  std::unique_ptr<HttpServer> web_;
  std::jthread flushes_thread_, engine_thread_, disk_thread_, vitals_thread_;
};

void Coordinator::Die(const absl::Status& status) {
  log_.Error("stopping at once", {{"reason", std::string(status.message())}});
  (void)StandardError().WriteLast(
      absl::StrCat("atoll-coordinator: ", status.message(),
                   "; acknowledged data is on disk: fix the cause and start the coordinator again\n"));
  std::_Exit(kExitStorage);
}

std::unique_ptr<Files> Coordinator::OpenFiles() {
  std::unique_ptr<Files> files = WithFlushWatch(FreeInBackground(MakePosixFiles(), freeing_), flushes_);
  if (options_.disk_budget_bytes == 0) return files;
  return WithDiskBudget(std::move(files), directory_.root(), options_.disk_budget_bytes);
}

absl::Status Coordinator::OpenState() {
  ATOLL_RETURN_IF_ERROR(backup::CheckIsNoBackup(options_.state_dir));
  ATOLL_ASSIGN_OR_RETURN(lock_, LockDirectory(directory_));
  ATOLL_RETURN_IF_ERROR(CheckLedgerExists(*files_, directory_));
  ATOLL_RETURN_IF_ERROR(CheckHardLinks(*files_, directory_));
  ATOLL_RETURN_IF_ERROR(CheckWritable(*files_, directory_));
  ATOLL_RETURN_IF_ERROR(SyncNames(*files_, directory_));
  ATOLL_ASSIGN_OR_RETURN(ledger_, OpenSqliteLedger(directory_.LedgerPath()));
  ledger_ = WithFlushWatch(std::move(ledger_), directory_.LedgerPath(), flushes_);
  ATOLL_ASSIGN_OR_RETURN(recovered_, ledger_->Recover());
  ATOLL_RETURN_IF_ERROR(CheckJobFiles(*files_, directory_, recovered_, log_));
  ATOLL_ASSIGN_OR_RETURN(tokens_, ledger_->Tokens());
  ATOLL_ASSIGN_OR_RETURN(revocations_, ledger_->Revocations());
  rounds_ = std::make_unique<RoundLog>(*files_, directory_, recovered_.boot, SystemRandomBits());
  snapshots_ = std::make_unique<SnapshotStore>(*files_, directory_, recovered_.boot);
  if (const absl::Status dropped = DropStaleParts(directory_); !dropped.ok())
    log_.Warn("abandoned uploads not removed", {{"reason", std::string(dropped.message())}});
  DropFilesOfPurgedJobs(*files_, directory_, recovered_, log_);
  blobs_ = std::make_unique<BlobStore>(*files_, directory_);
  ATOLL_ASSIGN_OR_RETURN(events_, EventLog::Open(*files_, {.directory = directory_.EventsDirectory()}));
  ATOLL_ASSIGN_OR_RETURN(rounds_found_, ReadRoundsAtStart(*rounds_, *files_, directory_, *ledger_, recovered_));
  for (const auto& [job, why] : rounds_found_.unusable)
    log_.Error("job stopped", {{"job", job.value}, {"reason", why}});
  for (const DamagedRound& round : rounds_found_.cut)
    log_.Warn("round log cut", {{"job", round.job.value}, {"reason", round.what}});
  for (const DamagedRound& round : rounds_found_.damaged)
    log_.Error("a committed round is damaged", {{"job", round.job.value}, {"reason", round.what}});
  return absl::OkStatus();
}

std::string Coordinator::OwnIdentityPath() const { return JoinPath(options_.state_dir, "coordinator.pem"); }

absl::StatusOr<ServerSecurity> Coordinator::OpenTrust() {
  if (options_.insecure) return ServerSecurity::PlaintextLoopback();
  ATOLL_ASSIGN_OR_RETURN(own_trust_, OwnTrust::Open({options_.trust_dir, OwnIdentityPath()}, clock_, log_));
  enrollment_ = std::make_unique<Enrollment>(EnrollmentParts{
      [this] { return own_trust_->authority(); }, *ledger_, executors_->ledger, clock_, trail_, guard_,
      [this] { ports_.EndRevoked(guard_, *engine_); }, [this](const absl::Status& status) { Die(status); }});
  enrollment_->Load(tokens_, revocations_);
  return MutualTls(OwnIdentityPath(), clock_, [this](const std::string& method, const CertificateFacts& caller) {
    return guard_.Check(method, caller);
  });
}

// Clients without a certificate connect to this port: one bounded HTTPS request each, and no gRPC.
absl::Status Coordinator::OpenEnrollPort() {
  if (!enrollment_) return absl::OkStatus();
  ATOLL_ASSIGN_OR_RETURN(std::shared_ptr<guard::TlsServer> tls, ServerOnlyTls(OwnIdentityPath(), WallSeconds(clock_)));
  const std::string address = absl::StrCat(options_.listen_address, ":", options_.enroll_port);
  auto door = guard::Guard::Listen({.address = address,
                                    .connections = Fitting(kEnrollConnections),
                                    .tls = std::move(tls),
                                    .proxied = options_.proxied});
  if (!door.ok()) return Annotate(ListenError(address, door.status()), "--enroll-port");
  ATOLL_RETURN_IF_ERROR((*door)->Answer(
      MakeEnrollHandler([this](const v1::EnrollRequest& request, const std::string& caller, EnrollAnswer answer) {
        enrollment_->Enroll(request, caller, std::move(answer));
      })));
  enroll_door_ = *std::move(door);
  Opened("enroll", *enroll_door_);
  return absl::OkStatus();
}

absl::Status Coordinator::OpenPorts() {
  ATOLL_ASSIGN_OR_RETURN(const ServerSecurity security, OpenTrust());
  services_.push_back(MakeJobService(*api_, guard_));
  services_.push_back(MakeAdminService(*api_, enrollment_.get(), guard_));
  services_.push_back(MakeControlService([this](std::unique_ptr<CoordinatorEnd> stream, std::string peer) {
    controls_->Accept(std::move(stream), std::move(peer));
  }));
  // The command line transfers files over the control port; workers use a separate bulk connection.
  services_.push_back(MakeBulkService(*bulk_, executors_->reads, clock_, {.reads_at_once = Executors::kReadThreads}));
  std::vector<grpc::Service*> control_services;
  for (const auto& service : services_) control_services.push_back(service.get());
  services_.push_back(MakeBulkService(*bulk_, executors_->reads, clock_, {.reads_at_once = Executors::kReadThreads}));
  const std::vector<grpc::Service*> bulk_services = {services_.back().get()};
  ATOLL_ASSIGN_OR_RETURN(control_server_, Listen("--control-port", options_.control_port, security, control_services));
  Opened("control", control_server_->door());
  ATOLL_ASSIGN_OR_RETURN(bulk_server_, Listen("--bulk-port", options_.bulk_port, security, bulk_services));
  Opened("bulk", bulk_server_->door());
  ATOLL_RETURN_IF_ERROR(OpenEnrollPort());
  WebHandlers handlers;
  handlers.probes.healthy = [this] { return vitals_.Healthy(); };
  handlers.probes.ready = [this] { return vitals_.EngineAnswers(); };
  handlers.refresh = [this] { metrics_.Set(Metric::kFlushUnderWay, ToSeconds(flushes_.Oldest())); };
  ATOLL_ASSIGN_OR_RETURN(const HttpServerOptions admin, AdminServerOptions(*files_, options_.admin_address,
                                                                           options_.admin_port, options_.admin_token));
  ATOLL_ASSIGN_OR_RETURN(web_, StartWebServer(admin, metrics_, std::move(handlers)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Coordinator::Listen(const char* option, uint32_t port,
                                                            const ServerSecurity& security,
                                                            const std::vector<grpc::Service*>& services) const {
  const std::string address = absl::StrCat(options_.listen_address, ":", port);
  const ServerOptions server_options{.address = address,
                                     .quota_bytes = port_quota_bytes_,
                                     .connections = {.per_address = options_.connections_per_address},
                                     .proxied = options_.proxied};
  auto server = Server::Start(server_options, security, services);
  if (!server.ok()) return Annotate(server.status(), option);
  return server;
}

absl::Status Coordinator::WritePortsFile() {
  if (options_.ports_file.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat(
      "{\"control\": ", control_server_->port(), ", \"bulk\": ", bulk_server_->port(), ", \"admin\": ", web_->port(),
      enroll_door_ ? absl::StrCat(", \"enroll\": ", enroll_door_->port()) : "", "}\n");
  return WriteFileAtomically(*files_, options_.ports_file, AsBytes(text));
}

absl::Status Coordinator::Start() {
  ATOLL_RETURN_IF_ERROR(CheckDescriptors({.per_address = options_.connections_per_address}, kCoordinatorOpenFiles + 1));
  ATOLL_RETURN_IF_ERROR(CheckDataRoot(*files_, options_.data_root));
  flushes_thread_ = std::jthread([this](const std::stop_token& stop) { flushes_.Run(stop); });
  ATOLL_RETURN_IF_ERROR(OpenState());
  executors_ = std::make_unique<Executors>();
  ATOLL_ASSIGN_OR_RETURN(std::unique_ptr<AuditLog> kept, AuditLog::Open(*files_, directory_));
  trail_.KeepIn(std::move(kept), executors_->logs);
  events_ = std::make_unique<QueuedEventLog>(std::move(events_), executors_->logs, log_);
  const unsigned threads = options_.threads > 0 ? options_.threads : UsableCores();
  const auto fatal = [this](const absl::Status& status) { Die(status); };
  data_ = std::make_unique<DataPlane>(
      DataPlaneParts{*files_, clock_, executors_->ledger, executors_->io, executors_->snapshot_io, executors_->compute,
                     executors_->prepare, executors_->blob_io, executors_->blocks, *ledger_, *rounds_, *snapshots_,
                     *blobs_, directory_, log_, options_.data_root, threads, fatal});
  const BootNumber boot = recovered_.boot;
  engine_ = std::make_unique<Engine>(
      EngineOptions{.core = {.heartbeat_interval = options_.heartbeat_interval,
                             .membership_timeout = options_.membership_timeout,
                             .boot_nonce = SystemRandomBits()}},
      EngineParts{clock_, executors_->ledger, *ledger_, *data_, *events_, metrics_, log_, fatal},
      std::move(recovered_));
  api_ = std::make_unique<JobApi>(
      JobApiOptions{kVersion, clock_.WallNanos(), [this] { return Capacity(); }, CorpusCopies()}, *engine_, clock_,
      log_, executors_->calls, [this](const Sha256& sha256) { return blobs_->Read(sha256, limits::kManifestBytes); });
  controls_ = std::make_unique<ControlSessions>(*engine_, clock_, log_);
  bulk_ = std::make_unique<BulkSessions>(*engine_, *data_);
  metrics_.Set(Metric::kBuildInfo, 1, {kVersion});
  metrics_.Set(Metric::kBoot, static_cast<double>(boot.value));
  engine_->Start(rounds_found_);
  engine_thread_ = std::jthread([this](std::stop_token stop) { engine_->Run(std::move(stop)); });
  ATOLL_RETURN_IF_ERROR(OpenPorts());
  ATOLL_RETURN_IF_ERROR(WritePortsFile());
  disk_thread_ = std::jthread([this](std::stop_token stop) { WatchDiskAndCertificate(std::move(stop)); });
  Tell(manager_.Ready());
  vitals_thread_ = std::jthread([this](const std::stop_token& stop) { vitals_.Run(stop); });
  log_.Info("coordinator ready", {{"version", kVersion},
                                  {"boot", boot.value},
                                  {"state_dir", options_.state_dir},
                                  {"control", HostPortText(options_.listen_address, control_server_->port())},
                                  {"bulk", HostPortText(options_.listen_address, bulk_server_->port())},
                                  {"admin", HostPortText(options_.admin_address, web_->port())},
                                  {"enroll", enroll_door_ ? absl::StrCat(enroll_door_->port()) : "none"},
                                  {"encryption", own_trust_ ? "mutual TLS" : "none"}});
  return absl::OkStatus();
}

std::function<CorpusCopy(const CorpusManifest&, const Sha256&)> Coordinator::CorpusCopies() const {
  if (options_.data_root.empty()) return nullptr;
  return [this](const CorpusManifest& manifest, const Sha256& sha256) {
    return LookBelowDataRoot(*files_, options_.data_root, manifest, sha256);
  };
}

CoordinatorCapacity Coordinator::Capacity() const {
  CoordinatorCapacity capacity{
      .memory_bytes = MemoryLimitBytes(),
      .transport_bytes = 2 * (port_quota_bytes_ + kGuardBytes) + (enrollment_ ? kEnrollGuardBytes : 0),
      .open_files = DescriptorsBeside({.per_address = options_.connections_per_address}),
  };
  if (const auto space = files_->SpaceAt(directory_.root()); space.ok()) {
    capacity.disk_free_bytes = space->free_bytes;
    capacity.disk_total_bytes = space->total_bytes;
  }
  return capacity;
}

// Adds an open port to those that Ports::Dial checks as an unknown client, up to the certificate or the greeting.
void Coordinator::Opened(const std::string& port, guard::Guard& door) {
  const std::string address = AddressToDial(options_.listen_address, door.port());
  const std::string preamble = options_.proxied ? "PROXY UNKNOWN\r\n" : "";
  ports_.Opened(port, door, [this, address, preamble] {
    return own_trust_ ? FetchAuthority(address, own_trust_->authority().fingerprint(), preamble).status()
                      : TryGreeting(address, preamble);
  });
}

void Coordinator::WatchDiskAndCertificate(std::stop_token stop) {
  DiskState state = DiskState::kOk;
  size_t jobs = 0;
  int looks = 2;  // remaining trims
  while (!stop.stop_requested()) {
    const auto space = files_->SpaceAt(directory_.root());
    const DiskState now = space.ok() ? JudgeDiskSpace(*space, state) : state;
    if (space.ok() && space->total_bytes > 0) {
      metrics_.Set(Metric::kDiskFreeRatio,
                   static_cast<double>(space->free_bytes) / static_cast<double>(space->total_bytes));
    }
    if (now != state) {
      state = now;
      if (state == DiskState::kLow) {
        log_.Warn("disk almost full", {{"state_dir", options_.state_dir}, {"what", "no uploads until space is freed"}});
      } else {
        log_.Info("disk has room again", {{"state_dir", options_.state_dir}});
      }
      engine_->Tell(DiskSpace{.low = state == DiskState::kLow});
    }
    if (own_trust_) own_trust_->Look();
    // Returns memory that the allocator would keep: always without a job in memory. Jobs need theirs for the next
    // rounds, so with jobs only a few times after the start, a job's end or a flood (the last buffers are freed late).
    const size_t jobs_now = data_->JobsInMemory();
    if (ports_.TellTurnedAway() || jobs_now < std::exchange(jobs, jobs_now)) looks = 3;
    if (jobs_now == 0 || (looks > 0 && looks-- > 0)) malloc_trim(0);
    WaitForStop(stop, kDiskCheckInterval);
  }
}

void Coordinator::WaitForSignal() {
  int signal = 0;
  const sigset_t signals = StopSignals();
  sigwait(&signals, &signal);
  signalled_ = clock_.Now();
  log_.Info("stopping", {{"signal", SignalName(signal)}});
  vitals_thread_ = {};  // otherwise it might report a healthy state after Stopping
  Tell(manager_.Stopping());
}

void Coordinator::Close() {
  vitals_thread_.request_stop();
  disk_thread_ = {};
  vitals_thread_ = {};
  if (control_server_) control_server_->AnnounceShutdown();
  web_.reset();
  if (enroll_door_) enroll_door_->StopAccepting();
  if (bulk_server_) bulk_server_->Shutdown(kShutdownLimit);
  if (control_server_) control_server_->Shutdown(kShutdownLimit);
  engine_thread_ = {};
}

void Coordinator::SaveAll() {
  Instant tell = clock_.Now();
  const sigset_t signals = StopSignals();
  WriteLastSnapshots(*data_, log_, [&] {
    const Instant now = clock_.Now();
    if (now >= tell) Tell(manager_.StillStopping(kStoppingAtMost));
    if (now >= tell) tell = now + kStoppingAtMost / 3;
    const timespec at_once{};
    return !MeansHaste(sigtimedwait(&signals, nullptr, &at_once)) || now < signalled_ + kSameSignal;
  });
}

void Coordinator::Stop() {
  if (executors_) executors_->Stop();
  executors_.reset();
  freeing_.Stop();
  if (events_) (void)events_->Sync();
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  atl::StartProcess();
  atl::SilenceTransportLog();
  // The heap keeps large buffers from round to round instead of mapping new ones: 1.3 to 1.8 times the throughput of
  // gRPC, a tenth of a round. malloc_trim returns the memory after a job or a flood.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  // One arena: a thread's own arena returns memory above 64 MiB at once, and the system clears its pages again.
  mallopt(M_ARENA_MAX, 1);
  const atl::Environment environment = atl::ReadEnvironment();
  if (!environment.contains(atl::kDebuggableVariable)) atl::KeepMemoryPrivate();
  const atl::CoordinatorCommandLine line =
      atl::ParseCoordinatorOptions(std::vector<std::string>(argv + 1, argv + argc), environment, atl::kVersion);
  if (const std::optional<int> ended = atl::RunCommand(line)) return *ended;
  atl::BecomeService(std::cerr);
  atl::Coordinator coordinator(*line.options, atl::ServiceManager(environment, ::getpid()));
  for (const std::string& resolved : line.resolved) coordinator.log().Debug("option", {{"value", resolved}});
  const absl::Status started = coordinator.Start();
  if (!started.ok()) {
    coordinator.Close();
    coordinator.Stop();
    return atl::Fail(started);
  }
  coordinator.WaitForSignal();
  coordinator.Close();
  coordinator.SaveAll();
  coordinator.Stop();
  coordinator.log().Info("stopped");
  return atl::kExitOk;
}
