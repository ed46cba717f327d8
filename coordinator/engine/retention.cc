// SPDX-License-Identifier: Apache-2.0
// Removes whole epochs that a rollback discarded, and the files of ended jobs from which nothing can start
// again. A removal runs after all earlier work on the files, so that nothing is written there later.
#include <set>
#include <utility>

#include "coordinator/core/core.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/store/epochs_on_disk.h"

namespace atl {
namespace {

// Files removed in one turn. A job that kept all rounds can have many large files; uploads of other
// jobs run in between.
constexpr size_t kFilesAtATime = 16;

VersionVector HeadsOf(const JobView& view) {
  VersionVector heads;
  for (const FragmentView& fragment : view.fragments) heads.push_back(fragment.version);
  return heads;
}

}  // namespace

void DataPlane::DropGivenUp(const JobId& job, uint64_t epoch) {
  bool more = false;
  for (const absl::StatusOr<bool>& dropped : {parts_.rounds.DropEpochsBefore(job, epoch, kFilesAtATime),
                                              parts_.snapshots.DropEpochsBefore(job, epoch, kFilesAtATime)}) {
    more = more || (dropped.ok() && !*dropped);
    if (!dropped.ok())
      parts_.log.Warn(
          "unneeded files not removed",
          {{"job", job.value}, {"epochs_below", epoch}, {"reason", std::string(dropped.status().message())}});
  }
  if (more) parts_.io.Post([this, job, epoch] { DropGivenUp(job, epoch); });
}

void DataPlane::DropEnded(const JobView& view, bool purged) {
  if (view.record.spec.checkpoint.keep_contributions && !purged) return;
  BehindSnapshots([this, purged, job = view.record.job, epoch = view.record.epoch, heads = HeadsOf(view)] {
    parts_.io.Post([this, purged, job, epoch, heads] {
      if (purged) return DropGivenUp(job, epoch + 1);
      DropGivenUp(job, epoch);
      const absl::Status dropped = DropLogOfEnded(job, epoch, heads);
      if (!dropped.ok())
        parts_.log.Warn("round log of an ended job not removed",
                        {{"job", job.value}, {"reason", std::string(dropped.message())}});
    });
  });
}

absl::Status DataPlane::DropLogOfEnded(const JobId& job, uint64_t epoch, const VersionVector& heads) {
  ATOLL_ASSIGN_OR_RETURN(const std::vector<uint64_t> there,
                         EpochsOnDisk(parts_.files, parts_.directory.RoundsDirectory(job)));
  if (there.empty()) return absl::OkStatus();  // the usual case: removed at an earlier start
  bool superfluous = true;
  for (uint32_t i = 0; i < heads.size(); ++i) {
    const FragmentIndex fragment{i};
    ATOLL_RETURN_IF_ERROR(parts_.snapshots.DropUnfinished(job, epoch, fragment));
    ATOLL_ASSIGN_OR_RETURN(const std::optional<Version> newest,
                           parts_.snapshots.NewestUpTo(job, epoch, fragment, heads[i]));
    superfluous = superfluous && newest == heads[i];
    if (!newest) continue;
    ATOLL_RETURN_IF_ERROR(parts_.snapshots.DropBefore(job, epoch, fragment, *newest));
    ATOLL_RETURN_IF_ERROR(parts_.rounds.DropBefore(job, epoch, fragment, *newest).status());
  }
  // Also drops an open segment: the round that starts from the head gathers no more contributions.
  return superfluous ? parts_.rounds.DropEpochsBefore(job, epoch + 1).status() : absl::OkStatus();
}

void DataPlane::DropForgotten(const JobView& view) {
  std::set<uint64_t> known;
  for (const CheckpointRecord& checkpoint : view.checkpoints) {
    if (checkpoint.complete || !HasEnded(view.record.state)) known.insert(checkpoint.step);
  }
  parts_.snapshot_io.Post([this, known = std::move(known), job = view.record.job, epoch = view.record.epoch,
                           heads = HeadsOf(view)] {
    const auto kept = parts_.snapshots.DropCheckpointsBut(known, job, epoch, heads);
    if (!kept.ok())
      return parts_.log.Warn("dropped checkpoints not removed",
                             {{"job", job.value}, {"reason", std::string(kept.status().message())}});
    for (const uint64_t step : *kept)
      parts_.log.Warn("checkpoint missing from the ledger",
                      {{"job", job.value}, {"step", step}, {"reason", "the ledger is an older copy than this file"}});
  });
}

void DataPlane::DropLeftOvers(const JobView& view) {
  DropForgotten(view);
  if (HasEnded(view.record.state)) DropEnded(view, !view.record.parameters_ready);
}

}  // namespace atl
