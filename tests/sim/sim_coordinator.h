// SPDX-License-Identifier: Apache-2.0
// One life of a coordinator in one thread: the production engine, service and store over the parts
// that outlive a life.
#ifndef ATOLL_TESTS_SIM_SIM_COORDINATOR_H_
#define ATOLL_TESTS_SIM_SIM_COORDINATOR_H_

#include <functional>
#include <memory>
#include <utility>

#include "common/telemetry/metrics.h"
#include "coordinator/engine/engine.h"
#include "coordinator/service/bulk_sessions.h"
#include "coordinator/service/control_sessions.h"
#include "coordinator/store/data_directory.h"

namespace atl {

inline constexpr char kRoot[] = "/state";
inline constexpr uint64_t kSecret = 1;  // of the round log

struct SimCoordinatorParts {
  Files& files;
  Clock& clock;
  Executor& work;
  Executor& snapshot_work;
  Log& log;
  std::function<void(const absl::Status&)> fatal;
};

// Members are destroyed in reverse order. All arguments outlive it.
struct SimCoordinator {
  SimCoordinator(const SimCoordinatorParts& p, RecoveredState recovered, std::unique_ptr<Ledger> l,
                 std::unique_ptr<EventLog> e)
      : ledger(std::move(l)),
        rounds(p.files, DataDirectory(kRoot), recovered.boot, kSecret),
        snapshots(p.files, DataDirectory(kRoot), recovered.boot),
        blobs(p.files, DataDirectory(kRoot)),
        events(std::move(e)),
        data({p.files, p.clock, p.work, p.work, p.snapshot_work, p.work, p.work, p.work, p.work, *ledger, rounds,
              snapshots, blobs, DataDirectory(kRoot), p.log, "", 1, p.fatal}),
        engine({.core = {Seconds(2), Seconds(20)}}, {p.clock, p.work, *ledger, data, *events, metrics, p.log, p.fatal},
               std::move(recovered)),
        controls(engine, p.clock, p.log),
        bulk(engine, data) {}

  std::unique_ptr<Ledger> ledger;
  RoundLog rounds;
  SnapshotStore snapshots;
  BlobStore blobs;
  std::unique_ptr<EventLog> events;
  Metrics metrics;
  DataPlane data;
  Engine engine;
  ControlSessions controls;
  BulkSessions bulk;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SIM_COORDINATOR_H_
