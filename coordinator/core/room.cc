// SPDX-License-Identifier: Apache-2.0
// Handles a full disk: parameters and checkpoints that cannot be written wait for space and are
// retried, and uploads are held before the disk is full. Nothing is lost.
#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

constexpr Duration kRoomRetry = Seconds(5);

}  // namespace

void Machine::On(const DiskSpace& e) {
  if (e.low == core_.disk_low) return;
  core_.disk_low = e.low;
  for (auto& [id, run] : runs_) {
    if (HasEnded(run.record.state)) continue;
    if (e.low) {
      core_.Note(id, "disk almost full", absl::StrCat(kDiskLow, "; it goes on by itself then"));
    } else {
      core_.Note(id, "disk has room", "the coordinator's disk has room again: uploads go on");
      AllowAfresh(run, {});
    }
  }
}

void Machine::On(Run& run, const PreparationDelayed& e) {
  if (!run.loading) return;
  WaitForRoom(run, "the parameters wait", e.reason);
}

void Machine::On(Run& run, const CheckpointDelayed& e) {
  if (!run.loaded || !run.checkpoints.IsBegun(e.step)) return;
  WaitForRoom(run, absl::StrCat("the checkpoint at step ", e.step, " waits"), e.reason);
}

// Writes no record, because a commit needs space too.
void Machine::WaitForRoom(Run& run, const std::string& what, const std::string& reason) {
  const bool first = run.no_room.empty();
  run.no_room = absl::StrCat("the coordinator's disk is full: ", what, " for room (", reason, ")");
  run.retry_at = core_.now + kRoomRetry;
  if (first) core_.Note(run.id(), "disk full", absl::StrCat(run.no_room, "; free space, it goes on by itself"));
}

void Machine::RetryOnceDue(Run& run) {
  if (run.no_room.empty() || core_.now < run.retry_at) return;
  run.retry_at = kNever;
  if (run.loaded) {
    core_.Add(run.checkpoints.Retry(run.Versions(), run.IsMerging()));
  } else if (run.loading) {
    core_.out.tasks.push_back(LoadTaskOf(run));
  }
}

}  // namespace atl
