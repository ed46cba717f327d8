// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/last_snapshots.h"

#include <chrono>
#include <future>

#include "coordinator/engine/data_plane.h"

namespace atl {

void WriteLastSnapshots(DataPlane& data, Log& log, const std::function<bool()>& go_on) {
  constexpr char kNext[] =
      "the next start of this release recomputes them from the log; a release with other arithmetic cannot";
  const auto last = std::make_shared<LastSnapshots>();
  const auto written = std::make_shared<std::promise<void>>();
  const std::future<void> done = written->get_future();
  data.SnapshotAll(last, [written] { written->set_value(); });
  if (!last->fragments.empty()) log.Info("writing snapshots", {{"fragments", last->fragments.size()}});
  while (done.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (go_on() || !last->go_on.exchange(false)) continue;
    log.Warn("stopping without further snapshots", {{"reason", "a second signal arrived"}});
  }
  const size_t missing = last->fragments.size() - last->written;
  if (missing > 0) log.Warn("snapshots missing", {{"fragments", missing}, {"what", kNext}});
  for (const JobId& job : last->loading)
    log.Warn("snapshots missing", {{"job", job.value}, {"reason", "the job was still loading"}, {"what", kNext}});
}

}  // namespace atl
