// SPDX-License-Identifier: Apache-2.0
// Measures how many workers one coordinator can serve, as JSON for scripts/bench.
//
//   bench_scale streams PORT PID WORKERS ROUNDS SECONDS   real control streams to a running coordinator, from members
//                                                         of its job
//   bench_scale idle PORT PID WORKERS ROUNDS SECONDS      the same from workers without a job
//   bench_scale core WORKERS JOBS ROUNDS                  only the coordinator's core, in this process; 0 jobs: none
//
// streams: each worker has its own channel, hence its own socket, and joins the job that it is
// assigned (idle: none). It sends heartbeats at the coordinator's interval, spread evenly over all
// workers, with every metric of a worker's heartbeat; it does not train. Heartbeats have no reply.
// Therefore one heartbeat in kProbes is followed by a lease request for a nonexistent job, which
// the core denies at once and in order: the denial shows when the heartbeat was processed. PID is
// the coordinator's process, for its processor time and memory in /proc.
//
// core: simulated workers, distributed over the jobs, if any, which they train. Each heartbeat is
// one step of the machine. There are no sockets, threads or contributions.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/rpc/channel.h"
#include "common/rpc/control_stream.h"
#include "common/rpc/transport_log.h"
#include "common/telemetry/catalogue.h"
#include "common/telemetry/metrics.h"
#include "coordinator/core/core.h"

namespace atl::bench {
namespace {

constexpr uint64_t kProbes = 10;
constexpr char kNoJob[] = "no-such-job";
constexpr Duration kLongestJoin = Seconds(120);
constexpr int64_t kStepsAHeartbeat = 10, kTokensAStep = 8192;

Hello HelloOf(uint64_t index) {
  Hello hello;
  hello.worker = {absl::StrCat("worker-", index)};
  hello.program_version = "bench";
  hello.start_nonce = index + 1;
  hello.device = "cpu";
  return hello;
}

// Sorts `values`.
double Percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// ---- real streams ---------------------------------------------------------------------------------------------------

struct Usage {
  double cpu_seconds = 0;
  double resident_bytes = 0;
};

// Reads another process's usage.
Usage UsageOf(uint64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  ATOLL_CHECK(!text.empty(), "the coordinator is gone");
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // from the third field on
  std::string word;
  Usage usage;
  for (int field = 3; fields >> word && field <= 24; ++field) {
    double value = 0;
    if (field == 14 || field == 15) ATOLL_CHECK(absl::SimpleAtod(word, &value), "/proc is not as expected");
    usage.cpu_seconds += value / static_cast<double>(sysconf(_SC_CLK_TCK));
    if (field == 24 && absl::SimpleAtod(word, &value))
      usage.resident_bytes = value * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return usage;
}

// One sample of each metric of a worker's heartbeat.
std::vector<MetricSample> WorkerMetrics() {
  Metrics metrics;
  for (const MetricInfo& info : MetricCatalogue()) {
    if (info.home != MetricHome::kWorker) continue;
    if (info.type == MetricType::kCounter) metrics.Add(info.metric, 1);
    if (info.type == MetricType::kGauge) metrics.Set(info.metric, 1);
  }
  std::vector<MetricSample> samples = metrics.HeartbeatSamples();
  ATOLL_CHECK(!samples.empty(), "a worker's heartbeats carry metrics");
  return samples;
}

// Collects the results of all streams. Thread-safe.
class Tally {
 public:
  void Welcomed(Duration interval) {
    MutexLock lock(mutex_);
    interval_ = interval;
  }
  void Joined() {
    MutexLock lock(mutex_);
    ++joined_;
    changed_.NotifyAll();
  }
  void Answered(Duration after) {
    MutexLock lock(mutex_);
    milliseconds_.push_back(ToSeconds(after) * 1e3);
  }
  void Broken(const std::string& why) {
    MutexLock lock(mutex_);
    if (!ending_) broken_.push_back(why);
    changed_.NotifyAll();
  }
  // Waits until all workers have joined and returns the heartbeat interval. Ends the program with
  // the reason if one is refused.
  Duration WaitForAll(uint64_t workers) {
    MutexLock lock(mutex_);
    const SystemClock clock;
    const Instant limit = clock.Now() + kLongestJoin;
    while (joined_ < workers && broken_.empty() && clock.Now() < limit) changed_.WaitFor(mutex_, Seconds(1));
    if (joined_ < workers) {
      std::cerr << "bench_scale: " << joined_ << " of " << workers << " workers have joined"
                << (broken_.empty() ? "" : ": " + broken_.front()) << "\n";
      std::exit(1);
    }
    return interval_;
  }
  // Waits for at most `limit`.
  void Rest(Duration limit) {
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, limit);
  }
  std::vector<double> TakeMilliseconds() {
    MutexLock lock(mutex_);
    return std::exchange(milliseconds_, {});
  }
  uint64_t broken() {
    MutexLock lock(mutex_);
    return broken_.size();
  }
  void End() {
    MutexLock lock(mutex_);
    ending_ = true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t joined_ ATOLL_GUARDED_BY(mutex_) = 0;
  Duration interval_ ATOLL_GUARDED_BY(mutex_){};
  std::vector<double> milliseconds_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::string> broken_ ATOLL_GUARDED_BY(mutex_);
  bool ending_ ATOLL_GUARDED_BY(mutex_) = false;
};

class Worker {
 public:
  // `idle`: the worker counts as joined once it is welcomed.
  Worker(uint64_t index, uint64_t port, bool idle, Tally& tally) : index_(index), idle_(idle), tally_(tally) {
    auto channel =
        MakeControlChannel({.address = absl::StrCat("127.0.0.1:", port)}, ChannelSecurity::PlaintextLoopback());
    ATOLL_CHECK(channel.ok(), std::string(channel.status().message()).c_str());
    stream_ = OpenControlStream(channel_ = *std::move(channel));
    stream_->Start({[this](const CoordinatorMessage& message) { Hear(message); },
                    [this](const absl::Status& status) { tally_.Broken(std::string(status.message())); }});
    (void)stream_->Send(HelloOf(index));
  }
  // Call after the worker has joined.
  void Beat() {
    (void)stream_->Send(NextHeartbeat());
    if ((sequence_ + index_) % kProbes != 0) return;
    asked_ns_ = clock_.Now().ns;
    LeaseRequest wish;
    wish.job = {kNoJob};
    wish.request = sequence_;
    wish.samples = 1;
    (void)stream_->Send(std::move(wish));
  }
  void Close() { stream_->Close(absl::OkStatus()); }

 private:
  Heartbeat NextHeartbeat() {
    Heartbeat heartbeat;
    heartbeat.sequence = ++sequence_;
    if (job_.value.empty()) return heartbeat;
    heartbeat.job = job_;
    heartbeat.activity = WorkerActivity::kTraining;
    heartbeat.step = sequence_ * kStepsAHeartbeat;
    heartbeat.tokens_total = heartbeat.step * kTokensAStep;
    heartbeat.step_ns = limits::kHeartbeatInterval.ns / kStepsAHeartbeat;
    heartbeat.loss_micro = 3'000'000;
    heartbeat.metrics = metrics_;
    for (MetricSample& sample : heartbeat.metrics) sample.value += static_cast<double>(sequence_);
    return heartbeat;
  }
  void Hear(const CoordinatorMessage& message) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      tally_.Welcomed(welcome->heartbeat_interval);
      if (idle_) tally_.Joined();
    }
    if (const auto* given = std::get_if<Assignment>(&message); given != nullptr && !idle_ && job_.value.empty()) {
      job_ = given->job;
      (void)stream_->Send(Ready{.job = job_, .step = 0, .applied = {}});
      tally_.Joined();
    }
    if (std::holds_alternative<LeaseDenied>(message)) tally_.Answered(Duration{clock_.Now().ns - asked_ns_});
  }

  const SystemClock clock_;
  const uint64_t index_;
  const bool idle_;
  Tally& tally_;
  const std::vector<MetricSample> metrics_ = WorkerMetrics();
  std::shared_ptr<grpc::Channel> channel_;
  JobId job_;  // set before the tally is notified, then constant
  uint64_t sequence_ = 0;
  std::atomic<int64_t> asked_ns_ = 0;
  std::unique_ptr<WorkerEnd> stream_;  // destroyed first: no callback runs afterwards
};

// Every worker sends a heartbeat once per interval, each at its own offset.
void BeatFor(std::vector<std::unique_ptr<Worker>>& workers, Tally& tally, Duration interval, Duration length,
             uint64_t& next) {
  const SystemClock clock;
  const Duration apart{interval.ns / static_cast<int64_t>(workers.size())};
  const Instant end = clock.Now() + length;
  for (Instant at = clock.Now(); at < end; at = at + apart) {
    for (Duration early = at - clock.Now(); early.ns > 0; early = at - clock.Now()) tally.Rest(early);
    workers[next++ % workers.size()]->Beat();
  }
}

nlohmann::json Streams(bool idle, uint64_t port, uint64_t pid, uint64_t count, uint64_t rounds, Duration length) {
  const SystemClock clock;
  Tally tally;
  const Usage before = UsageOf(pid);
  const Instant begin = clock.Now();
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(i, port, idle, tally));
  const Duration interval = tally.WaitForAll(count);
  const double joined = ToSeconds(clock.Now() - begin), join_cpu = UsageOf(pid).cpu_seconds - before.cpu_seconds;
  uint64_t next = 0;
  BeatFor(workers, tally, interval, interval, next);  // not measured
  tally.TakeMilliseconds();
  std::vector<double> seconds, cpu, median, high;
  for (uint64_t round = 0; round < rounds; ++round) {
    const Usage from = UsageOf(pid);
    const Instant start = clock.Now();
    BeatFor(workers, tally, interval, length, next);
    seconds.push_back(ToSeconds(clock.Now() - start));
    cpu.push_back(UsageOf(pid).cpu_seconds - from.cpu_seconds);
    std::vector<double> trips = tally.TakeMilliseconds();
    ATOLL_CHECK(!trips.empty(), "no heartbeat was followed by an answer: take longer rounds");
    median.push_back(Percentile(trips, 0.5));
    high.push_back(Percentile(trips, 0.99));
  }
  const Usage after = UsageOf(pid);
  ATOLL_CHECK(tally.broken() == 0, "a control stream broke meanwhile");
  tally.End();
  for (const auto& worker : workers) worker->Close();
  workers.clear();
  return {{"name", "control streams"},
          {"bytes", 0},
          {"workers", count},
          {"interval_seconds", ToSeconds(interval)},
          {"join_seconds", joined},
          {"join_cpu_seconds", join_cpu},
          {"seconds", seconds},
          {"cpu_seconds", cpu},
          {"median_ms", median},
          {"p99_ms", high},
          {"bytes_per_worker", (after.resident_bytes - before.resident_bytes) / static_cast<double>(count)}};
}

// ---- the core alone -------------------------------------------------------------------------------------------------

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

JobId JobOf(uint64_t worker, uint64_t jobs) { return {absl::StrCat("job-", worker % jobs)}; }

// Starts a job with parameters for `workers` workers.
void Begin(Core& core, const JobId& id, uint64_t workers, Instant now) {
  constexpr uint32_t kFragments = 4;
  JobSubmitted job;
  job.spec.name = id.value;
  job.spec.batch.sequences_per_step = 1;
  job.spec.data.sequence_length = 10;
  job.spec.workers.min = job.spec.workers.max = static_cast<uint32_t>(workers);
  job.spec.stop.inner_steps = job.stop_step = 1'000'000;
  job.fragments = kFragments;
  job.dataset_samples = 1'000'000'000;
  (void)core.Step(job, now);
  (void)core.Step(ParametersReady{id, std::vector<Digest>(kFragments, Digest{1, 1})}, now);
}

// One round is one heartbeat of every worker, and the ticks that the core requests in between.
nlohmann::json Simulated(uint64_t count, uint64_t jobs, uint64_t rounds) {
  const SystemClock clock;
  const Duration interval = limits::kHeartbeatInterval;
  const double held = static_cast<double>(mallinfo2().uordblks);
  Instant now = clock.Now();
  Core core({interval, limits::kMembershipTimeout, static_cast<uint32_t>(count)}, {.boot = {1}}, now);
  (void)core.Start(now);
  const double join_begin = OwnCpuSeconds();
  for (uint64_t job = 0; job < jobs; ++job) Begin(core, JobOf(job, jobs), (count + jobs - 1 - job) / jobs, now);
  std::vector<JobId> jobs_of(count);
  for (uint64_t i = 0; i < count; ++i) {
    for (const Send& send : core.Step(WorkerConnected{i + 1, HelloOf(i)}, now).sends) {
      const auto* given = std::get_if<Assignment>(&send.message);
      if (given == nullptr) continue;
      jobs_of[send.connection - 1] = given->job;
      (void)core.Step(WorkerSaid{send.connection, Ready{.job = given->job}}, now);
    }
  }
  const double join_cpu = OwnCpuSeconds() - join_begin;
  const std::vector<WorkerView> views = core.ViewWorkers(now);
  const WorkerState wanted = jobs == 0 ? WorkerState::kIdle : WorkerState::kTraining;
  const bool all =
      std::all_of(views.begin(), views.end(), [&](const WorkerView& view) { return view.state == wanted; });
  ATOLL_CHECK(views.size() == count && all, "the core does not have all workers at work");
  std::vector<double> seconds, cpu, median, high;
  for (uint64_t round = 0; round <= rounds; ++round) {
    std::vector<double> steps;
    steps.reserve(count);
    const Instant start = clock.Now();
    const double from = OwnCpuSeconds();
    for (uint64_t i = 0; i < count; ++i) {
      now = now + Duration{interval.ns / static_cast<int64_t>(count)};
      Heartbeat heartbeat;
      heartbeat.sequence = round + 1;
      heartbeat.job = jobs_of[i];
      heartbeat.step = (round + 1) * kStepsAHeartbeat;
      heartbeat.step_ns = interval.ns / kStepsAHeartbeat;
      heartbeat.activity = WorkerActivity::kTraining;
      // As the engine does: after every event it asks for the next tick.
      const Instant step = clock.Now();
      (void)core.Step(WorkerSaid{i + 1, std::move(heartbeat)}, now);
      if (now >= core.NextWake()) (void)core.Step(Tick{}, now);
      steps.push_back(ToSeconds(clock.Now() - step) * 1e3);
    }
    if (round == 0) continue;
    seconds.push_back(ToSeconds(clock.Now() - start));
    cpu.push_back(OwnCpuSeconds() - from);
    median.push_back(Percentile(steps, 0.5));
    high.push_back(Percentile(steps, 0.99));
  }
  return {
      {"name", jobs == 1 ? "core alone, in one job"
                         : absl::StrCat("core alone, ", jobs == 0 ? "without" : absl::StrCat("in ", jobs), " jobs")},
      {"bytes", 0},
      {"workers", count},
      {"interval_seconds", ToSeconds(interval)},
      {"join_cpu_seconds", join_cpu},
      {"seconds", seconds},
      {"cpu_seconds", cpu},
      {"median_ms", median},
      {"p99_ms", high},
      {"bytes_per_worker", (static_cast<double>(mallinfo2().uordblks) - held) / static_cast<double>(count)}};
}

int Run(const std::vector<std::string>& words) {
  std::vector<uint64_t> numbers;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &numbers.emplace_back()) || (numbers.back() == 0 && i != 2)) return 2;
  }
  if (words.size() == 6 && (words[0] == "streams" || words[0] == "idle")) {
    SilenceTransportLog();
    std::cout << Streams(words[0] == "idle", numbers[0], numbers[1], numbers[2], numbers[3],
                         Seconds(static_cast<int64_t>(numbers[4])))
              << std::endl;
    return 0;
  }
  if (words.size() == 4 && words[0] == "core") {
    std::cout << Simulated(numbers[0], numbers[1], numbers[2]) << std::endl;
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) { return atl::bench::Run(std::vector<std::string>(argv + 1, argv + argc)); }
