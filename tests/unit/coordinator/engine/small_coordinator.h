// SPDX-License-Identifier: Apache-2.0
// An engine with its executors, an in-memory disk with faults, an in-memory ledger and a manual
// clock, for tests of a coordinator without workers. Single-threaded.
#ifndef ATOLL_TESTS_UNIT_COORDINATOR_ENGINE_SMALL_COORDINATOR_H_
#define ATOLL_TESTS_UNIT_COORDINATOR_ENGINE_SMALL_COORDINATOR_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/executor.h"
#include "common/plan/job_validation.h"
#include "common/telemetry/event_log.h"
#include "coordinator/engine/engine.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_ledger.h"
#include "tests/unit/coordinator/store/sim_disk.h"

namespace atl {

// The part that outlives a process.
struct SmallDisk {
  SimDisk files;
  MemoryLedgerDisk ledger;
};

// A resolved job of about 16,000 parameters in one fragment.
inline JobSpec TinySpec(const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.model = {.vocab_size = 64, .hidden_size = 16, .layers = 4, .heads = 2};
  spec.data.corpora = {{.name = "toy", .manifest = Sha256Of(AsBytes(std::string("toy"))), .weight = 1}};
  spec.data.sequence_length = 16;
  spec.sync.inner_steps = 10;
  spec.workers = {.min = 1, .max = 8, .planned = 2};
  spec.stop.inner_steps = 60;
  (void)ResolveDefaults(spec, 64);
  return spec;
}

// The first event of that kind; null if there is none.
template <typename T>
const T* Find(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (const auto* found = std::get_if<T>(&event)) return found;
  }
  return nullptr;
}

class SmallCoordinator {
 public:
  SmallCoordinator(SmallDisk& disk, ManualClock& its_clock, std::string data_root = "")
      : clock(its_clock),
        log({.minimum = LogLevel::kError}),
        ledger(MakeMemoryLedger(disk.ledger, {})),
        recovered(*ledger->Recover()),
        rounds(disk.files, DataDirectory("/state"), recovered.boot, /*secret=*/1),
        snapshots(disk.files, DataDirectory("/state"), recovered.boot),
        blobs(disk.files, DataDirectory("/state")),
        events(*EventLog::Open(disk.files, {.directory = "/state/events"})),
        data({disk.files, its_clock, work, work, snapshot_work, work, prepare_work, blob_work, work, *ledger, rounds,
              snapshots, blobs, DataDirectory("/state"), log, std::move(data_root), 1,
              [](const absl::Status& status) { ATOLL_CHECK(status.ok(), "a fatal status"); }}),
        engine({.core = {.heartbeat_interval = Seconds(2), .membership_timeout = Seconds(20), .boot_nonce = 42}},
               {its_clock, work, *ledger, data, *events, metrics, log,
                [](const absl::Status& status) { ATOLL_CHECK(status.ok(), "a fatal status"); }},
               recovered) {
    engine.Start();
  }

  // Runs everything that can happen without the passage of time.
  void Settle() {
    for (int i = 0; i < 100; ++i) {
      const Instant next = engine.Turn();
      if (RunWork() == 0 && i > 2 && next > clock.Now()) return;
    }
  }
  // Runs until nothing is left to do; returns the number of jobs run.
  size_t RunWork() {
    size_t ran = 0;
    while (const size_t more = work.RunAll() + snapshot_work.RunAll() + prepare_work.RunAll() + blob_work.RunAll())
      ran += more;
    return ran;
  }
  // Lets time pass; the engine turns every second.
  void Pass(Duration time) {
    for (const Instant end = clock.Now() + time; clock.Now() < end; Settle())
      clock.Set(std::min(end, clock.Now() + Seconds(1)));
  }
  // Lets time pass while nothing runs.
  void Stall(Duration time) {
    clock.Set(clock.Now() + time);
    Settle();
  }
  // Posts a round without contributions to the compute executor.
  void CloseEmptyRound(const JobRecord& job, FragmentVersion target) {
    struct CloseRound task;
    task.job = job.job;
    task.target = target;
    data.CloseRound(task, job, BootNumber{1});
  }
  absl::Status Ask(Event event) {
    std::optional<absl::Status> answer;
    engine.Ask(std::move(event), [&answer](const RequestAnswered& answered) { answer = answered.status; });
    Settle();
    return answer.value_or(absl::DeadlineExceededError("no answer"));
  }
  absl::Status Submit(const JobSpec& spec, uint64_t dataset_samples = 1000) {
    const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    return Ask(JobSubmitted{.spec = spec,
                            .fragments = static_cast<uint32_t>(layout.fragments.size()),
                            .stop_step = PlannedInnerSteps(spec),
                            .dataset_samples = dataset_samples,
                            .held_out_samples = 0,
                            .wall_nanos = clock.WallNanos()});
  }
  JobView View(const std::string& job) {
    std::optional<JobView> view;
    engine.Query([&](const Core& core, const History&, Instant now) { view = core.ViewJob(JobId{job}, now); });
    Settle();
    ATOLL_CHECK(view.has_value(), "the job is there");
    return *view;
  }

  ManualClock& clock;
  ManualExecutor work, snapshot_work, prepare_work, blob_work;  // the last three: snapshots, loads, uploaded files
  Log log;
  Metrics metrics;
  std::unique_ptr<Ledger> ledger;
  RecoveredState recovered;
  RoundLog rounds;
  SnapshotStore snapshots;
  BlobStore blobs;
  std::unique_ptr<EventLog> events;
  DataPlane data;
  Engine engine;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COORDINATOR_ENGINE_SMALL_COORDINATOR_H_
