// SPDX-License-Identifier: Apache-2.0
// The daemon's own parts: the gate, the admin endpoint, and exit codes with a coordinator in the
// same process.
#include "worker/daemon/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "common/base/process.h"
#include "common/base/queued_writer.h"
#include "common/base/wall_time.h"
#include "common/rpc/control_stream.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "common/trust/authority.h"
#include "common/trust/secret_files.h"
#include "tests/unit/common/rpc/enroll_door.h"
#include "worker/daemon/admin.h"
#include "worker/daemon/event_gate.h"
#include "worker/daemon/exit_codes.h"
#include "worker/daemon/last_exit.h"

namespace atl {
namespace {

LogOptions Quiet() {
  LogOptions options;
  options.to_stderr = false;
  return options;
}

TEST(EventGate, AKnockBeforeTheWaitIsNotLost) {
  const SystemClock clock;
  EventGate gate;
  gate.Notify();
  EXPECT_TRUE(gate.WaitUntil(clock, kNever));
  EXPECT_FALSE(gate.WaitUntil(clock, clock.Now())) << "one knock wakes once";
}

TEST(EventGate, AKnockFromAnotherThreadWakes) {
  const SystemClock clock;
  EventGate gate;
  std::jthread other([&] { gate.Notify(); });
  bool woken = false;
  for (int i = 0; i < 60 && !woken; ++i) woken = gate.WaitUntil(clock, kNever);
  EXPECT_TRUE(woken);
}

TEST(LastExit, EndsAProcessThatDoesNotEndByItself) {
  EXPECT_EXIT(
      {
        EndProcessWithin(Milliseconds(1), kWorkerIsland);
        for (;;) ::pause();
      },
      testing::ExitedWithCode(kWorkerIsland), "the device does not release its resources");
}

TEST(StepMetrics, PutsStepsIntoTheCatalogue) {
  Metrics metrics;
  StepMetrics steps(metrics);
  StepTaken step;
  step.clock_step = 9;
  step.learning_rate = 0.5;
  step.outcome = {true, 2.25, 3.0, 1000};
  step.took = Seconds(1);
  step.data_wait = Milliseconds(750);
  step.sync_work = Milliseconds(250);
  steps.Record(step);
  step.outcome.applied = false;
  steps.Record(step);
  const std::string text = metrics.Expose();
  EXPECT_NE(text.find("atoll_train_loss_nats 2.25"), std::string::npos) << text;
  EXPECT_NE(text.find("atoll_inner_step 9"), std::string::npos);
  EXPECT_NE(text.find("atoll_compute_utilization_ratio 0.5"), std::string::npos);
  EXPECT_NE(text.find("atoll_tokens_per_second 500"), std::string::npos);
  EXPECT_NE(text.find("atoll_non_finite_steps_total 1"), std::string::npos);
  EXPECT_FALSE(metrics.HeartbeatSamples().empty());
}

double SampleOf(const Metrics& metrics, Metric metric) {
  for (const MetricSample& sample : metrics.HeartbeatSamples()) {
    if (sample.name == HeartbeatName(metric)) return sample.value;
  }
  return -1;
}

// Ten steps of a second and one wait of ten: half of the time is computing, although nine of ten
// steps had no wait.
TEST(StepMetrics, UtilizationIsAShareOfTimeNotOfSteps) {
  Metrics metrics;
  StepMetrics steps(metrics);
  for (int i = 0; i < 2000; ++i) {
    StepTaken step;
    step.outcome = {true, 2.25, 3.0, 1000};
    step.took = Seconds(1);
    if (i % 10 == 0) step.sync_wait = Seconds(10);
    steps.Record(step);
  }
  EXPECT_NEAR(SampleOf(metrics, Metric::kComputeUtilization), 0.5, 0.01);
}

TEST(StepMetrics, UtilizationRestartsWithAnotherJob) {
  Metrics metrics;
  StepMetrics steps(metrics);
  StepTaken step;
  step.outcome = {true, 2.25, 3.0, 1000};
  step.took = Seconds(1);
  step.sync_wait = Seconds(3);
  step.clock_step = 40;
  steps.Record(step);
  EXPECT_DOUBLE_EQ(SampleOf(metrics, Metric::kComputeUtilization), 0.25);
  step.sync_wait = {};
  step.clock_step = 1;
  steps.Record(step);
  EXPECT_DOUBLE_EQ(SampleOf(metrics, Metric::kComputeUtilization), 1);
}

TEST(LinkRates, AreShownOnceKnown) {
  Metrics metrics;
  RecordLinkRates({}, metrics);
  EXPECT_TRUE(metrics.HeartbeatSamples().empty());
  RecordLinkRates({.upload_bytes_per_second = 3e6, .download_bytes_per_second = 5e6}, metrics);
  EXPECT_EQ(SampleOf(metrics, Metric::kUploadRate), 3e6);
  EXPECT_EQ(SampleOf(metrics, Metric::kDownloadRate), 5e6);
}

// A coordinator that answers Hello with one message, or with a Welcome.
class FakeCoordinator {
 public:
  explicit FakeCoordinator(std::function<void(CoordinatorEnd&, const WorkerMessage&)> answer)
      : answer_(std::move(answer)),
        service_(MakeControlService([this](std::unique_ptr<CoordinatorEnd> end, std::string) {
          CoordinatorEnd* stream = end.get();
          {
            MutexLock lock(mutex_);
            ends_.push_back(std::move(end));
          }
          stream->Start({[this, stream](WorkerMessage m) { answer_(*stream, m); },
                         [stream](absl::Status) { stream->Close(absl::OkStatus()); }});
        })) {
    auto started = Server::Start({}, ServerSecurity::PlaintextLoopback(), {service_.get()});
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  ~FakeCoordinator() { server_->Shutdown(Seconds(1)); }
  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

 private:
  std::function<void(CoordinatorEnd&, const WorkerMessage&)> answer_;
  Mutex mutex_;
  std::vector<std::unique_ptr<CoordinatorEnd>> ends_ ATOLL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<Server> server_;
};

class RunWorkerTest : public testing::Test {
 protected:
  RunWorkerTest() {
    StartProcess();
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-daemon-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    options_.name = "w1";
    options_.cache_dir = folder_ + "/cache";
    options_.device = DeviceChoice::kCpu;
    options_.coordinator = "127.0.0.1:1";  // no coordinator listens there
    options_.drain_timeout = Seconds(1);
  }
  ~RunWorkerTest() override { std::filesystem::remove_all(folder_); }
  int Run() {
    options_.coordinator_bulk = PortAfter(options_.coordinator, 1);
    testing::internal::CaptureStderr();
    const int code = RunWorker(options_, GpuPlugin{nullptr, "none in tests", 0}, "test", {}, clock_, log_).exit_code;
    StandardError().Flush();
    said_ = testing::internal::GetCapturedStderr();
    return code;
  }

  const SystemClock clock_;
  Log log_{Quiet()};
  WorkerOptions options_;
  std::string folder_, said_;
};

TEST_F(RunWorkerTest, MissingDataRootIsReportedAtOnce) {
  options_.data_root = folder_ + "/nowhere";
  EXPECT_EQ(Run(), kWorkerPrecondition);
  EXPECT_NE(said_.find("--data-root " + folder_ + "/nowhere does not exist"), std::string::npos) << said_;
}

TEST_F(RunWorkerTest, APortInUseIsNamed) {
  Metrics metrics;
  const auto files = MakePosixFiles();
  auto first = ServeAdmin(options_, metrics, *files, [] { return absl::OkStatus(); });
  ASSERT_TRUE(first.ok()) << first.status();
  options_.admin_port = static_cast<uint32_t>((*first)->port());
  EXPECT_EQ(Run(), kWorkerPrecondition);
  EXPECT_NE(said_.find(std::to_string(options_.admin_port)), std::string::npos) << said_;
}

TEST_F(RunWorkerTest, AnotherRevisionIsRefusedWithItsReason) {
  FakeCoordinator coordinator([](CoordinatorEnd& end, const WorkerMessage& m) {
    if (!std::holds_alternative<Hello>(m)) return;
    (void)end.Send(Refused{"protocol revision 1 is not 2: update this worker", false});
  });
  options_.coordinator = coordinator.address();
  EXPECT_EQ(Run(), kWorkerRefused);
  EXPECT_NE(said_.find("protocol revision 1 is not 2"), std::string::npos) << said_;
}

TEST_F(RunWorkerTest, SigtermLeavesInOrder) {
  std::atomic<bool> left{false};
  FakeCoordinator coordinator([&](CoordinatorEnd& end, const WorkerMessage& m) {
    if (std::holds_alternative<Hello>(m)) {
      (void)end.Send(Welcome{BootNumber{1}, Incarnation{1}, false, Seconds(2), Seconds(20), {}});
    }
    if (std::holds_alternative<Heartbeat>(m)) {
      kill(getpid(), SIGUSR1);  // a scheduler's notice: it has no effect
      kill(getpid(), SIGTERM);
    }
    if (std::holds_alternative<Leaving>(m)) left = true;
  });
  options_.coordinator = coordinator.address();
  options_.ports_file = folder_ + "/ports.json";
  EXPECT_EQ(Run(), kWorkerLeft);
  EXPECT_TRUE(left);
  EXPECT_TRUE(std::filesystem::exists(options_.ports_file));
}

// As after a power outage of a day at the whole site: the machine is up before the coordinator.
TEST_F(RunWorkerTest, AnEndedCertificateWaitsForTheCoordinator) {
  const int64_t long_ago_s = WallSeconds(clock_) - 2 * 86'400;
  const Authority authority = *Authority::Create(long_ago_s);
  options_.identity = folder_ + "/w1.pem";
  options_.coordinator_enroll = "127.0.0.1:1";  // no coordinator listens there
  const Identity own{Role::kWorker, "w1", "0123456789abcdef"};
  ASSERT_EQ(WriteIdentityFile(options_.identity, *IssueIdentity(authority, own, long_ago_s)), absl::OkStatus());
  std::jthread signal([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && (log_.Recent(100).empty() || log_.Recent(1)[0].event != "no certificate yet"))
      std::this_thread::yield();
    kill(getpid(), SIGTERM);
  });
  EXPECT_EQ(Run(), kWorkerLeft) << said_;
}

// The coordinator's disk is full, or a proxy breaks the call: this worker's operator can fix
// neither.
TEST_F(RunWorkerTest, ACoordinatorThatCannotSignIsAskedAgain) {
  std::atomic<int> calls{0};
  const Enroller failing = [&calls](const v1::EnrollRequest&, const std::string&, const EnrollAnswer& answer) {
    answer(calls++ == 0 ? absl::InternalError("the ledger cannot be written") : absl::CancelledError("broken off"), {});
  };
  const int64_t now_s = WallSeconds(clock_), long_ago_s = now_s - 2 * 86'400;
  const Authority authority = *Authority::Create(long_ago_s);
  const std::string theirs = folder_ + "/coordinator.pem";
  ASSERT_EQ(WriteIdentityFile(theirs, *IssueIdentity(authority, {Role::kCoordinator, "coordinator", ""}, now_s)),
            absl::OkStatus());
  const std::unique_ptr<guard::Guard> server = OpenEnrollDoor(*ServerOnlyTls(theirs, now_s), failing);
  options_.identity = folder_ + "/w1.pem";
  options_.coordinator_enroll = "127.0.0.1:" + std::to_string(server->port());
  const Identity own{Role::kWorker, "w1", "0123456789abcdef"};
  ASSERT_EQ(WriteIdentityFile(options_.identity, *IssueIdentity(authority, own, long_ago_s)), absl::OkStatus());
  const auto tries = [this] {
    const std::vector<LogLine> lines = log_.Recent(100);
    return std::count_if(lines.begin(), lines.end(), [](const auto& l) { return l.event == "no certificate yet"; });
  };
  std::jthread signal([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && tries() < 2) std::this_thread::yield();
    kill(getpid(), SIGTERM);
  });
  EXPECT_EQ(Run(), kWorkerLeft) << said_;
  EXPECT_EQ(tries(), 2);
}

TEST_F(RunWorkerTest, ACoordinatorThatIsNotThereIsTriedUntilSigterm) {
  std::jthread signal([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && (log_.Recent(100).empty() || log_.Recent(1)[0].event != "coordinator away"))
      std::this_thread::yield();
    kill(getpid(), SIGTERM);
  });
  EXPECT_EQ(Run(), kWorkerLeft);
  bool said = false;
  for (const LogLine& line : log_.Recent(100)) {
    said = said || line.ToText().find("no control stream to 127.0.0.1:1") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace atl
