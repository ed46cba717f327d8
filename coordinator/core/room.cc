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
  for (auto& [id, job] : jobs_) job.On(e);
}

void Job::On(const DiskSpace& e) {
  if (HasEnded(run_.record.state)) return;
  if (e.low) return core_.Note(run_.id(), "disk almost full", absl::StrCat(kDiskLow, "; it goes on by itself then"));
  core_.Note(run_.id(), "disk has room", "the coordinator's disk has room again: uploads go on");
  AllowAfresh({});
}

void Job::On(const PreparationDelayed& e) {
  if (!run_.loading) return;
  WaitForRoom("the parameters wait", e.reason);
}

void Job::On(const CheckpointDelayed& e) {
  if (!run_.loaded || !run_.checkpoints.IsBegun(e.step)) return;
  WaitForRoom(absl::StrCat("the checkpoint at step ", e.step, " waits"), e.reason);
}

// Writes no record, because a commit needs space too.
void Job::WaitForRoom(const std::string& what, const std::string& reason) {
  const bool first = run_.no_room.empty();
  run_.no_room = absl::StrCat("the coordinator's disk is full: ", what, " for room (", reason, ")");
  run_.retry_at = core_.now + kRoomRetry;
  if (first) core_.Note(run_.id(), "disk full", absl::StrCat(run_.no_room, "; free space, it goes on by itself"));
}

void Job::RetryOnceDue() {
  if (run_.no_room.empty() || core_.now < run_.retry_at) return;
  run_.retry_at = kNever;
  if (run_.loaded) {
    core_.Add(run_.checkpoints.Retry(run_.Versions(), run_.IsMerging()));
  } else if (run_.loading) {
    core_.out.tasks.push_back(LoadTaskOf(run_));
  }
}

}  // namespace atl
