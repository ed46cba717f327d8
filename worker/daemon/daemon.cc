// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/advice.h"
#include "common/base/executor.h"
#include "common/base/files.h"
#include "common/base/host_cores.h"
#include "common/base/process.h"
#include "common/base/queued_writer.h"
#include "common/base/system_random.h"
#include "common/base/wall_time.h"
#include "common/plan/slow_step.h"
#include "common/rpc/backoff.h"
#include "common/rpc/bulk_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/control_stream.h"
#include "common/rpc/tls.h"
#include "common/rpc/transfer_failure.h"
#include "worker/daemon/admin.h"
#include "worker/daemon/event_gate.h"
#include "worker/daemon/exit_codes.h"
#include "worker/daemon/identity_keeper.h"
#include "worker/daemon/island_crew.h"
#include "worker/daemon/island_follower.h"
#include "worker/daemon/last_exit.h"
#include "worker/daemon/owner_pause.h"
#include "worker/daemon/preparation.h"
#include "worker/daemon/step_watch.h"
#include "worker/daemon/stream_advice.h"
#include "worker/daemon/synthetic_job.h"
#include "worker/daemon/torch_job.h"
#include "worker/link/network_link.h"
#include "worker/session/session.h"

namespace atl {
namespace {

constexpr Duration kGoodbyeLimit = Seconds(3);  // for the last messages to leave

// The launcher of an island's ranks and its service manager may both forward one signal within this time.
constexpr Duration kSameSignal = Seconds(5);

// Waits for stop signals on its own thread. The first signal calls `leave`. A later urgent one ends
// the process at once; with `launched`, not within kSameSignal of the first.
class SignalThread {
 public:
  SignalThread(bool launched, const Clock& clock, std::function<void(const char*)> leave)
      : thread_([this, launched, &clock, leave = std::move(leave)] { Wait(launched, clock, leave); }) {}
  ~SignalThread() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);  // directed at that thread only
  }
  bool seen() const { return seen_; }

 private:
  void Wait(bool launched, const Clock& clock, const std::function<void(const char*)>& leave) {
    const sigset_t set = StopSignals();
    for (std::optional<Instant> first;;) {
      int number = 0;
      if (sigwait(&set, &number) != 0 || over_) return;
      const bool same = !MeansHaste(number) || (launched && first && clock.Now() < *first + kSameSignal);
      if (first && same) continue;
      if (first) EndProcess(128 + number);
      first = clock.Now();
      seen_ = true;
      leave(SignalName(number).c_str());
    }
  }

  std::atomic<bool> seen_{false}, over_{false};
  std::jthread thread_;
};

WorkerOutcome Fail(int code, const std::string& sentence) {
  StandardError().Write(absl::StrCat("atoll-worker: ", sentence, "\n"));
  return {.exit_code = code};
}
WorkerOutcome Fail(int code, const absl::Status& status) { return Fail(code, WithAdvice(status.message())); }

int CodeOf(worker::ExitReason reason) {
  switch (reason) {
    case worker::ExitReason::kLeft: return kWorkerLeft;
    case worker::ExitReason::kRefused: return kWorkerRefused;
    case worker::ExitReason::kNonFinite: return kWorkerNonFinite;
  }
  return kWorkerLeft;
}

struct Connections {
  std::shared_ptr<grpc::Channel> control, bulk_channel;
  std::unique_ptr<BulkClient> bulk;
};

absl::StatusOr<ChannelSecurity> SecurityOf(const WorkerOptions& options, const Clock& clock, Log& log) {
  if (options.identity.empty()) return ChannelSecurity::PlaintextLoopback();
  ATOLL_RETURN_IF_ERROR(EnsureIdentity(options, clock, log));
  return MutualTlsChannel(options.identity, WallSeconds(clock));
}

absl::StatusOr<Connections> Connect(const WorkerOptions& options, const Clock& clock, Log& log) {
  Connections c;
  ATOLL_ASSIGN_OR_RETURN(const ChannelSecurity security, SecurityOf(options, clock, log));
  ATOLL_ASSIGN_OR_RETURN(c.control, MakeControlChannel({.address = options.coordinator}, security));
  ATOLL_ASSIGN_OR_RETURN(c.bulk_channel, MakeBulkChannel({.address = options.coordinator_bulk}, security));
  const BulkCaps caps{options.upload_bytes_per_second, options.download_bytes_per_second};
  c.bulk = MakeGrpcBulkClient(c.bulk_channel, clock, {.caps = caps});
  return c;
}

// Gets a certificate if needed, and makes the connections. Unlike Connect, retries while the coordinator is
// unreachable, because a service manager does not restart a process that exits with an option error. Cancelled if a
// stop signal arrives meanwhile.
absl::StatusOr<Connections> ConnectInTime(const WorkerOptions& options, const Clock& clock, Log& log) {
  const sigset_t signals = StopSignals();
  for (Backoff backoff({.initial = Seconds(1), .maximum = Seconds(30)}, SystemRandomBits());;) {
    auto connections = Connect(options, clock, log);
    const absl::Status& why = connections.status();
    if (connections.ok() || FailureOf(why) == TransferFailure::kFinal) return connections;
    const Duration wait = backoff.Next();
    log.Error("no certificate yet", {{"reason", WithAdvice(why.message())}, {"again_in_s", ToSeconds(wait)}});
    const timespec time{.tv_sec = wait.ns / 1'000'000'000, .tv_nsec = wait.ns % 1'000'000'000};
    if (::sigtimedwait(&signals, nullptr, &time) > 0) return absl::CancelledError("a signal");
  }
}

std::unique_ptr<JobFactory> MakeFactory(const WorkerOptions& options, std::shared_ptr<Device> device, IslandCrew* crew,
                                        std::stop_token leave, BulkClient& bulk, Files& files, const Clock& clock,
                                        Log& log) {
  const WorkerId worker{options.name};
  if (options.synthetic_step_seconds > 0) {
    const JobDataOptions data{worker, options.data_root, options.cache_dir, options.cache_bytes, std::move(leave)};
    return std::make_unique<SyntheticJobFactory>(Nanoseconds(std::llround(options.synthetic_step_seconds * 1e9)), data,
                                                 bulk, files, clock, log);
  }
  return std::make_unique<TorchJobFactory>(
      TorchJobOptions{.worker = worker,
                      .data_root = options.data_root,
                      .cache_dir = options.cache_dir,
                      .cache_bytes = options.cache_bytes,
                      .threads = ThreadsOf(options),
                      .memory_limit_bytes = options.memory_limit_bytes,
                      .optimizer_snapshot = options.optimizer_snapshot,
                      .island = crew == nullptr ? std::nullopt : std::optional(crew->ways()),
                      .ranks_here = options.island.ranks_here,
                      .formed_by = options.form_on == FormChoice::kGpu ? EncodedBy::kDevice : EncodedBy::kHost,
                      .records_passes = options.cuda_graph == GraphChoice::kAuto,
                      .kernels_in_passes = options.pass_kernels == PassKernelChoice::kAuto,
                      .leave = std::move(leave)},
      std::move(device), bulk, files, clock, log);
}

// Ends the process after kLastExit if its device is lost or it has an island. Called before the session releases
// resources, which may block forever then.
std::function<void(bool)> LastExit(const WorkerOptions& options) {
  return [island = options.island.size > 1](bool device_lost) {
    if (device_lost || island) EndProcessWithin(kLastExit, island ? kWorkerIsland : kWorkerHung);
  };
}

SessionOptions MakeSessionOptions(const WorkerOptions& options, const Device& device, const std::string& version) {
  SessionOptions session;
  session.core.worker = WorkerId{options.name};
  session.core.program_version = version;
  session.core.start_nonce = SystemRandomBits();
  session.core.device = device.info().name;
  session.core.memory_bytes =
      options.memory_limit_bytes > 0 ? options.memory_limit_bytes : device.info().memory_total_bytes;
  session.core.evaluate_only = options.evaluate_only;
  session.core.overlap_steps = options.overlap_steps;
  session.core.leave_grace = options.drain_timeout;
  session.on_letting_go = LastExit(options);
  session.sync_threads = SyncThreadsOf(options, device.info().kind, UsableCores());
  return session;
}

// Connects the session's callbacks to watch, metrics and link. All arguments outlive the session.
void ListenIn(SessionOptions& session, StepWatch& watch, StepMetrics& steps, Metrics& metrics, NetworkLink& link) {
  session.work_begins = [&watch](const JobId& job, const JobSpec& spec, TrainWork work) {
    watch.Begins(job, work, SlowStep(spec));
  };
  session.work_ended = [&watch] { watch.Ended(); };
  session.on_step = [&steps](const StepTaken& step) { steps.Record(step); };
  session.on_contribution = [&metrics](double error_ratio) { metrics.Set(Metric::kUploadError, error_ratio); };
  session.heartbeat_metrics = [&metrics, &link] {
    RecordLinkRates(link.totals(), metrics);
    return metrics.HeartbeatSamples();
  };
}

// Null for a worker of one process.
absl::StatusOr<std::unique_ptr<IslandCrew>> MusterIsland(const WorkerOptions& options, Device& device,
                                                         const std::string& version, const Clock& clock, Log& log) {
  if (options.island.size == 1) return nullptr;
  return IslandCrew::Muster(options.island, device, version, clock, log);
}

void LogStart(const WorkerOptions& options, const GpuPlugin& plugin, const Device& device, int admin_port,
              const std::string& version, Log& log) {
  log.Info("worker started", {{"name", options.name},
                              {"coordinator", options.coordinator},
                              {"device", device.info().name},
                              {"gpu", plugin.reason.empty() ? "yes" : plugin.reason},
                              {"admin_port", admin_port},
                              {"version", version}});
  const std::string why = WhyOnCpu(plugin, options);
  if (why.empty()) return;
  log.Warn("training on the CPU", {{"reason", why}, {"what", kSayTheDevice}});
}

// The worker's outcome; writes the error message of a failure. `paused`: its owner requested it, and no signal came.
WorkerOutcome EndOf(const WorkerOptions& options, const SessionExit& exit, IslandCrew* crew, bool paused) {
  if (exit.reason != worker::ExitReason::kLeft) return Fail(CodeOf(exit.reason), exit.text);
  const absl::Status cause = crew == nullptr ? absl::OkStatus() : crew->Cause();
  if (!cause.ok()) {
    EndProcessWithin(kLastExit, kWorkerIsland);
    return Fail(kWorkerIsland, cause);
  }
  if (exit.device_lost) {
    EndProcessWithin(kLastExit, kWorkerHung);
    return Fail(kWorkerHung, exit.text);
  }
  // A launcher would have to restart the other ranks, so a launched worker ends instead of pausing.
  return {.exit_code = kWorkerLeft, .paused = paused && !options.island.launched};
}

// Makes the worker leave: notifies the session, then stops the fetches on which the session's
// thread may wait. Thread-safe once it has its session.
class Departure {
 public:
  void Of(Session& session) { session_ = &session; }
  std::stop_token wanted() const { return stop_.get_token(); }
  void Want(std::string reason) {
    session_->RequestLeave(std::move(reason));
    stop_.request_stop();
  }
  // Passes an event of the link to the session. A DrainRequested also stops the fetches, because the core leaves on it.
  void Hand(LinkEvent event) {
    const auto* told = std::get_if<worker::Event>(&event);
    const auto* received = told == nullptr ? nullptr : std::get_if<worker::Received>(told);
    const bool drain = received != nullptr && std::holds_alternative<DrainRequested>(received->message);
    session_->Post(std::move(event));
    if (drain) stop_.request_stop();
  }

 private:
  Session* session_ = nullptr;
  std::stop_source stop_;
};

// Makes the worker leave, in order, if a rank has ended or the island is broken. Returns whether it did.
bool LeavesWithIsland(IslandCrew& crew, Departure& departure) {
  const absl::Status seen = crew.Look();
  if (!seen.ok()) departure.Want(std::string(seen.message()));
  return !seen.ok();
}

// Ends the process at once, because the train thread no longer responds.
[[noreturn]] void EndHung(const absl::Status& why, Log& log) {
  log.Error("step timed out", {{"reason", std::string(why.message())}});
  EndProcess(kWorkerHung, absl::StrCat("atoll-worker: ", WithAdvice(why.message()), "\n"));
}

// Runs the session's turns on this thread until the session wants to end.
SessionExit Train(Session& session, EventGate& gate, const Clock& clock) {
  for (;;) {
    const TurnResult turn = session.Turn();
    if (session.exit()) return *session.exit();
    if (!turn.progressed) gate.WaitUntil(clock, turn.next);
  }
}

// Waits until the last messages are sent, or for kGoodbyeLimit.
void AwaitGoodbye(NetworkLink& link, EventGate& gate, const Clock& clock, Log& log) {
  for (const Instant limit = clock.Now() + kGoodbyeLimit; !link.finished() && clock.Now() < limit;) {
    gate.WaitUntil(clock, clock.Now() + Milliseconds(20));
  }
  if (link.finished()) return;
  log.Warn("last messages not sent", {{"why", absl::StrCat("waited ", ToSeconds(kGoodbyeLimit),
                                                           " s for the control stream to send the last messages",
                                                           link.connected() ? "" : "; there is no stream")}});
}

void WarnOfCache(const WorkerOptions& options, Files& files, Log& log) {
  const absl::Status tried = TryCache(options, files);
  if (!tried.ok()) log.Warn("cache not writable", {{"why", WithAdvice(tried.message())}});
}

void WarnOfManager(const absl::Status& told, Log& log) {
  if (!told.ok()) log.Warn("service manager", {{"why", std::string(told.message())}});
}

// On a stop signal: reports to the service manager that the service stops, and makes the worker leave. After a pause
// or the loss of a rank nothing is reported, because the process starts again or is restarted.
std::function<void(const char*)> ByASignal(Departure& departure, const ServiceManager& manager, Log& log) {
  return [&](const char* name) {
    WarnOfManager(manager.Stopping(), log);
    departure.Want(name);
  };
}

}  // namespace

WorkerOutcome RunWorker(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                        const ServiceManager& manager, const Clock& clock, Log& log) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  if (const auto status = CheckFolders(options, *files); !status.ok()) return Fail(kWorkerPrecondition, status);
  WarnOfCache(options, *files, log);
  auto opened = OpenChosenDevice(plugin, options);
  if (!opened.ok()) return Fail(kWorkerPrecondition, opened.status());
  const std::shared_ptr<Device> device = *std::move(opened);
  auto connections = ConnectInTime(options, clock, log);
  if (absl::IsCancelled(connections.status())) return {.exit_code = kWorkerLeft};
  if (!connections.ok()) return Fail(kWorkerUsage, connections.status());
  auto mustered = MusterIsland(options, *device, version, clock, log);
  if (absl::IsCancelled(mustered.status())) return {.exit_code = kWorkerLeft};
  if (!mustered.ok()) return Fail(IslandExitCode(mustered.status()), mustered.status());
  const std::unique_ptr<IslandCrew> crew = *std::move(mustered);

  Metrics metrics;
  StepMetrics step_metrics(metrics);
  Departure departure;
  const std::unique_ptr<JobFactory> factory =
      MakeFactory(options, device, crew.get(), departure.wanted(), *connections->bulk, *files, clock, log);
  SessionOptions session_options = MakeSessionOptions(options, *device, version);

  EventGate train_gate, link_gate;
  ThreadExecutor sync_executor(1);  // synchronisation in parallel with training
  NetworkLink link(
      {WorkerId{options.name}, session_options.core.start_nonce, {}, options.coordinator, StreamAdvice(options, clock)},
      [channel = connections->control] { return OpenControlStream(channel); }, *connections->bulk, clock, log,
      [&departure](LinkEvent event) { departure.Hand(std::move(event)); }, [&link_gate] { link_gate.Notify(); });
  StepWatch step_watch(clock, log);
  ListenIn(session_options, step_watch, step_metrics, metrics, link);
  Session session(session_options, link, *factory, sync_executor, clock, log, [&] {
    train_gate.Notify();
    link_gate.Notify();
  });
  departure.Of(session);

  auto admin = ServeAdmin(options, metrics, *files, [&link] {
    return link.connected() ? absl::OkStatus() : absl::UnavailableError("the coordinator is unreachable");
  });
  if (!admin.ok()) return Fail(kWorkerPrecondition, admin.status());
  LogStart(options, plugin, *device, *admin ? (*admin)->port() : 0, version, log);

  std::optional<IdentityKeeper> keeper;
  if (!options.identity.empty()) keeper.emplace(options, clock, log, metrics);
  WarnOfManager(manager.Ready(), log);
  SignalThread signals(options.island.launched, clock, ByASignal(departure, manager, log));
  std::atomic<bool> over{false}, paused{false};
  std::jthread link_thread([&] {
    for (bool broken = false; !over;) {
      if (!paused && PausedUntil(options.cache_dir, WallSeconds(clock))) {
        paused = true;
        departure.Want("paused by its owner");
      }
      if (crew && !broken) broken = LeavesWithIsland(*crew, departure);
      if (const absl::Status step = step_watch.Look(); !step.ok()) EndHung(step, log);
      const Instant next = link.Turn();
      session.ListenInStep();
      link_gate.WaitUntil(clock, next);  // a second at most
    }
  });
  const SessionExit exit = Train(session, train_gate, clock);
  link.Finish();
  AwaitGoodbye(link, train_gate, clock, log);
  over = true;
  link_gate.Notify();
  link_thread.join();
  log.Info("worker left", {{"why", exit.text}});
  return EndOf(options, exit, crew.get(), paused && !signals.seen());
}

}  // namespace atl
