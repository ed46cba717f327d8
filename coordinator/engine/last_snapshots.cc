// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/last_snapshots.h"

#include <chrono>
#include <future>

#include "coordinator/engine/data_plane.h"

namespace atl {

void WriteLastSnapshots(DataPlane& data, Log& log, const std::function<bool()>& go_on) {
  constexpr char kNext[] =
      "the next start of this release recomputes that from the log; one that computes otherwise cannot";
  const auto last = std::make_shared<LastSnapshots>();
  const auto written = std::make_shared<std::promise<void>>();
  const std::future<void> done = written->get_future();
  data.SnapshotAll(last, [written] { written->set_value(); });
  if (!last->fragments.empty()) log.Info("writing snapshots", {{"fragments", last->fragments.size()}});
  while (done.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (go_on() || !last->go_on.exchange(false)) continue;
    log.Warn("stopping without further snapshots", {{"reason", "asked a second time"}});
  }
  const size_t missing = last->fragments.size() - last->written;
  if (missing > 0) log.Warn("snapshots missing", {{"fragments", missing}, {"what", kNext}});
  for (const JobId& job : last->loading)
    log.Warn("snapshots missing", {{"job", job.value}, {"reason", "it was being loaded"}, {"what", kNext}});
}

}  // namespace atl
