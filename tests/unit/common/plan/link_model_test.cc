// SPDX-License-Identifier: Apache-2.0
// The two link simulations against hand-computed values.
#include "common/plan/link_model.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr double kMegabyte = 1e6;

// `fragments` fragments of one block each, one second per step, one megabyte per fragment and
// direction.
LinkJob Job(uint32_t fragments, uint32_t inner_steps, uint32_t overlap_steps) {
  LinkJob job;
  job.inner_steps = inner_steps;
  job.overlap_steps = overlap_steps;
  for (uint32_t p = 0; p < fragments; ++p) {
    job.units.push_back({p, 1.0 / fragments, kMegabyte});
    job.fragments.push_back({kMegabyte, kMegabyte});
  }
  return job;
}

LinkCapacity At(double megabytes_per_second, double latency_seconds = 0, double round_seconds = 0) {
  return {megabytes_per_second * kMegabyte, megabytes_per_second * kMegabyte, latency_seconds, round_seconds};
}

TEST(CoordinatorUtilization, WithoutOverlapEverySecondOfTheLinkIsWaitedFor) {
  // Up 2 s, down 2 s, in each period of 10 s.
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 0), At(0.5)), 10.0 / 14, 1e-9);
  // Two fragments five steps apart: each causes its own wait.
  EXPECT_NEAR(CoordinatorUtilization(Job(2, 10, 0), At(0.5)), 10.0 / 18, 1e-9);
  // Each direction takes 0.25 s more.
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 0), At(0.5, 0.25)), 10.0 / 14.5, 1e-9);
  // Merging and storing takes a second in each of two rounds; each direction takes 0.25 s more.
  EXPECT_NEAR(CoordinatorUtilization(Job(2, 10, 0), At(0.5, 0.25, 1)), 10.0 / 21, 1e-9);
}

TEST(CoordinatorUtilization, OverlapHidesItsStepsAndNoMore) {
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 4), At(0.5)), 1, 1e-9);
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 3), At(0.5)), 10.0 / 11, 1e-9);
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 6), At(0.5, 0, 2)), 1, 1e-9);
  // The directions are independent: 8 s of upload and 8 s of download in 10 s of steps, in a
  // pipeline of 8 s.
  EXPECT_NEAR(CoordinatorUtilization(Job(4, 10, 8), At(0.5)), 1, 1e-9);
}

TEST(CoordinatorUtilization, AFullLinkIsTheBound) {
  // 40 s of upload in each period of 10 s of steps, whatever the overlap.
  for (const uint32_t overlap : {0u, 5u, 9u})
    EXPECT_LE(CoordinatorUtilization(Job(4, 10, overlap), At(0.1)), 10.0 / 40);
  EXPECT_NEAR(CoordinatorUtilization(Job(4, 10, 9), At(0.1)), 10.0 / 40, 0.1);
}

TEST(CoordinatorUtilization, TheSlowerDirectionCounts) {
  LinkCapacity link = At(1);
  link.download_bytes_per_second = 0.25 * kMegabyte;
  EXPECT_NEAR(CoordinatorUtilization(Job(1, 10, 0), link), 10.0 / 15, 1e-9);
}

TEST(AllReduceUtilization, FirstBlocksTransferIsNotOverlapped) {
  // One block: its gradient is ready at the end of the step and needed at once.
  EXPECT_NEAR(AllReduceUtilization(Job(1, 1, 0), At(0.5)), 1.0 / 3, 1e-9);
  // Ten blocks of 1 MB at 10 MB/s, 0.1 s each. The last block's gradient is sent after 1/15 s of
  // backward, and the tenth arrives 1 s later. Forward takes 1/3 s, all of it except the first
  // block's share after that arrival.
  EXPECT_NEAR(AllReduceUtilization(Job(10, 1, 0), At(1e9)), 1, 1e-6);
  const double step = 1.0 / 3 + 1.0 / 15 + 10 * 0.1;
  EXPECT_NEAR(AllReduceUtilization(Job(10, 1, 0), At(10)), 1 / step, 1e-9);
}

TEST(AllReduceUtilization, OverlapAddsWholeSteps) {
  EXPECT_NEAR(AllReduceUtilization(Job(1, 10, 0), At(0.5)), 10.0 / 12, 1e-9);
  EXPECT_NEAR(AllReduceUtilization(Job(1, 10, 1), At(0.5)), 10.0 / 11, 1e-9);
  EXPECT_NEAR(AllReduceUtilization(Job(1, 10, 2), At(0.5)), 1, 1e-9);
  EXPECT_NEAR(AllReduceUtilization(Job(1, 10, 0), At(0.5, 0.5)), 10.0 / 12.5, 1e-9);
}

TEST(LinkModel, RisesWithTheRateAndThePeriodAndIsBoundedByTheAllReduce) {
  for (const uint32_t fragments : {1u, 3u, 8u}) {
    for (const uint32_t overlap : {0u, 1u, 5u}) {
      double before = 0, before_coordinator = 0;
      for (double rate = 0.01; rate < 100; rate *= 1.3) {
        const LinkJob job = Job(fragments, 24, overlap);
        const double all_reduce = AllReduceUtilization(job, At(rate)),
                     coordinator = CoordinatorUtilization(job, At(rate));
        EXPECT_GE(all_reduce, before - 1e-9);
        EXPECT_GE(coordinator, before_coordinator - 1e-9);
        EXPECT_LE(coordinator, all_reduce + 1e-9)
            << fragments << " fragments, overlap " << overlap << ", rate " << rate;
        EXPECT_GT(coordinator, 0);
        EXPECT_LE(all_reduce, 1);
        before = all_reduce;
        before_coordinator = coordinator;
      }
    }
  }
}

TEST(NeededUploadRate, IsWhereTheTargetIsReached) {
  const LinkJob job = Job(1, 10, 0);
  // Upload and download in sequence may take 10/9 s together at 90 %.
  EXPECT_NEAR(NeededUploadRate(job, At(7), 0.9, &CoordinatorUtilization) / (1.8 * kMegabyte), 1, 1e-5);
  // With 1 s of latency in both directions, 80 % leaves 0.5 s for the bytes, and 90 % leaves
  // nothing.
  EXPECT_NEAR(NeededUploadRate(job, At(7, 1), 0.8, &CoordinatorUtilization) / (4 * kMegabyte), 1, 1e-5);
  EXPECT_EQ(NeededUploadRate(job, At(7, 1), 0.9, &CoordinatorUtilization), 0);
}

}  // namespace
}  // namespace atl
