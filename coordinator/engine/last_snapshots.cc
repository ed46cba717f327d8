#include "coordinator/engine/last_snapshots.h"

#include <chrono>
#include <future>

#include "coordinator/engine/data_plane.h"

namespace atl {

void WriteLastSnapshots(DataPlane& data, Log& log, const std::function<bool()>& go_on) {
  const auto last = std::make_shared<LastSnapshots>();
  const auto written = std::make_shared<std::promise<void>>();
  const std::future<void> done = written->get_future();
  data.SnapshotAll(last, [written] { written->set_value(); });
  if (!last->fragments.empty()) log.Info("writing snapshots", {{"fragments", last->fragments.size()}});
  while (done.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (!last->go_on || go_on()) continue;
    last->go_on = false;
    log.Warn("stopping without further snapshots", {{"reason", "asked a second time"}});
  }
  if (last->written < last->fragments.size())
    log.Warn("snapshots missing", {{"fragments", last->fragments.size() - last->written},
                                   {"what", "the next start recomputes them from the log"}});
}

}  // namespace atl
