// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/optimizer_shelf.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/train/optimizer_snapshot.h"

namespace atl {
namespace {

constexpr int64_t kShareOfTime = 100;  // a pause is at least this multiple of the last snapshot's duration
constexpr uint64_t kBytesAnElement = 2 * sizeof(float);

}  // namespace

OptimizerShelf::OptimizerShelf(OptimizerShelfOptions options, JobId job, Digest layout, Files& files,
                               const Clock& clock, Log& log)
    : options_(std::move(options)),
      job_(std::move(job)),
      layout_(layout),
      directory_(JoinPath(JoinPath(options_.cache_dir, "optimizer"), options_.worker)),
      path_(JoinPath(directory_, job_.value + ".safetensors")),
      files_(files),
      clock_(clock),
      log_(log),
      due_(clock.Now() + options_.interval) {}

absl::Status OptimizerShelf::Begin(const JobStanding& at, Trainer& trainer) {
  if (options_.interval.ns == 0) return trainer.ResetOptimizer();
  const absl::StatusOr<uint64_t> taken = ReadOptimizerSnapshot(
      files_, path_, {job_, layout_, at.clock_step + options_.slack_steps, at.versions, at.course}, trainer);
  if (taken.ok()) {
    log_.Info("optimizer state restored",
              {{"job", job_.value}, {"kept_at_step", *taken}, {"steps", trainer.optimizer_steps()}});
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(taken.status())) {
    log_.Warn("optimizer state reset", {{"job", job_.value}, {"why", std::string(taken.status().message())}});
  }
  return trainer.ResetOptimizer();
}

void OptimizerShelf::Keep(const JobStanding& at, bool leaving, Trainer& trainer) {
  if (options_.interval.ns == 0 || trainer.optimizer_steps() == 0 || trainer.first_moments() == nullptr) return;
  const Instant began = clock_.Now();
  if (!leaving && began < due_) return;
  const absl::Status kept = Write(at, trainer);
  const Instant now = clock_.Now();
  const Duration rest{(now - began).ns * kShareOfTime};
  due_ = now + std::max(options_.interval, rest);
  if (kept.ok()) {
    told_ = false;
    log_.Debug("optimizer state saved", {{"job", job_.value}, {"step", at.clock_step}, {"path", path_}});
    return;
  }
  if (!told_) log_.Warn("optimizer state not saved", {{"job", job_.value}, {"why", std::string(kept.message())}});
  told_ = true;
}

absl::Status OptimizerShelf::Write(const JobStanding& at, Trainer& trainer) {
  ATOLL_RETURN_IF_ERROR(files_.MakeDirectory(directory_));
  ATOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(directory_));
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory_, name);
    if (path != path_) ATOLL_RETURN_IF_ERROR(files_.Remove(path));
  }
  // The previous snapshot stays until this one is complete, so the disk must have space for both.
  const uint64_t bytes = trainer.first_moments()->elements() * kBytesAnElement;
  if (const auto space = files_.SpaceAt(directory_);
      space.ok() && space->free_bytes < bytes + space->total_bytes / 20) {
    return absl::ResourceExhaustedError(absl::StrCat(directory_, " has ", space->free_bytes >> 20, " MiB free, but ",
                                                     bytes >> 20,
                                                     " MiB are needed, with a twentieth of the disk free afterwards; "
                                                     "free disk space, or start with --optimizer-snapshot 0s"));
  }
  return WriteOptimizerSnapshot(files_, path_, {job_, layout_, at.clock_step, at.versions, at.course}, trainer);
}

}  // namespace atl
