// SPDX-License-Identifier: Apache-2.0
#include "common/plan/coordinator_needs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/saturating.h"
#include "common/plan/job_validation.h"

namespace atl {
namespace {

constexpr uint64_t kStateBytes = 12;                        // bytes per parameter: public copy, momentum, residual
constexpr uint64_t kFragmentBytes = 4;                      // bytes per parameter of a whole fragment as sent
constexpr uint64_t kComparedStepBytes = uint64_t{1} << 20;  // at most, for a fragment: previous outer step
constexpr uint64_t kRoundsForStragglers = 2;                // rounds kept whatever the newest snapshot
constexpr uint64_t kReservePercent = 10;                    // of the disk: no upload is granted below it

uint64_t PlannedRounds(const JobSpec& spec) {
  return PlannedInnerSteps(spec) / std::max(1u, spec.sync.inner_steps) + 1;
}

// Most checkpoints on disk at once: those that retention keeps and one that is being written, at most all made.
uint64_t PlannedCheckpoints(const JobSpec& spec) {
  const CheckpointSpec& rule = spec.checkpoint;
  const uint64_t made = rule.every_rounds == 0 ? 1 : PlannedRounds(spec) / rule.every_rounds + 1;
  const uint64_t for_good =
      rule.every_rounds == 0 || rule.keep_every == 0 ? 0 : PlannedRounds(spec) / rule.every_rounds / rule.keep_every;
  return std::min(made, std::max<uint64_t>(1, rule.keep_last) + 1 + for_good);
}

}  // namespace

CoordinatorNeeds& CoordinatorNeeds::operator+=(const CoordinatorNeeds& other) {
  memory_bytes = AddSat(memory_bytes, other.memory_bytes);
  disk_bytes = AddSat(disk_bytes, other.disk_bytes);
  open_files = AddSat(open_files, other.open_files);
  return *this;
}

CoordinatorNeeds NeedsOf(const JobSpec& spec, const JobSizes& sizes) {
  const uint64_t workers = spec.workers.max;
  const uint64_t state = MulSat(kStateBytes, sizes.parameters);
  CoordinatorNeeds needs;
  needs.memory_bytes = AddSat(MulSat(2, state), MulSat(2, sizes.update_bytes));
  needs.memory_bytes = AddSat(needs.memory_bytes, MulSat(workers, sizes.largest_contribution_bytes));
  needs.memory_bytes = AddSat(needs.memory_bytes, MulSat(workers, kTransportBytesPerWorker));
  needs.memory_bytes =
      AddSat(needs.memory_bytes, std::min(MulSat(4, sizes.parameters), MulSat(sizes.fragments, kComparedStepBytes)));
  const uint64_t round = AddSat(MulSat(workers, sizes.contribution_bytes), sizes.update_bytes);
  const uint64_t two_rounds = MulSat(kRoundsForStragglers, round);
  // Before a snapshot the log exceeds the size of the state by at most one round; in addition the open round.
  needs.disk_bytes = AddSat(MulSat(2, state), AddSat(std::max(state, two_rounds), two_rounds));
  uint64_t for_joiners = AddSat(state, MulSat(kFragmentBytes, sizes.parameters));
  if (spec.checkpoint.keep_contributions) {
    const uint64_t rounds = MulSat(1 + std::max(PlannedRounds(spec), kRoundsForStragglers), round);
    needs.disk_bytes = AddSat(MulSat(3, state), rounds);  // one more, for the start of the rounds
    for_joiners = state;                                  // the log contains all updates
  }
  needs.disk_bytes = AddSat(needs.disk_bytes, for_joiners);
  needs.disk_bytes = AddSat(needs.disk_bytes, MulSat(PlannedCheckpoints(spec), state));
  needs.open_files = std::max<uint64_t>(sizes.fragments, spec.init.safetensors.size());
  return needs;
}

uint64_t TakenOnDisk(const JobSpec& spec, const JobSizes& sizes, uint64_t checkpoints, uint64_t rounds) {
  const uint64_t state = MulSat(kStateBytes, sizes.parameters);
  // The newest checkpoint may share its files with the newest snapshot.
  uint64_t taken = MulSat(std::max<uint64_t>(1, checkpoints), state);
  // Rounds have at least workers.min contributions until the job ends, but not where syncs are
  // dropped or fewer workers take part on purpose.
  if (spec.checkpoint.keep_contributions) {
    const ExperimentSpec& experiment = spec.experiment;
    const bool fewer = experiment.drop_sync_probability > 0 || experiment.pool != PoolSchedule::kConstant;
    const uint64_t whole_rounds = rounds / std::max(1u, sizes.fragments);
    taken = AddSat(taken, MulSat(whole_rounds, MulSat(fewer ? 1 : spec.workers.min, sizes.contribution_bytes)));
  }
  return std::min(taken, NeedsOf(spec, sizes).disk_bytes);
}

std::string BinarySize(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / static_cast<double>(uint64_t{1} << 20);
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.1f GiB", mib / 1024);
}

uint64_t PortQuotaBytes(uint64_t memory_bytes) {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kUsual = uint64_t{256} << 20, kMost = uint64_t{1} << 30;
  if (memory_bytes == 0) return kUsual;
  return std::max(std::clamp(memory_bytes / 8, kLeast, kUsual), std::min(memory_bytes / 128, kMost));
}

absl::Status CheckCapacity(const CoordinatorCapacity& capacity, const CoordinatorNeeds& wanted,
                           const CoordinatorNeeds& others, uint32_t workers_max, const std::string& way_out) {
  const uint64_t memory_taken = AddSat(AddSat(kCoordinatorBaseBytes, capacity.transport_bytes), others.memory_bytes);
  const uint64_t memory_left = capacity.memory_bytes - std::min(capacity.memory_bytes, memory_taken);
  if (capacity.memory_bytes > 0 && wanted.memory_bytes > memory_left) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job may need ", BinarySize(wanted.memory_bytes), " of the coordinator's memory with ",
                     workers_max, " workers (workers.max), and ", BinarySize(memory_left), " of ",
                     BinarySize(capacity.memory_bytes), " are not reserved for the unfinished jobs",
                     capacity.transport_bytes == 0
                         ? ""
                         : absl::StrCat(" and the ", BinarySize(capacity.transport_bytes), " reserved for connections"),
                     "; ", way_out,
                     "choose a smaller sync.upload_codec or model, wait for another job to end, or give the "
                     "coordinator more memory"));
  }
  const uint64_t reserve = capacity.disk_total_bytes / 100 * kReservePercent;
  const uint64_t disk_left =
      capacity.disk_free_bytes - std::min(capacity.disk_free_bytes, AddSat(reserve, others.disk_bytes));
  if (capacity.disk_total_bytes > 0 && wanted.disk_bytes > disk_left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the job may need ", BinarySize(wanted.disk_bytes), " of the coordinator's disk with ", workers_max,
        " workers (workers.max), and ", BinarySize(disk_left), " of ", BinarySize(capacity.disk_free_bytes),
        " free are not reserved for the unfinished jobs or as the tenth of the disk that stays free; ", way_out,
        "remove checkpoint.keep_contributions if the job sets it, lower checkpoint.keep_last, free space on the "
        "disk of the state directory, or raise --disk-budget if it is given"));
  }
  const uint64_t files_left =
      capacity.open_files - std::min(capacity.open_files, AddSat(kCoordinatorOpenFiles, others.open_files));
  if (capacity.open_files > 0 && wanted.open_files > files_left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the job needs ", wanted.open_files,
        " open files at the coordinator, one for each fragment or file of its initial weights; it may open ",
        files_left,
        " more besides its connections and the unfinished jobs; choose sync.fragments with fewer fragments, wait for "
        "another job to end, or raise the coordinator's limit of open files (ulimit -Hn, LimitNOFILE= of its "
        "service)"));
  }
  return absl::OkStatus();
}

absl::Status CheckJobFits(const CoordinatorCapacity& capacity, const JobSpec& spec, const JobSizes& sizes,
                          uint64_t taken_disk_bytes, const CoordinatorNeeds& others) {
  JobSpec fewer = spec;
  const auto check = [&](uint32_t workers, const std::string& way_out) {
    fewer.workers.max = workers;
    CoordinatorNeeds wanted = NeedsOf(fewer, sizes);
    wanted.disk_bytes -= std::min(wanted.disk_bytes, taken_disk_bytes);
    return CheckCapacity(capacity, wanted, others, workers, way_out);
  };
  absl::Status asked = check(spec.workers.max, "");
  if (asked.ok() || spec.data.pin_shards) return asked;  // there each corpus needs a worker of its own
  uint32_t fits = 0, too_many = spec.workers.max;        // needs grow with the number of workers
  while (too_many - fits > 1) {
    const uint32_t middle = fits + (too_many - fits) / 2;
    (check(middle, "").ok() ? fits : too_many) = middle;
  }
  if (fits == 0) return asked;
  const bool too_few = fits < std::max({spec.workers.min, spec.workers.planned, spec.sync.quorum});
  return check(
      spec.workers.max,
      absl::StrCat("with ", fits, fits == 1 ? " worker" : " workers", " at most the job fits (--set workers.max=", fits,
                   too_few ? "; workers.min, workers.planned and sync.quorum must be no larger" : "", "); or "));
}

}  // namespace atl
