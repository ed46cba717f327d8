// SPDX-License-Identifier: Apache-2.0
#include "common/plan/coordinator_needs.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 1,000 parameters in two fragments of 600 and 400, fp32 up, bf16 down, 4 workers, 10 rounds.
JobSizes Sizes() {
  return {.parameters = 1000,
          .fragments = 2,
          .contribution_bytes = 4000,
          .largest_contribution_bytes = 2400,
          .update_bytes = 2000};
}
JobSpec Spec() {
  JobSpec spec;
  spec.workers = {.min = 2, .max = 4, .planned = 4};
  spec.sync.inner_steps = 10;
  spec.stop.inner_steps = 90;
  return spec;
}

TEST(NeedsOf, AddsUpTheMemory) {
  // State, copies being written, two updates, the contributions of the largest fragment, frames in
  // flight, the previous outer step.
  const uint64_t rest = 12'000u + 12'000u + 4'000u + 4 * 2'400u + 4 * kTransportBytesPerWorker;
  EXPECT_EQ(NeedsOf(Spec(), Sizes()).memory_bytes, rest + 4'000u);
}

TEST(NeedsOf, AddsUpWhatLiesOnDisk) {
  // Two snapshots, a third and updates for joiners, four rounds including the open one, and the
  // final checkpoint.
  const uint64_t round = 4 * 4'000 + 2'000;
  EXPECT_EQ(NeedsOf(Spec(), Sizes()).disk_bytes, 24'000u + 16'000u + 4 * round + 12'000u);
  // Small rounds: the log between two snapshots, one round larger than it, and the open one.
  JobSizes small = Sizes();
  small.contribution_bytes = small.largest_contribution_bytes = 500;
  EXPECT_EQ(NeedsOf(Spec(), small).disk_bytes, 24'000u + 16'000u + 12'000u + 2 * (4 * 500 + 2'000) + 12'000u);
}

TEST(NeedsOf, CountsTheCheckpointsThatRetentionKeeps) {
  JobSpec spec = Spec();
  const uint64_t with_one = NeedsOf(spec, Sizes()).disk_bytes;
  spec.checkpoint = {.every_rounds = 2, .keep_last = 2, .keep_every = 0};
  EXPECT_EQ(NeedsOf(spec, Sizes()).disk_bytes - with_one, 2 * 12'000u);  // two and the one being written
  spec.checkpoint.keep_every = 2;                                        // versions 4 and 8
  EXPECT_EQ(NeedsOf(spec, Sizes()).disk_bytes - with_one, 4 * 12'000u);
  spec.checkpoint = {.every_rounds = 5, .keep_last = 100, .keep_every = 0};  // no more than are made
  EXPECT_EQ(NeedsOf(spec, Sizes()).disk_bytes - with_one, 2 * 12'000u);
}

TEST(NeedsOf, KeptContributionsAreEveryRound) {
  JobSpec spec = Spec();
  const uint64_t dropped = NeedsOf(spec, Sizes()).disk_bytes;
  spec.checkpoint.keep_contributions = true;
  // Also the snapshot before these rounds; no separate updates are kept.
  EXPECT_EQ(NeedsOf(spec, Sizes()).disk_bytes - dropped, (11 - 4) * (4 * 4'000u + 2'000u) + 12'000u - 4'000u);
}

TEST(NeedsOf, NeverWraps) {
  JobSizes sizes = Sizes();
  sizes.parameters = sizes.contribution_bytes = sizes.largest_contribution_bytes = UINT64_MAX / 2;
  EXPECT_EQ(NeedsOf(Spec(), sizes).memory_bytes, UINT64_MAX);
  EXPECT_EQ(NeedsOf(Spec(), sizes).disk_bytes, UINT64_MAX);
}

TEST(TakenOnDisk, IsTheCertainPartAndAtMostTheNeed) {
  JobSpec spec = Spec();
  EXPECT_EQ(TakenOnDisk(spec, Sizes(), 0, 0), 12'000u);
  EXPECT_EQ(TakenOnDisk(spec, Sizes(), 3, 100), 36'000u);
  EXPECT_EQ(TakenOnDisk(spec, Sizes(), 1000, 0), NeedsOf(spec, Sizes()).disk_bytes);
  spec.checkpoint.keep_contributions = true;
  EXPECT_EQ(TakenOnDisk(spec, Sizes(), 0, 5), 12'000u + 2 * 2 * 4'000u);  // two whole rounds of two workers
  spec.experiment.drop_sync_probability = 0.1;
  EXPECT_EQ(TakenOnDisk(spec, Sizes(), 0, 5), 12'000u + 2 * 4'000u) << "the other worker's syncs may be dropped";
}

TEST(CheckCapacity, RefusesWithTheFigures) {
  const CoordinatorNeeds others{.memory_bytes = 100 * kMiB, .disk_bytes = 50 * kMiB};
  const CoordinatorCapacity capacity{
      .memory_bytes = 264 * kMiB, .disk_free_bytes = 400 * kMiB, .disk_total_bytes = 1000 * kMiB};
  EXPECT_TRUE(CheckCapacity(capacity, {100 * kMiB, 250 * kMiB}, others, 8).ok());

  const absl::Status memory = CheckCapacity(capacity, {101 * kMiB, 250 * kMiB}, others, 8);
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(memory.message()),
            "the job may need 101.0 MiB of the coordinator's memory with 8 workers (workers.max), and 100.0 MiB of "
            "264.0 MiB are not reserved for the unfinished jobs; choose a smaller sync.upload_codec or model, "
            "wait for another job to end, or give the coordinator more memory");

  const absl::Status disk = CheckCapacity(capacity, {100 * kMiB, 251 * kMiB}, others, 8);
  EXPECT_EQ(disk.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(disk.message()),
            "the job may need 251.0 MiB of the coordinator's disk with 8 workers (workers.max), and 250.0 MiB of "
            "400.0 MiB free are not reserved for the unfinished jobs or as the tenth of the disk that stays free; "
            "remove checkpoint.keep_contributions if the job sets it, lower checkpoint.keep_last, free space on the "
            "disk of the "
            "state directory, or raise --disk-budget if it is given");
}

// A job that uses all remaining memory must not be killed because a hostile peer fills gRPC's
// buffers.
TEST(CheckCapacity, LeavesWhatConnectionsMayTake) {
  EXPECT_EQ(PortQuotaBytes(0), 256 * kMiB);
  EXPECT_EQ(PortQuotaBytes(256 * kMiB), 64 * kMiB);
  EXPECT_EQ(PortQuotaBytes(1024 * kMiB), 128 * kMiB);
  EXPECT_EQ(PortQuotaBytes(32768 * kMiB), 256 * kMiB);
  EXPECT_EQ(PortQuotaBytes(65536 * kMiB), 512 * kMiB);
  EXPECT_EQ(PortQuotaBytes(1048576 * kMiB), 1024 * kMiB);
  const CoordinatorCapacity capacity{.memory_bytes = 400 * kMiB, .transport_bytes = 136 * kMiB};
  EXPECT_TRUE(CheckCapacity(capacity, {.memory_bytes = 200 * kMiB}, {}, 8).ok());
  const absl::Status refused = CheckCapacity(capacity, {.memory_bytes = 201 * kMiB}, {}, 8);
  EXPECT_NE(std::string(refused.message())
                .find("200.0 MiB of 400.0 MiB are not reserved for the unfinished jobs and the 136.0 MiB reserved for "
                      "connections; choose"),
            std::string::npos)
      << refused;
}

TEST(CheckCapacity, EveryFragmentTakesAnOpenFile) {
  EXPECT_EQ(NeedsOf(Spec(), Sizes()).open_files, 2u);
  const CoordinatorNeeds others{.open_files = 30};
  const CoordinatorCapacity capacity{.open_files = kCoordinatorOpenFiles + 100};
  EXPECT_TRUE(CheckCapacity(capacity, {.open_files = 70}, others, 8).ok());
  const absl::Status refused = CheckCapacity(capacity, {.open_files = 71}, others, 8);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      std::string(refused.message()),
      "the job needs 71 open files at the coordinator, one for each fragment or file of its initial weights; it may "
      "open 70 more besides its "
      "connections and the unfinished jobs; choose sync.fragments with fewer fragments, wait for another job to end, "
      "or raise the coordinator's limit of open files (ulimit -Hn, LimitNOFILE= of its service)");
}

TEST(CheckCapacity, UnknownCapacityRefusesNothing) {
  EXPECT_TRUE(CheckCapacity({}, {UINT64_MAX, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}, 8).ok());
}

TEST(CheckCapacity, OthersMayNeedMoreThanThereIs) {
  EXPECT_FALSE(CheckCapacity({.memory_bytes = kMiB}, {1, 1}, {UINT64_MAX, 0}, 8).ok());
  EXPECT_FALSE(CheckCapacity({.disk_free_bytes = kMiB, .disk_total_bytes = kMiB}, {1, 1}, {0, UINT64_MAX}, 8).ok());
}

TEST(CheckJobFits, NamesTheMostWorkersThatFit) {
  JobSpec spec = Spec();
  spec.workers = {.min = 2, .max = 64, .planned = 2};
  const uint64_t per_worker = 2'400 + kTransportBytesPerWorker;
  const uint64_t with_64 = NeedsOf(spec, Sizes()).memory_bytes;
  CoordinatorCapacity capacity{.memory_bytes = kCoordinatorBaseBytes + with_64};
  EXPECT_TRUE(CheckJobFits(capacity, spec, Sizes(), 0, {}).ok());
  capacity.memory_bytes -= 60 * per_worker;
  const absl::Status refused = CheckJobFits(capacity, spec, Sizes(), 0, {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message())
                .find("not reserved for the unfinished jobs; with 4 workers at most the job fits (--set "
                      "workers.max=4); or choose a "
                      "smaller sync.upload_codec or model"),
            std::string::npos)
      << refused;
  spec.workers.max = 4;
  EXPECT_TRUE(CheckJobFits(capacity, spec, Sizes(), 0, {}).ok()) << "what it names is taken";

  spec.workers = {.min = 2, .max = 64, .planned = 5};
  EXPECT_NE(std::string(CheckJobFits(capacity, spec, Sizes(), 0, {}).message())
                .find("(--set workers.max=4; workers.min, workers.planned and sync.quorum must be no larger)"),
            std::string::npos);
  capacity.memory_bytes = kCoordinatorBaseBytes;  // not even for one
  EXPECT_EQ(std::string(CheckJobFits(capacity, spec, Sizes(), 0, {}).message()).find("--set"), std::string::npos);
}

TEST(CheckJobFits, BytesOnDiskAreNotCountedAgain) {
  const CoordinatorNeeds needs = NeedsOf(Spec(), Sizes());
  const CoordinatorCapacity capacity{.disk_free_bytes = needs.disk_bytes - 1'000, .disk_total_bytes = 100};
  EXPECT_FALSE(CheckJobFits(capacity, Spec(), Sizes(), 0, {}).ok());
  EXPECT_TRUE(CheckJobFits(capacity, Spec(), Sizes(), 1'010, {}).ok());
}

TEST(BinarySize, ReadsWell) {
  EXPECT_EQ(BinarySize(1536 * kMiB), "1.5 GiB");
  EXPECT_EQ(BinarySize(kMiB / 2), "0.5 MiB");
}

}  // namespace
}  // namespace atl
