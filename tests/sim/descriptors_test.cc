// SPDX-License-Identifier: Apache-2.0
// Files that a coordinator holds open: one segment per fragment while a job runs, and none for a
// job that has ended, whatever happened before.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

size_t OpenSegments(Harness& h) {
  const auto& open = h.files().open();
  return static_cast<size_t>(
      std::count_if(open.begin(), open.end(), [](const std::string& path) { return path.ends_with(".seg"); }));
}

// Coarse uploads, and no snapshot except the first: each start recomputes every round.
JobSpec ManyRounds() {
  JobSpec spec = SmallJob(kJob);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.sync.upload_codec = CodecKind::kMxfp4;
  spec.sync.download_codec = CodecKind::kMxfp4;
  spec.stop.inner_steps = 120;
  spec.checkpoint.every_rounds = 1000;
  spec.checkpoint.keep_contributions = true;
  return spec;
}

TEST(Descriptors, WhatARestartReadsIsClosedAgain) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(ManyRounds()).ok());
  h.StartWorker("a");
  const size_t fragments = h.View(kJob)->fragments.size();
  ASSERT_GE(fragments, 2u);
  for (const uint64_t version : {4u, 8u}) {
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= version; }));
    h.KillCoordinator();
    ASSERT_EQ(OpenSegments(h), 0u);
    h.StartCoordinator();
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value > version; }));
    EXPECT_LE(OpenSegments(h), fragments);
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  h.RunFor(Seconds(5));
  EXPECT_EQ(OpenSegments(h), 0u);
}

TEST(Descriptors, ACancelledJobHoldsNoFile) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(ManyRounds()).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 3; }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kCancel).ok());
  h.RunFor(Seconds(5));
  EXPECT_TRUE(h.Ended(kJob));
  EXPECT_EQ(OpenSegments(h), 0u);
}

}  // namespace
}  // namespace atl
